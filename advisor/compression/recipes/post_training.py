"""Forms made from the float file and a few images: weights on a grid, biases corrected, activations in integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.compression.quantization.correction import Grids, correct
from advisor.compression.quantization.quantizer import fitting_images, quantize
from advisor.compression.quantization.ranges import Range, ranges, spans
from advisor.compression.recipes.base import Recipe, Rung
from advisor.compression.recipes.inputs import RecipeInputs
from advisor.tflite.model import read

if TYPE_CHECKING:
    from advisor.compression.quantization.observe import Observation


@dataclass(frozen=True)
class Prepared:
    """A float file whose weights are on their grid, and its activations.

    Attributes:
        model: the float ``.tflite``.
        observation: its activations on the calibration images.
    """

    model: bytes
    observation: Observation

    def spans(self, bits: int = 8) -> Mapping[int, Range]:
        """Return the span of each activation."""
        if bits > 8:
            return spans(self.observation)
        return ranges(self.observation, read(self.model).subgraphs[0].inputs[0])


def prepare(model: bytes, material: RecipeInputs, grids: Grids) -> Prepared:
    """Put the weights on their grid and correct the biases.

    Raises:
        StageError: calibration images are missing or do not fit.
    """
    observation = material.observer(model, fitting_images(model, material.calibration))
    made = material.observer.made
    if grids not in made:
        made[grids] = correct(model, grids, observation)
    return Prepared(made[grids], observation)


def to_integers(prepared: Prepared, make_rules: Callable[[], Any], bits: int = 8) -> bytes:
    """Quantize weights and activations."""
    return quantize(prepared.model, make_rules, prepared.spans(bits))


class Corrected(Recipe):
    """A recipe that puts weights on a grid, corrects the biases for it, and goes on from there.

    Args:
        name: the recipe's name.
        grids: the values that weights are stored as.
        finish: from the corrected float file to the artefact.
        description: one line.
    """

    needs_calibration = True
    rung = Rung.CALIBRATED
    version = 6

    def __init__(self, name: str, grids: Grids, finish: Callable[[bytes], bytes], description: str) -> None:
        self.name, self.description = name, description
        self._grids, self._finish = grids, finish

    def convert(self, model: bytes, material: RecipeInputs, /) -> bytes:
        """Return the artefact."""
        return self._finish(prepare(model, material, self._grids).model)


class Integer(Recipe):
    """A recipe whose weights and activations are integers.

    Args:
        name: the recipe's name.
        grids: the values that weights are stored as.
        make_rules: gives the quantizer's rules.
        description: one line.
        bits: of an activation.
        finish: what is done to the integer file last.
    """

    needs_calibration = True
    rung = Rung.CALIBRATED
    version = 5

    def __init__(
        self,
        name: str,
        grids: Grids,
        make_rules: Callable[[], Any],
        description: str,
        *,
        bits: int = 8,
        finish: Callable[[bytes], bytes] = bytes,
    ) -> None:
        self.name, self.description = name, description
        self._grids, self._rules, self._bits, self._finish = grids, make_rules, bits, finish

    def convert(self, model: bytes, material: RecipeInputs, /) -> bytes:
        """Return the artefact."""
        prepared = prepare(model, material, self._grids)
        return self._finish(to_integers(prepared, self._rules, self._bits))

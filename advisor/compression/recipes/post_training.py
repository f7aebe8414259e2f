"""Recipes that need the float file and a few images: weights on a grid, corrected biases, integer activations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.compression.quantization.correction import correct
from advisor.compression.quantization.grid import Grids
from advisor.compression.quantization.quantizer import fitting_images, quantize
from advisor.compression.quantization.ranges import Range, ranges, spans
from advisor.compression.quantization.rules import MakeRules
from advisor.compression.recipes.base import Needs, Recipe
from advisor.compression.recipes.inputs import RecipeInputs
from advisor.tflite.model import read

if TYPE_CHECKING:
    from advisor.compression.quantization.observe import Observation


@dataclass(frozen=True)
class Prepared:
    """A float file with its weights on the grid, and its activations.

    Attributes:
        model: the float ``.tflite``.
        observation: its activations on the calibration images.
    """

    model: bytes
    observation: Observation

    def spans(self, bits: int = 8) -> Mapping[int, Range]:
        """Return the range of each activation that ``bits`` bits must cover."""
        if bits > 8:
            return spans(self.observation)
        return ranges(self.observation, read(self.model).subgraphs[0].inputs[0])


def prepare(model: bytes, inputs: RecipeInputs, grids: Grids) -> Prepared:
    """Put the weights on their grid and correct the biases.

    Raises:
        StageError: calibration images are missing or have another shape than the model's input.
    """
    observation = inputs.observer(model, fitting_images(model, inputs.calibration))
    corrected = inputs.observer.corrected
    if grids not in corrected:
        corrected[grids] = correct(model, grids, observation)
    return Prepared(corrected[grids], observation)


def to_integers(prepared: Prepared, make_rules: MakeRules, bits: int = 8) -> bytes:
    """Quantize weights and activations."""
    return quantize(prepared.model, make_rules, prepared.spans(bits))


class Corrected(Recipe):
    """A recipe that puts weights on a grid, corrects the biases, and edits the result.

    Args:
        name: the recipe's name.
        grids: the values that weights are stored as.
        finish: turns the corrected float file into the compressed one.
        description: one line.
    """

    needs_calibration = True
    needs = Needs.CALIBRATION
    version = 6

    def __init__(self, name: str, grids: Grids, finish: Callable[[bytes], bytes], description: str) -> None:
        self.name, self.description = name, description
        self._grids, self._finish = grids, finish

    def convert(self, model: bytes, inputs: RecipeInputs, /) -> bytes:
        """Return the compressed file."""
        return self._finish(prepare(model, inputs, self._grids).model)


class Integer(Recipe):
    """A recipe whose weights and activations are integers.

    Args:
        name: the recipe's name.
        grids: the values that weights are stored as.
        make_rules: returns the quantizer's rules.
        description: one line.
        bits: of an activation.
        finish: the last edit of the integer file.
    """

    needs_calibration = True
    needs = Needs.CALIBRATION
    version = 5

    def __init__(
        self,
        name: str,
        grids: Grids,
        make_rules: MakeRules,
        description: str,
        *,
        bits: int = 8,
        finish: Callable[[bytes], bytes] = bytes,
    ) -> None:
        self.name, self.description = name, description
        self._grids, self._rules, self._bits, self._finish = grids, make_rules, bits, finish

    def convert(self, model: bytes, inputs: RecipeInputs, /) -> bytes:
        """Return the compressed file."""
        prepared = prepare(model, inputs, self._grids)
        return self._finish(to_integers(prepared, self._rules, self._bits))

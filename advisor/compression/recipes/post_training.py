"""Recipes that need the float file and a few images: weights on a grid, corrected biases, integer activations."""

from __future__ import annotations

from collections.abc import Callable

from advisor.compression.quantization.correction import correct
from advisor.compression.quantization.grid import Grids
from advisor.compression.quantization.observe import Observation
from advisor.compression.quantization.quantizer import Rules, fitting_inputs, quantize
from advisor.compression.recipes.base import Compressed, Needs, Recipe, RecipeInputs


def prepare(model: bytes, inputs: RecipeInputs, grids: Grids) -> tuple[bytes, Observation]:
    """Return the file with its weights on their grid and its biases corrected, and its activations.

    Raises:
        StageError: calibration images are missing or have another shape than the model's input.
    """
    only = inputs.observer.only
    observation = only or inputs.observer(model, fitting_inputs(model, inputs.calibration))
    corrected = inputs.observer.corrected
    if grids not in corrected:
        corrected[grids] = correct(model, grids, observation)
    return corrected[grids], observation


class PostTraining(Recipe):
    """A recipe that puts weights on a grid, corrects the biases, and stores values as integers.

    Args:
        name: the recipe's name.
        grids: the values that weights are stored as.
        make_rules: returns the quantizer's rules; None leaves the file float.
        description: one line.
        bits: of an activation; 0 if activations stay float.
        finish: the last edit of the file.
    """

    needs_calibration = True
    needs = Needs.CALIBRATION
    grids: Grids

    def __init__(
        self,
        name: str,
        grids: Grids,
        make_rules: Callable[[], Rules] | None,
        description: str,
        *,
        bits: int = 0,
        finish: Callable[[bytes], bytes] = bytes,
    ) -> None:
        self.name, self.description = name, description
        self.version = 6 if bits else 7
        self.grids, self._rules, self._bits, self._finish = grids, make_rules, bits, finish

    def convert(self, model: bytes, inputs: RecipeInputs, /) -> Compressed:
        """Return the compressed file."""
        prepared, observation = prepare(model, inputs, self.grids)
        if self._rules is None:
            return Compressed(prepared)
        ranges = observation.ranges(self._bits) if self._bits else None
        return Compressed(self._finish(quantize(prepared, self._rules(), ranges)))

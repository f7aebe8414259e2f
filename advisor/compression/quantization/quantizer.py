"""Run ai-edge-quantizer on the bytes of a model, without files and progress bars."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from advisor.compression.quantization.rules import Rules
from advisor.core.errors import StageError, UnsupportedRecipe, message_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from advisor.compression.quantization.observe import Range

_REFUSALS = (ValueError, RuntimeError, KeyError, NotImplementedError, TypeError, IndexError, AttributeError)
"""What ai-edge-quantizer raises for a graph that it cannot quantize; it has no error class of its own."""


def quantize(model: bytes, rules: Rules, ranges: Mapping[int, Range] | None = None) -> bytes:
    """Return ``model`` quantized by ai-edge-quantizer.

    Args:
        model: a float ``.tflite``.
        rules: of the quantizer, see :mod:`advisor.compression.quantization.rules`.
        ranges: range of each tensor by its index, for rules that quantize activations.

    Raises:
        UnsupportedRecipe: the quantizer refuses the model.
    """
    from ai_edge_quantizer import quantizer

    with contextlib.redirect_stderr(io.StringIO()):  # The calibrator shows a progress bar.
        tool = quantizer.Quantizer(model)
        tool.load_quantization_recipe(rules)
        try:
            statistics = _statistics(model, ranges) if ranges and tool.need_calibration else None
            result = tool.quantize(statistics, enable_progress_bar=False, enable_progress_report=False)
        except _REFUSALS as error:
            raise UnsupportedRecipe(f"the quantizer refuses the model: {message_of(error)}") from error
    return bytes(result.quantized_model)


def _statistics(model: bytes, ranges: Mapping[int, Range]) -> dict[str, dict[str, Any]]:
    """Return ranges in the format of the quantizer's own calibration: by name, arrays of the tensor's rank."""
    import numpy as np

    from advisor.tflite.model import read

    tensors = read(model).tensors
    found = {}
    for index, (low, high) in ranges.items():
        shape = (1,) * len(tensors[index].shape)
        found[tensors[index].name] = {"min": np.full(shape, low, np.float32), "max": np.full(shape, high, np.float32)}
    return found


def fitting_images(model: bytes, images: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """Return the calibration images after checking that they fit the model's input.

    Raises:
        StageError: the images are missing, of the wrong shape, or not finite.
    """
    import numpy as np

    from advisor.tflite.model import read

    shape = read(model).inputs[0].shape
    if images is None or not len(images):
        raise StageError("calibration images are needed and none were given")
    if (1, *images.shape[1:]) != shape or images.dtype != np.float32:
        raise StageError(f"calibration images are {images.dtype} {images.shape[1:]}, the model takes {shape}")
    if not np.isfinite(images).all():
        raise StageError("calibration images hold values that are not finite")
    return images

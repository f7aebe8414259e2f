"""ai-edge-quantizer on bytes: no files, no progress bars, names read from the model."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from advisor.core.errors import StageError, UnsupportedRecipe

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_REFUSALS = (ValueError, RuntimeError, KeyError, NotImplementedError, TypeError, IndexError, AttributeError)


def quantize(model: bytes, make_rules: Callable[[], Any], pictures: NDArray[np.float32]) -> bytes:
    """Return ``model`` quantized by ai-edge-quantizer.

    Args:
        model: a float ``.tflite`` with one signature.
        make_rules: gives the quantizer's recipe; called only once the library is wanted.
        pictures: model inputs, float32 (n, S, S, 3), for rules that quantize activations.

    Raises:
        UnsupportedRecipe: the quantizer refuses the model.
    """
    from ai_edge_quantizer import quantizer

    with _quiet():
        tool = quantizer.Quantizer(model)
        rules = make_rules()
        tool.load_quantization_recipe(rules)
        samples = _samples(model, pictures) if tool.need_calibration else None
        try:
            ranges = _ranges(model, rules, samples) if samples else None
            result = tool.quantize(ranges, enable_progress_bar=False, enable_progress_report=False)
        except _REFUSALS as error:
            raise UnsupportedRecipe(f"the quantizer refuses the model: {_first_line(error)}") from error
    return bytes(result.quantized_model)


def _ranges(model: bytes, rules: Any, samples: dict[str, list[dict[str, Any]]]) -> Any:
    """Return each activation's least and greatest value over the pictures.

    The quantizer's own habit is a moving average of each picture's, which cuts off what few pictures reach: a fifth of
    the logits of a MobileNetV2 trained on TrashNet.
    """
    from ai_edge_quantizer import calibrator, recipe_manager
    from ai_edge_quantizer.utils import qsv_utils

    manager = recipe_manager.RecipeManager()
    manager.load_quantization_recipe(rules)
    tool = calibrator.Calibrator(model, num_threads=1, qsv_update_func=qsv_utils.min_max_update)
    tool.calibrate(samples, manager)
    return tool.get_model_qsvs()


def fitting_pictures(model: bytes, pictures: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """Return the calibration pictures after a check that the model takes them.

    Raises:
        StageError: they are missing, of the wrong shape, or not finite.
    """
    import numpy as np

    from advisor.tflite.model import read

    shape = read(model).inputs[0].shape
    if pictures is None or not len(pictures):
        raise StageError("calibration pictures are needed and none were given")
    if (1, *pictures.shape[1:]) != shape or pictures.dtype != np.float32:
        raise StageError(f"calibration pictures are {pictures.dtype} {pictures.shape[1:]}, the model takes {shape}")
    if not np.isfinite(pictures).all():
        raise StageError("calibration pictures hold values that are not finite")
    return pictures


def _samples(model: bytes, pictures: NDArray[np.float32]) -> dict[str, list[dict[str, Any]]]:
    """Return the pictures one by one, under the names that the file's signature gives to itself and to its input."""
    from advisor.tflite.model import read

    signatures = read(model).signatures
    if not signatures:
        raise UnsupportedRecipe("the model has no signature, by whose names the quantizer calls it")
    name = signatures[0].inputs[0][0]
    return {signatures[0].key: [{name: picture[None]} for picture in pictures]}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the calibrator's progress bar off the terminal."""
    with contextlib.redirect_stderr(io.StringIO()):
        yield


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__

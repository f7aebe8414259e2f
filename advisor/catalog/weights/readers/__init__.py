"""Read files of weights as named tensors, without executing anything in them.

A new format is one function ``read_<format>(path) -> dict[str, ndarray]`` and one line in ``FORMATS``.
"""

from collections.abc import Sequence
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from advisor.core.errors import WeightsError

Array = np.ndarray[Any, Any]
Tensors = dict[str, Array]
"""Arrays by the names that a file gives them."""

MAX_VALUES = 2**29
"""No model of this catalogue comes near; a header that claims more is damaged or hostile."""


def shaped(name: str, values: Array, shape: Sequence[int]) -> Array:
    """Return ``values`` in the shape that the file states for the tensor ``name``.

    Raises:
        ValueError: the shape has another number of values.
    """
    if min(shape, default=0) < 0 or prod(shape) != values.size:
        raise ValueError(f"'{name}' of shape {list(shape)} has {values.size} values")
    return values.reshape(shape)


FORMATS = {
    "caffemodel": "tensorflow_files",
    "checkpoint": "tensorflow_files",
    "graphdef": "tensorflow_files",
    "keras_h5": "tensorflow_files",
    "onnx": "tensorflow_files",
    "tfjs": "tensorflow_files",
    "tflite": "tensorflow_files",
    "torch": "torch",
}
"""The module of each format."""


def read(format_name: str, path: Path) -> Tensors:
    """Read the tensors of ``path``, by the names they have in the file, in the layout of their framework.

    Raises:
        WeightsError: an unknown format, or a file that is damaged or holds anything but plain tensors.
    """
    if format_name not in FORMATS:
        raise WeightsError(f"no reader is called '{format_name}' (there are {', '.join(FORMATS)})")
    module = import_module(f"{__name__}.{FORMATS[format_name]}")
    try:
        tensors: Tensors = getattr(module, f"read_{format_name}")(path)
    except WeightsError:
        raise
    except Exception as error:  # a damaged file can fail a parser in any way
        raise WeightsError(f"{path.name} cannot be read as {format_name}: {error}") from error
    if not tensors:
        raise WeightsError(f"{path.name} holds no tensors that can be read as {format_name}")
    return tensors

"""Define the arrays that weights are read into."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

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

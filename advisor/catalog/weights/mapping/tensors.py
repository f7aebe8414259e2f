"""Tensors of a file, with a record of which of them found a place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from advisor.core.errors import WeightsError, nearest


class Taken:
    """A look into named tensors that remembers what was asked for."""

    def __init__(self, tensors: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self._tensors = tensors
        self._used: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def __call__(self, name: str) -> np.ndarray[Any, Any]:
        """The tensor called ``name`` as float32.

        Raises:
            WeightsError: there is none; the nearest name is given.
        """
        if name not in self._tensors:
            raise WeightsError(f"the file has no tensor '{name}'{nearest(name, self._tensors)}")
        self._used.add(name)
        return np.asarray(self._tensors[name], dtype=np.float32)

    def names(self) -> tuple[str, ...]:
        """Every name, in the order of the file."""
        return tuple(self._tensors)

    def left(self) -> list[str]:
        """The names that nobody asked for."""
        return [name for name in self._tensors if name not in self._used]

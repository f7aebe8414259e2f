"""Read tensors of a file by name, and record which of them were used."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from advisor.catalog.weights.arrays import Array
from advisor.core.errors import WeightsError, nearest


class TrackedTensors:
    """Named tensors with a record of the names that were used."""

    def __init__(self, tensors: Mapping[str, Array]) -> None:
        self._tensors = tensors
        self._used: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def __call__(self, name: str) -> Array:
        """Return the tensor called ``name`` as float32.

        Raises:
            WeightsError: there is none; the error names the nearest one.
        """
        if name not in self._tensors:
            raise WeightsError(f"the file has no tensor '{name}'{nearest(name, self._tensors)}")
        self._used.add(name)
        return np.asarray(self._tensors[name], dtype=np.float32)

    def names(self) -> tuple[str, ...]:
        """Return every name, in the order of the file."""
        return tuple(self._tensors)

    def unused(self) -> list[str]:
        """Return the names that were not used."""
        return [name for name in self._tensors if name not in self._used]

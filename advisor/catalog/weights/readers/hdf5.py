"""Read a dataset of an untrusted HDF5 file, without following links out of the file."""

from __future__ import annotations

from typing import Any

from advisor.catalog.weights.readers import MAX_VALUES


def dataset(group: Any, name: str) -> Any:
    """Return the dataset ``name`` (steps joined by slashes) under ``group``.

    Raises:
        ValueError: links or data that lead out of the file, or a size that no model has.
    """
    import h5py

    here = group
    for step in name.split("/"):
        if not isinstance(here.get(step, getlink=True), h5py.HardLink):
            raise ValueError(f"'{name}' is a link out of the file")
        here = here[step]
    if not isinstance(here, h5py.Dataset) or here.external or here.is_virtual:
        raise ValueError(f"'{name}' keeps its values outside the file")
    if here.size is None or here.size > MAX_VALUES or here.dtype.kind not in "fiu":
        raise ValueError(f"'{name}' is not a tensor of numbers that a model could hold")
    return here

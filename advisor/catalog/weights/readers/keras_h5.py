"""Keras' HDF5 files of weights (``*.h5``, as keras.applications has them)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def read(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Weights by ``<layer>/<weight>`` in the order of the file, in Keras' layout.

    Raises:
        ValueError: links or data that lead out of the file, or a size that its bytes cannot hold.
    """
    import h5py

    tensors: dict[str, np.ndarray[Any, Any]] = {}
    with h5py.File(path, "r") as file:
        root = file.get("model_weights", file)
        for layer in _names(root.attrs["layer_names"]):
            group = root[layer]
            for weight in _names(group.attrs["weight_names"]):
                tensors[f"{layer}/{weight}"] = _dataset(h5py, group, weight)
    return tensors


def _dataset(h5py: Any, group: Any, name: str) -> np.ndarray[Any, Any]:
    from advisor.catalog.weights.readers import MAX_VALUES

    steps = name.split("/")
    here = group
    for step in steps:
        if not isinstance(here.get(step, getlink=True), h5py.HardLink):
            raise ValueError(f"'{name}' is a link out of the file")
        here = here[step]
    if not isinstance(here, h5py.Dataset) or here.external or here.is_virtual:
        raise ValueError(f"'{name}' keeps its values outside the file")
    if here.size is None or here.size > MAX_VALUES or here.dtype.kind != "f":
        raise ValueError(f"'{name}' is not a tensor of floats that a model could hold")
    return np.asarray(here[()], dtype=np.float32)


def _names(attribute: Any) -> list[str]:
    return [name.decode() if isinstance(name, bytes) else str(name) for name in attribute]

"""Read the weights of Keras' HDF5 files (``*.h5``, as in keras.applications)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from advisor.catalog.weights.readers import MAX_VALUES, Tensors


def read_keras_h5(path: Path) -> Tensors:
    """Return weights by ``<layer>/<weight>`` in the order of the file, in Keras' layout.

    A slash in a layer's own name (``Conv/BatchNorm`` in the files of MobileNet V3) becomes a dot, so that what stands
    before the first slash tells the layers apart. A layer that keeps integers (the count of ``Normalization``) is
    preprocessing and left out: here the card's own does that.

    Raises:
        ValueError: links or data that lead out of the file, or a size that its bytes cannot hold.
    """
    tensors: Tensors = {}
    with h5py.File(path, "r") as file:
        root = file.get("model_weights", file)
        for layer in _names(root.attrs["layer_names"]):
            group = root[layer]
            datasets = {weight: _dataset(group, weight) for weight in _names(group.attrs["weight_names"])}
            if all(found.dtype.kind == "f" for found in datasets.values()):
                prefix = layer.replace("/", ".")
                tensors |= {f"{prefix}/{name}": np.asarray(found[()], np.float32) for name, found in datasets.items()}
    return tensors


def _names(attribute: Any) -> list[str]:
    return [name.decode() if isinstance(name, bytes) else str(name) for name in attribute]


def _dataset(group: Any, name: str) -> Any:
    """Return the dataset ``name`` (steps joined by slashes) under ``group``.

    Raises:
        ValueError: links or data that lead out of the file, or a size that no model has.
    """
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

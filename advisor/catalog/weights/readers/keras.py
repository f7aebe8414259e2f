"""Read the weights of Keras' files: archives (``*.keras``) and HDF5 (``*.h5``, as in keras.applications)."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from advisor.catalog.weights.arrays import MAX_VALUES, Array, Tensors

_CONFIG, _WEIGHTS = "config.json", "model.weights.h5"
_MAX_CONFIG_BYTES = 64 * 2**20
_MAX_WEIGHTS_BYTES = 2**30
_MAX_DEPTH = 16


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


def read_keras(path: Path) -> Tensors:
    """Return weights by ``<layer>/<index>`` in the order of the model's layers, in Keras' layout.

    Layers of a model inside the model are called ``<model>.<layer>``. A layer that keeps integers (a random seed, the
    count of ``Normalization``) is not one of the network's and is left out.

    Raises:
        ValueError: weights in another place or of an absurd size, or a Lambda layer: what it does is code.
    """
    with zipfile.ZipFile(path) as archive:
        model = json.loads(_member(archive, _CONFIG, _MAX_CONFIG_BYTES))
        weights = _member(archive, _WEIGHTS, _MAX_WEIGHTS_BYTES)
    with h5py.File(io.BytesIO(weights), "r") as file:
        return dict(_model(file, model, "", 0))


def _member(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise ValueError(f"it has no {name}") from None
    if info.file_size > limit:
        raise ValueError(f"its {name} has {info.file_size} bytes, more than the {limit} that are expected")
    return archive.read(info)


def _model(group: Any, entry: dict[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, Array]]:
    if depth > _MAX_DEPTH:
        raise ValueError(f"models nested more than {_MAX_DEPTH} deep")
    layers = entry["config"].get("layers")
    if layers is None:
        raise ValueError(f"the model '{entry['class_name']}' is described by code, not by its layers")
    used: Counter[str] = Counter()
    for layer in layers:
        kind, name = str(layer["class_name"]), str(layer["config"]["name"])
        if kind == "Lambda":
            raise ValueError(f"its layer '{name}' is a Lambda: code that is not run here")
        stored = _stored_name(kind, used)
        here = group.get(f"layers/{stored}")
        if here is not None and "layers" in layer["config"]:
            yield from _model(here, layer, f"{prefix}{name}.", depth + 1)
        elif here is not None:
            yield from _layer(here, f"{prefix}{name}".replace("/", "."))


def _layer(group: Any, name: str) -> Iterator[tuple[str, Array]]:
    datasets = [_dataset(group, path) for path in sorted(_paths(group, 0), key=_natural)]
    if all(found.dtype.kind == "f" for found in datasets):
        for index, found in enumerate(datasets):
            yield f"{name}/{index}", np.asarray(found[()], np.float32)


def _paths(group: Any, depth: int) -> Iterator[str]:
    """Yield the names of everything under ``group`` that is not itself a group."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"groups nested more than {_MAX_DEPTH} deep")
    for name in group:
        linked = isinstance(group.get(name, getlink=True), h5py.HardLink)
        if linked and isinstance(group[name], h5py.Group):
            yield from (f"{name}/{inner}" for inner in _paths(group[name], depth + 1))
        else:
            yield name


def _natural(path: str) -> list[tuple[int, str]]:
    """Return a key that puts weight 10 after weight 9."""
    return [(int(step), "") if step.isdecimal() else (-1, step) for step in path.split("/")]


def _stored_name(kind: str, used: Counter[str]) -> str:
    """Return a layer's name in the file: its class in lower case and a number (keras/src/saving/saving_lib.py)."""
    words = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", kind))
    base = re.sub(r"([a-z])([A-Z])", r"\1_\2", words).lower()
    used[base] += 1
    return base if used[base] == 1 else f"{base}_{used[base] - 1}"


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

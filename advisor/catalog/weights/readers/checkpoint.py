"""Read the variables of a SavedModel or another TensorFlow checkpoint, without loading or running a graph."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog.weights.arrays import Array, Tensors
from advisor.catalog.weights.readers import MAX_VALUES
from advisor.catalog.weights.readers.wire import fields, part, text

# trackable_object_graph.proto: what the object graph says of each variable.
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
_NODE, _ATTRIBUTE = 1, 2
_FULL_NAME, _KEY = 2, 3


def read(path: Path) -> Tensors:
    """Return variables by their names in the model, in its order.

    ``path`` is the ``.index`` file with the data beside it, as in a SavedModel's ``variables`` folder, or a checkpoint
    of the first form, which is one file. Values that are not real numbers (seeds, counters) are left out.

    Raises:
        ValueError: two different variables of one name, or sizes that the files cannot hold.
    """
    import tensorflow as tf

    indexed = path.suffix == ".index"
    checkpoint = tf.train.load_checkpoint(str(path.with_suffix("") if indexed else path))
    shapes = checkpoint.get_variable_to_shape_map()
    types = checkpoint.get_variable_to_dtype_map()
    files = path.parent.glob(f"{path.stem}.data-*") if indexed else [path]
    held = sum(file.stat().st_size for file in files)
    tensors: Tensors = {}
    for name, key in _names(checkpoint, shapes):
        if key in shapes and types[key].is_floating:
            _check_size(name, shapes[key], types[key].size, held)
            _add(tensors, name, np.asarray(checkpoint.get_tensor(key), np.float32))
    return tensors


def _names(checkpoint: Any, shapes: dict[str, list[int]]) -> Iterator[tuple[str, str]]:
    """Yield (name of the variable in its model, key in the file)."""
    if _OBJECTS not in shapes:
        yield from ((key, key) for key in sorted(shapes))
        return
    for number, node in fields(memoryview(checkpoint.get_tensor(_OBJECTS))):
        if number == _NODE:
            for entry, attribute in fields(part(node)):
                if entry == _ATTRIBUTE:
                    values = dict(fields(part(attribute)))
                    key = text(values.get(_KEY, memoryview(b"")))
                    yield text(values.get(_FULL_NAME, memoryview(b""))) or key, key


def _check_size(name: str, shape: list[int], itemsize: int, held: int) -> None:
    if prod(shape) > MAX_VALUES or prod(shape) * itemsize > held:
        raise ValueError(f"'{name}' of shape {shape} is larger than the files")


def _add(tensors: Tensors, name: str, values: Array) -> None:
    # A model may list one variable in two of its parts: the file then has it twice.
    if name in tensors and not np.array_equal(tensors[name], values):
        raise ValueError(f"two variables are called '{name}'")
    tensors.setdefault(name, values)

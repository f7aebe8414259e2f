"""Small ONNX classifiers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save_model

from tests.tables import read_table

SIDE, CLASSES = 32, 5
IMAGE = (1, 3, SIDE, SIDE)
GRAPHS = read_table(__file__, "onnx_graphs.yaml")


def nodes_of(name: str) -> Sequence[Any]:
    """Return the nodes of a table, in their order."""
    return [helper.make_node(operator, *ends, **attributes) for operator, *ends, attributes in GRAPHS[name]]


NODES = nodes_of("plain")


def weights(name: str, *shape: int) -> Any:
    """Random weights that keep the size of what they multiply."""
    rng = np.random.default_rng(sum(map(ord, name)))
    values = rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))
    return numpy_helper.from_array(values.astype(np.float32), name)


def network(
    shape: Sequence[int | str] = IMAGE,
    nodes: Sequence[Any] = NODES,
    opset: int = 17,
    more: Sequence[Any] = (),
    inputs: Sequence[str] = ("image",),
    outputs: Sequence[str] = ("scores",),
    kind: int = TensorProto.FLOAT,
) -> Any:
    """A classifier: two convolutions, a mean and a linear layer; ``more`` are further weights."""
    graph = helper.make_graph(
        list(nodes),
        "network",
        [helper.make_tensor_value_info(name, kind, shape) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "c"]) for name in outputs],
        [
            *(weights("w1", 8, 3, 3, 3), weights("b1", 8), weights("w2", 8, 1, 3, 3)),
            *(weights("w3", CLASSES, 8), weights("b3", CLASSES), *more),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def saved(model: Any, folder: Path, **options: Any) -> Path:
    file = folder / "net.onnx"
    save_model(model, file, **options)
    return file


def shuffled() -> Any:
    """A network with what ShuffleNet and MobileNetV3 are made of: shuffled channels, a split, hard-swish, a gate."""
    nodes = (*NODES[:2], *nodes_of("shuffled"), *NODES[3:])
    half = SIDE // 2
    more = (
        numpy_helper.from_array(np.array([1, 2, 4, half, half]), "groups"),
        numpy_helper.from_array(np.array([1, 8, half, half]), "flat"),
        weights("w4", 8, 8, 1, 1),
    )
    return network(nodes=nodes, more=more, opset=14)


def patched() -> Any:
    """A network with what MobileViT is made of: patches of an image, scaled, and the image of them."""
    half, quarter = SIDE // 2, SIDE // 4
    nodes = (*NODES[:2], *nodes_of("patched"), *NODES[3:])
    shapes = {
        "cut": [1, 8, quarter, 2, quarter, 2],
        "patches": [1, 8, 4, -1],
        "uncut": [1, 8, 2, 2, quarter, quarter],
        "image_again": [1, 8, half, half],
    }
    return network(nodes=nodes, more=[numpy_helper.from_array(np.array(dims), name) for name, dims in shapes.items()])


def split_after_a_sum() -> Any:
    """A network with what EdgeNeXt is made of: half of the channels of a sum are convolved, then added to it."""
    nodes = (*NODES[:2], *nodes_of("split_after_a_sum"), *NODES[3:])
    return network(nodes=nodes, more=[weights("w4", 8, 8), weights("w5", 4, 1, 3, 3)])

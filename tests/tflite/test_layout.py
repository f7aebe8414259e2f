"""Transposes that converters leave are removed, and the file computes the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ai_edge_litert import schema_py_generated as schema

from advisor.catalog.trial_run import run
from advisor.tflite.layout import TO_NCHW, TO_NHWC, transposes, without_transposes
from advisor.tflite.model import read
from tests.tflite.graphs import INT32, Graph

B = schema.BuiltinOperator
NHWC, NCHW = (1, 4, 6, 8), (1, 8, 4, 6)
RNG = np.random.default_rng(0)

Middle = Callable[[Graph, int], tuple[int, tuple[int, ...]]]
"""Adds operators behind an NCHW tensor of :data:`NCHW`; returns their result, and its shape."""


def integers(graph: Graph, *values: Any) -> int:
    return graph.tensor("numbers", np.shape(values), np.asarray(values, np.int32), INT32)


def floats(graph: Graph, *shape: int) -> int:
    return graph.tensor("floats", shape, RNG.normal(size=shape).astype(np.float32))


def added(graph: Graph, builtin: int, inputs: Sequence[int], shape: Sequence[int], options: Any = None) -> int:
    output = graph.tensor(f"made_{len(graph.graph.tensors)}", shape)
    graph.operator(builtin, inputs, [output], options)
    return output


def transposed(graph: Graph, tensor: int, order: Sequence[int], shape: Sequence[int]) -> int:
    return added(graph, B.TRANSPOSE, [tensor, integers(graph, *order)], shape, schema.TransposeOptionsT())


def in_nchw(middle: Middle) -> bytes:
    """A file that computes ``middle`` in NCHW between two transposes, or none behind it if it leaves no image."""
    graph = Graph()
    image = graph.tensor("image", NHWC)
    result, shape = middle(graph, transposed(graph, image, TO_NCHW, NCHW))
    if len(shape) == 4:
        result = transposed(graph, result, TO_NHWC, [shape[axis] for axis in TO_NHWC])
    return graph.finish({"image": image}, {"result": result})


def relu(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    return added(graph, B.RELU, [value], NCHW), NCHW


def scaled(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    value = added(graph, B.MUL, [value, floats(graph, 1, 8, 1, 1)], NCHW, schema.MulOptionsT())
    value = added(graph, B.ADD, [value, floats(graph, 8, 1, 1)], NCHW, schema.AddOptionsT())
    return added(graph, B.SUB, [value, floats(graph, 1)], NCHW, schema.SubOptionsT()), NCHW


def joined(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    positive = added(graph, B.RELU, [value], NCHW)
    options = schema.ConcatenationOptionsT(axis=1)
    return added(graph, B.CONCATENATION, [value, positive], (1, 16, 4, 6), options), (1, 16, 4, 6)


def gathered(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    order = integers(graph, 0, 4, 1, 5, 2, 6, 3, 7)
    return added(graph, B.GATHER, [value, order], NCHW, schema.GatherOptionsT(axis=1)), NCHW


def sliced(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    begin, size = integers(graph, 0, 2, 1, 0), integers(graph, 1, 4, 2, 6)
    return added(graph, B.SLICE, [value, begin, size], (1, 4, 2, 6), schema.SliceOptionsT()), (1, 4, 2, 6)


def split(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    halves = [graph.tensor(f"half_{number}", (1, 4, 4, 6)) for number in range(2)]
    axis = graph.tensor("axis", (), np.asarray(1, np.int32), INT32)
    graph.operator(B.SPLIT, [axis, value], halves, schema.SplitOptionsT(numSplits=2))
    return added(graph, B.MUL, halves, (1, 4, 4, 6), schema.MulOptionsT()), (1, 4, 4, 6)


def padded(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    rows = integers(graph, (0, 0), (0, 0), (1, 2), (0, 3))
    return added(graph, B.PAD, [value, rows], (1, 8, 7, 9), schema.PadOptionsT()), (1, 8, 7, 9)


def gated(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    """A mean over the image, reshaped in between, that scales the channels."""
    flat = added(graph, B.MEAN, [value, integers(graph, 2, 3)], (1, 8), schema.ReducerOptionsT(keepDims=False))
    gate = added(graph, B.RESHAPE, [flat, integers(graph, 1, 8, 1, 1)], (1, 8, 1, 1))
    return added(graph, B.MUL, [value, gate], NCHW, schema.MulOptionsT()), NCHW


def averaged(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    options = schema.ReducerOptionsT(keepDims=True)
    mean = added(graph, B.MEAN, [value, integers(graph, 2, 3)], (1, 8, 1, 1), options)
    return added(graph, B.RESHAPE, [mean, integers(graph, 1, 8)], (1, 8)), (1, 8)


def outputs(data: bytes) -> Mapping[str, npt.NDArray[np.float32]]:
    image = np.random.default_rng(1).normal(size=read(data).inputs[0].shape).astype(np.float32)
    return run(data, image)


@pytest.mark.parametrize(
    "middle", [relu, scaled, joined, gathered, sliced, split, padded, gated, averaged], ids=lambda each: each.__name__
)
def test_what_was_computed_in_nchw_is_computed_in_nhwc(middle: Middle) -> None:
    data = in_nchw(middle)
    edited = without_transposes(data)
    assert (transposes(read(data)) > 0, transposes(read(edited))) == (True, 0)
    assert outputs(edited)["result"] == pytest.approx(outputs(data)["result"], abs=1e-6)
    new = [tensor.name for tensor in read(edited).tensors if tensor.name.startswith("nhwc/")]
    assert len(new) == len(set(new)) > 0


def test_an_image_in_nchw_is_taken_in_nhwc() -> None:
    graph = Graph()
    image = graph.tensor("image", (1, 3, 4, 6))
    turned = transposed(graph, image, TO_NHWC, (1, 4, 6, 3))
    data = graph.finish({"image": image}, {"result": added(graph, B.RELU, [turned], (1, 4, 6, 3))})
    edited = without_transposes(data)
    assert [operator.name for operator in read(edited).operators] == ["RELU"]
    assert read(edited).inputs[0].shape == (1, 4, 6, 3)
    pixels = RNG.normal(size=(1, 3, 4, 6)).astype(np.float32)
    assert run(edited, pixels.transpose(TO_NHWC))["result"] == pytest.approx(run(data, pixels)["result"])


def test_an_operator_that_needs_nchw_keeps_its_transpose() -> None:
    def softmax(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
        return added(graph, B.SOFTMAX, [value], NCHW, schema.SoftmaxOptionsT(beta=1.0)), NCHW

    data = in_nchw(softmax)
    assert without_transposes(data) == data
    assert transposes(read(data)) == 2


def test_flattened_maps_keep_their_transpose() -> None:
    def flattened(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
        return added(graph, B.RESHAPE, [value, integers(graph, 1, 192)], (1, 192)), (1, 192)

    data = in_nchw(flattened)
    assert outputs(without_transposes(data))["result"] == pytest.approx(outputs(data)["result"])
    assert transposes(read(without_transposes(data))) == 1


def test_a_file_without_transposes_stays_byte_for_byte() -> None:
    graph = Graph()
    image = graph.tensor("image", NHWC)
    data = graph.finish({"image": image}, {"result": added(graph, B.RELU, [image], NHWC)})
    assert without_transposes(data) is data

"""What a file's operators cost: sizes, and what a runtime fuses."""

from __future__ import annotations

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from advisor.tflite.model import read
from advisor.tflite.work import CONVOLUTION, DENSE, DEPTHWISE, Work, counted, works_of
from tests.measurement.small_models import Builder

from .graphs import INT32, Graph

OPERATORS = schema.BuiltinOperator
BOUNDS = {"begin": [0, 0, 0, 0], "end": [1, 2, 2, 4], "strides": [1, 1, 1, 1]}


def test_a_network_is_its_layers_with_their_sizes() -> None:
    builder = Builder()
    image = builder.input(16)
    stem = builder.convolution(image, 8, kernel=3, stride=2)
    pooled = builder.mean(builder.depthwise(stem))
    scores = builder.dense(pooled, 5)
    works = works_of(read(builder.finish({"image": image}, {"scores": scores})))
    assert works == (
        Work(CONVOLUTION, 64, 8, 3, 9, 2, 16 * 16 * 3),
        Work(DEPTHWISE, 64, 8, 1, 9, 1, 64 * 8),
        Work("MEAN", 1, 8, read=64 * 8),
        Work(DENSE, 1, 5, 8, read=8),
    )
    assert [work.macs for work in works] == [64 * 8 * 27, 64 * 8 * 9, 8, 40]
    assert [work.weights for work in works] == [8 * 27, 8 * 9, 0, 40]


def padded(consumers: int) -> bytes:
    """A PAD that feeds one or two convolutions."""
    builder = Builder()
    image = builder.input(4)
    margins = builder.constant(np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32), INT32)
    wider = builder.operator(OPERATORS.PAD, [image, margins], (1, 6, 6, 3), schema.PadOptionsT())
    outputs = {f"y{place}": builder.convolution(wider, 4) for place in range(consumers)}
    return builder.finish({"image": image}, outputs)


def test_a_pad_before_one_convolution_takes_no_time() -> None:
    assert [work.kind for work in works_of(read(padded(1)))] == [CONVOLUTION]
    assert [work.kind for work in works_of(read(padded(2)))] == ["PAD", CONVOLUTION, CONVOLUTION]


def test_a_clamp_takes_no_time_and_an_operator_on_constants_runs_at_loading() -> None:
    graph = Graph()
    image = graph.tensor("image", (1, 4))
    stored = graph.tensor("stored", (1, 4), np.ones(4, np.float32))
    expanded, total, clamped = (graph.tensor(name, (1, 4)) for name in ("expanded", "total", "clamped"))
    graph.operator(OPERATORS.LOGISTIC, [stored], [expanded])
    graph.operator(OPERATORS.ADD, [image, stored], [total], schema.AddOptionsT())
    graph.operator(OPERATORS.RELU, [total], [clamped])
    works = works_of(read(graph.finish({"image": image}, {"y": clamped, "z": expanded})))
    assert works == (Work("ADD", 1, 4, read=4),)


def test_a_clamp_of_a_result_that_others_read_takes_time() -> None:
    graph = Graph()
    image = graph.tensor("image", (1, 4))
    total, clamped, other = (graph.tensor(name, (1, 4)) for name in ("total", "clamped", "other"))
    graph.operator(OPERATORS.ADD, [image, image], [total], schema.AddOptionsT())
    graph.operator(OPERATORS.RELU, [total], [clamped])
    graph.operator(OPERATORS.LOGISTIC, [total], [other])
    works = works_of(read(graph.finish({"image": image}, {"y": clamped, "z": other})))
    assert [work.kind for work in works] == ["ADD", "RELU", "LOGISTIC"]


def test_equal_operators_are_counted() -> None:
    one, other = Work("ADD", 1, 4, read=8), Work("ADD", 1, 2, read=4)
    assert counted([one, other, one]) == ((other, 1), (one, 2))


def test_a_split_writes_all_its_parts_and_a_slice_reads_only_its_own() -> None:
    graph = Graph()
    image = graph.tensor("image", (1, 2, 2, 8))
    axis = graph.tensor("axis", (), np.array(3, np.int32), INT32)
    bounds = [graph.tensor(name, (4,), np.array(values, np.int32), INT32) for name, values in BOUNDS.items()]
    left, right, part = (graph.tensor(name, (1, 2, 2, 4)) for name in ("left", "right", "part"))
    graph.operator(OPERATORS.SPLIT, [axis, image], [left, right], schema.SplitOptionsT(numSplits=2))
    graph.operator(OPERATORS.STRIDED_SLICE, [image, *bounds], [part], schema.StridedSliceOptionsT())
    works = works_of(read(graph.finish({"image": image}, {"a": left, "b": right, "c": part})))
    assert works == (Work("SPLIT", 4, 8, read=32), Work("STRIDED_SLICE", 4, 4, read=16))

"""Transposes that converters leave, heads on several levels, and what operators cost."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from ai_edge_litert import schema_py_generated as schema
from scipy.special import softmax

from advisor.catalog import run
from advisor.measurement import predict_arrays
from advisor.tflite import (
    CONVOLUTION,
    DENSE,
    DEPTHWISE,
    Work,
    activation_arena_bytes,
    attach_head,
    last_width,
    read,
    with_channels_last,
    with_levels,
    without_transposes,
)
from advisor.tflite._layout import TO_NCHW, TO_NHWC
from advisor.tflite._macs import count_works, list_works
from tests.measurement.small_models import Builder
from tests.tflite.graphs import INT32, Graph, tiny_features
from tests.tflite.running import Array, Quantize, Run, stays_within_one_delegate

B = schema.BuiltinOperator
NHWC, NCHW = (1, 4, 6, 8), (1, 8, 4, 6)
RNG = np.random.default_rng(0)

Middle = Callable[[Graph, int], tuple[int, tuple[int, ...]]]
"""Adds operators behind an NCHW tensor of :data:`NCHW`; returns their result, and its shape."""

OPERATORS = schema.BuiltinOperator
BOUNDS = {"begin": [0, 0, 0, 0], "end": [1, 2, 2, 4], "strides": [1, 1, 1, 1]}


def in_nchw(middle: Middle) -> bytes:
    """A file that computes ``middle`` in NCHW between two transposes, or none behind it if it leaves no image."""
    graph = Graph()
    image = graph.tensor("image", NHWC)
    result, shape = middle(graph, graph.transposed(image, TO_NCHW, NCHW))
    if len(shape) == 4:
        result = graph.transposed(result, TO_NHWC, [shape[axis] for axis in TO_NHWC])
    return graph.finish({"image": image}, {"result": result})


def relu(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    return graph.added(B.RELU, [value], NCHW), NCHW


def scaled(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    value = graph.added(B.MUL, [value, graph.floats(1, 8, 1, 1)], NCHW, schema.MulOptionsT())
    value = graph.added(B.ADD, [value, graph.floats(8, 1, 1)], NCHW, schema.AddOptionsT())
    return graph.added(B.SUB, [value, graph.floats(1)], NCHW, schema.SubOptionsT()), NCHW


def joined(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    positive = graph.added(B.RELU, [value], NCHW)
    options = schema.ConcatenationOptionsT(axis=1)
    return graph.added(B.CONCATENATION, [value, positive], (1, 16, 4, 6), options), (1, 16, 4, 6)


def gathered(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    order = graph.integers(0, 4, 1, 5, 2, 6, 3, 7)
    return graph.added(B.GATHER, [value, order], NCHW, schema.GatherOptionsT(axis=1)), NCHW


def sliced(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    begin, size = graph.integers(0, 2, 1, 0), graph.integers(1, 4, 2, 6)
    return graph.added(B.SLICE, [value, begin, size], (1, 4, 2, 6), schema.SliceOptionsT()), (1, 4, 2, 6)


def split(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    halves = [graph.tensor(f"half_{number}", (1, 4, 4, 6)) for number in range(2)]
    axis = graph.tensor("axis", (), np.asarray(1, np.int32), INT32)
    graph.operator(B.SPLIT, [axis, value], halves, schema.SplitOptionsT(numSplits=2))
    return graph.added(B.MUL, halves, (1, 4, 4, 6), schema.MulOptionsT()), (1, 4, 4, 6)


def padded(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    rows = graph.integers((0, 0), (0, 0), (1, 2), (0, 3))
    return graph.added(B.PAD, [value, rows], (1, 8, 7, 9), schema.PadOptionsT()), (1, 8, 7, 9)


def gated(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    """A mean over the image, reshaped in between, that scales the channels."""
    flat = graph.added(B.MEAN, [value, graph.integers(2, 3)], (1, 8), schema.ReducerOptionsT(keepDims=False))
    gate = graph.added(B.RESHAPE, [flat, graph.integers(1, 8, 1, 1)], (1, 8, 1, 1))
    return graph.added(B.MUL, [value, gate], NCHW, schema.MulOptionsT()), NCHW


def averaged(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    options = schema.ReducerOptionsT(keepDims=True)
    mean = graph.added(B.MEAN, [value, graph.integers(2, 3)], (1, 8, 1, 1), options)
    return graph.added(B.RESHAPE, [mean, graph.integers(1, 8)], (1, 8)), (1, 8)


def outputs(data: bytes) -> Mapping[str, npt.NDArray[np.float32]]:
    image = np.random.default_rng(1).normal(size=read(data).inputs[0].shape).astype(np.float32)
    return run(data, image)


@pytest.mark.parametrize(
    "middle", [relu, scaled, joined, gathered, sliced, split, padded, gated, averaged], ids=lambda each: each.__name__
)
def test_what_was_computed_in_nchw_is_computed_in_nhwc(middle: Middle) -> None:
    data = in_nchw(middle)
    edited = without_transposes(data)
    assert (read(data).transposes > 0, read(edited).transposes) == (True, 0)
    assert outputs(edited)["result"] == pytest.approx(outputs(data)["result"], abs=1e-6)
    new = [tensor.name for tensor in read(edited).tensors if tensor.name.startswith("nhwc/")]
    assert len(new) == len(set(new)) > 0


def test_an_image_in_nchw_is_taken_in_nhwc() -> None:
    graph = Graph()
    image = graph.tensor("image", (1, 3, 4, 6))
    turned = graph.transposed(image, TO_NHWC, (1, 4, 6, 3))
    data = graph.finish({"image": image}, {"result": graph.added(B.RELU, [turned], (1, 4, 6, 3))})
    edited = without_transposes(data)
    assert [operator.name for operator in read(edited).operators] == ["RELU"]
    assert read(edited).inputs[0].shape == (1, 4, 6, 3)
    pixels = RNG.normal(size=(1, 3, 4, 6)).astype(np.float32)
    assert run(edited, pixels.transpose(TO_NHWC))["result"] == pytest.approx(run(data, pixels)["result"])


def softmaxed(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    return graph.added(B.SOFTMAX, [value], NCHW, schema.SoftmaxOptionsT(beta=1.0)), NCHW


def flattened(graph: Graph, value: int) -> tuple[int, tuple[int, ...]]:
    return graph.added(B.RESHAPE, [value, graph.integers(1, 192)], (1, 192)), (1, 192)


def test_an_operator_that_needs_nchw_keeps_its_transpose() -> None:
    data = in_nchw(softmaxed)
    assert without_transposes(data) == data
    flat = in_nchw(flattened)
    assert outputs(without_transposes(flat))["result"] == pytest.approx(outputs(flat)["result"])
    assert [read(file).transposes for file in (data, without_transposes(flat))] == [2, 1]


def test_a_file_without_transposes_stays_byte_for_byte() -> None:
    graph = Graph()
    image = graph.tensor("image", NHWC)
    data = graph.finish({"image": image}, {"result": graph.added(B.RELU, [image], NHWC)})
    assert without_transposes(data) is data


@pytest.fixture(scope="module")
def levelled(backbone: bytes) -> bytes:
    return with_levels(backbone)


def test_trunk_features_come_first_unchanged(backbone: bytes, levelled: bytes, images: list[Array], run: Run) -> None:
    plain, wide = (run(data, {"image": images[0]})["features"] for data in (backbone, levelled))
    assert wide.shape[1] > plain.shape[1]
    np.testing.assert_array_equal(wide[:, : plain.shape[1]], plain)


def test_each_level_is_the_mean_of_a_map_of_its_own_side(levelled: bytes) -> None:
    model = read(levelled)
    means = [operator for operator in model.operators if operator.name == "MEAN"]
    sides = [model.tensors[operator.inputs[0]].shape[1] for operator in means[:-1]]
    assert sides == sorted(set(sides), reverse=True)
    assert len(sides) >= 3
    assert all(side <= 96 // 4 for side in sides)


def test_a_mean_follows_its_map_at_once_so_that_memory_stays(backbone: bytes, levelled: bytes) -> None:
    assert activation_arena_bytes(read(levelled)) <= 1.01 * activation_arena_bytes(read(backbone))


def test_a_head_on_all_levels_is_the_sum_of_heads_on_each(levelled: bytes, images: list[Array], run: Run) -> None:
    random = np.random.default_rng(1)
    features = run(levelled, {"image": images[0]})["features"]
    weights = random.normal(0, 0.1, (features.shape[1], 4)).astype(np.float32)
    bias = random.normal(size=4).astype(np.float32)
    joined = attach_head(levelled, weights, bias)
    found = run(joined, {"image": images[0]})["probabilities"]
    np.testing.assert_allclose(found, softmax(features @ weights + bias), atol=1e-5)
    names = [operator.name for operator in read(joined).operators]
    assert "CONCATENATION" not in names
    assert names.count("FULLY_CONNECTED") >= 3


def test_levels_that_no_head_reads_are_cut(backbone: bytes, levelled: bytes, images: list[Array], run: Run) -> None:
    random = np.random.default_rng(1)
    width, last = run(levelled, {"image": images[0]})["features"].shape[1], last_width(levelled)
    assert last == last_width(backbone) == read(backbone).outputs[0].shape[1]
    weights, bias = np.zeros((width, 4), np.float32), random.normal(size=4).astype(np.float32)
    weights[:last] = random.normal(0, 0.1, (last, 4))
    data, plain = attach_head(levelled, weights, bias), attach_head(backbone, weights[:last], bias)
    assert [operator.name for operator in read(data).operators] == [operator.name for operator in read(plain).operators]
    answers = [run(each, {"image": images[0]})["probabilities"] for each in (data, plain)]
    np.testing.assert_array_equal(*answers)


def test_the_joined_classifier_stays_within_one_delegate(levelled: bytes, images: list[Array], run: Run) -> None:
    width = run(levelled, {"image": images[0]})["features"].shape[1]
    assert stays_within_one_delegate(attach_head(levelled, np.zeros((width, 3)), np.zeros(3)))


def test_a_quantized_head_answers_as_the_float_one(
    levelled: bytes, images: list[Array], run: Run, quantize: Quantize, tmp_path: Path
) -> None:
    random = np.random.default_rng(2)
    rows = np.concatenate([run(levelled, {"image": image})["features"] for image in images])
    weights = (random.normal(size=(rows.shape[1], 3)) / (rows.std(axis=0)[:, None] + 1) / 50).astype(np.float32)
    joined = attach_head(levelled, weights, -(rows.mean(axis=0) @ weights).astype(np.float32))
    (tmp_path / "float.tflite").write_bytes(joined)
    (tmp_path / "int8.tflite").write_bytes(quantize(joined, "static_wi8_ai8"))
    exact, rounded = (predict_arrays(tmp_path / f"{name}.tflite", images) for name in ("float", "int8"))
    np.testing.assert_allclose(rounded, exact, atol=0.1)


def test_a_trunk_without_maps_comes_back_as_it_is() -> None:
    assert with_levels(tiny_features()) == tiny_features()


def test_a_network_is_its_layers_with_their_sizes() -> None:
    builder = Builder()
    image = builder.input(16)
    stem = builder.convolution(image, 8, kernel=3, stride=2)
    pooled = builder.mean(builder.depthwise(stem))
    scores = builder.dense(pooled, 5)
    works = list_works(read(builder.finish({"image": image}, {"scores": scores})))
    assert works == (
        Work(CONVOLUTION, 64, 8, 3, 9, 2, 16 * 16 * 3),
        Work(DEPTHWISE, 64, 8, 1, 9, 1, 64 * 8),
        Work("MEAN", 1, 8, read=64 * 8),
        Work(DENSE, 1, 5, 8, read=8),
    )
    assert [work.macs for work in works] == [64 * 8 * 27, 64 * 8 * 9, 8, 40]
    assert [work.weights for work in works] == [8 * 27, 8 * 9, 0, 40]


def padded_of_work(consumers: int) -> bytes:
    """A PAD that feeds one or two convolutions."""
    builder = Builder()
    image = builder.input(4)
    margins = builder.constant(np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32), INT32)
    wider = builder.operator(OPERATORS.PAD, [image, margins], (1, 6, 6, 3), schema.PadOptionsT())
    outputs = {f"y{place}": builder.convolution(wider, 4) for place in range(consumers)}
    return builder.finish({"image": image}, outputs)


def test_a_pad_before_one_convolution_takes_no_time() -> None:
    assert [work.kind for work in list_works(read(padded_of_work(1)))] == [CONVOLUTION]
    assert [work.kind for work in list_works(read(padded_of_work(2)))] == ["PAD", CONVOLUTION, CONVOLUTION]


def test_a_clamp_takes_no_time_and_an_operator_on_constants_runs_at_loading() -> None:
    graph = Graph()
    image = graph.tensor("image", (1, 4))
    stored = graph.tensor("stored", (1, 4), np.ones(4, np.float32))
    expanded, total, clamped = (graph.tensor(name, (1, 4)) for name in ("expanded", "total", "clamped"))
    graph.operator(OPERATORS.LOGISTIC, [stored], [expanded])
    graph.operator(OPERATORS.ADD, [image, stored], [total], schema.AddOptionsT())
    graph.operator(OPERATORS.RELU, [total], [clamped])
    works = list_works(read(graph.finish({"image": image}, {"y": clamped, "z": expanded})))
    assert works == (Work("ADD", 1, 4, read=4),)


def test_a_clamp_of_a_result_that_others_read_takes_time() -> None:
    graph = Graph()
    image = graph.tensor("image", (1, 4))
    total, clamped, other = (graph.tensor(name, (1, 4)) for name in ("total", "clamped", "other"))
    graph.operator(OPERATORS.ADD, [image, image], [total], schema.AddOptionsT())
    graph.operator(OPERATORS.RELU, [total], [clamped])
    graph.operator(OPERATORS.LOGISTIC, [total], [other])
    works = list_works(read(graph.finish({"image": image}, {"y": clamped, "z": other})))
    assert [work.kind for work in works] == ["ADD", "RELU", "LOGISTIC"]


def test_equal_operators_are_counted() -> None:
    one, other = Work("ADD", 1, 4, read=8), Work("ADD", 1, 2, read=4)
    assert count_works([one, other, one]) == ((other, 1), (one, 2))


def test_a_split_writes_all_its_parts_and_a_slice_reads_only_its_own() -> None:
    graph = Graph()
    image = graph.tensor("image", (1, 2, 2, 8))
    axis = graph.tensor("axis", (), np.array(3, np.int32), INT32)
    bounds = [graph.tensor(name, (4,), np.array(values, np.int32), INT32) for name, values in BOUNDS.items()]
    left, right, part = (graph.tensor(name, (1, 2, 2, 4)) for name in ("left", "right", "part"))
    graph.operator(OPERATORS.SPLIT, [axis, image], [left, right], schema.SplitOptionsT(numSplits=2))
    graph.operator(OPERATORS.STRIDED_SLICE, [image, *bounds], [part], schema.StridedSliceOptionsT())
    works = list_works(read(graph.finish({"image": image}, {"a": left, "b": right, "c": part})))
    assert works == (Work("SPLIT", 4, 8, read=32), Work("STRIDED_SLICE", 4, 4, read=16))


@pytest.mark.parametrize("kind", [np.float32, np.int8])
@pytest.mark.parametrize("turned", [True, False])
def test_a_file_that_takes_nchw_takes_nhwc_after_it(kind: type[np.generic], turned: bool, run: Run) -> None:
    graph, shape = Graph(), (1, 4, 4, 3) if turned else (1, 3, 4, 4)
    image = graph.tensor("image", (1, 3, 4, 4))
    bent = graph.added(B.RELU, [graph.transposed(image, TO_NHWC, shape) if turned else image], shape)
    if kind is np.int8:
        for tensor in (each for each in graph.graph.tensors if each.type == schema.TensorType.FLOAT32):
            tensor.type = schema.TensorType.INT8
            tensor.quantization = schema.QuantizationParametersT(scale=[0.5], zeroPoint=[1])
    given = graph.finish({"image": image}, {"bent": bent})
    found = with_channels_last(given)
    assert [tensor.shape for tensor in read(found).inputs] == [(1, 4, 4, 3)]
    assert read(found).transposes == (0 if turned else 1)
    values = np.arange(-9, 39).reshape(1, 3, 4, 4).astype(kind)
    expected = run(given, {"image": values})["bent"]
    np.testing.assert_array_equal(run(found, {"image": values.transpose(TO_NHWC)})["bent"], expected)


def test_an_image_in_nhwc_stays(master: bytes) -> None:
    assert with_channels_last(master) is master

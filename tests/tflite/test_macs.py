from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given
from hypothesis import strategies as st

from advisor.tflite.float16 import to_float16
from advisor.tflite.macs import count
from advisor.tflite.model import read

from .graphs import INT32, Graph, tiny_classifier, tiny_features

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "models"
SIZES = st.integers(1, 5)


def one_operator(builtin: int, source: tuple[int, ...], kernel: tuple[int, ...], output: tuple[int, ...]) -> bytes:
    graph = Graph()
    image = graph.tensor("image", source)
    weights = graph.tensor("kernel", kernel, np.zeros(kernel, np.float32))
    bias = graph.tensor("bias", (output[-1],), np.zeros(output[-1], np.float32))
    result = graph.tensor("result", output)
    graph.operator(builtin, [image, weights, bias], [result])
    return graph.finish({"image": image}, {"result": result})


@given(SIZES, SIZES, SIZES, SIZES, SIZES, SIZES)
def test_convolution(height: int, width: int, inputs: int, outputs: int, rows: int, columns: int) -> None:
    cost = count(
        read(
            one_operator(
                schema.BuiltinOperator.CONV_2D,
                (1, 9, 9, inputs),
                (outputs, rows, columns, inputs),
                (1, height, width, outputs),
            )
        )
    )
    assert cost.macs == height * width * outputs * rows * columns * inputs
    assert cost.parameters == outputs * rows * columns * inputs + outputs


def test_a_grouped_convolution_reads_its_group_alone() -> None:
    data = one_operator(schema.BuiltinOperator.CONV_2D, (1, 8, 8, 12), (6, 3, 3, 4), (1, 8, 8, 6))
    assert count(read(data)).macs == 8 * 8 * 6 * 3 * 3 * 4


@given(SIZES, SIZES, SIZES, SIZES)
def test_depthwise_convolution(height: int, channels: int, multiplier: int, rows: int) -> None:
    outputs = channels * multiplier
    data = one_operator(
        schema.BuiltinOperator.DEPTHWISE_CONV_2D,
        (1, 9, 9, channels),
        (1, rows, rows, outputs),
        (1, height, height, outputs),
    )
    assert count(read(data)).macs == height * height * outputs * rows * rows


@given(SIZES, SIZES, SIZES)
def test_fully_connected(batch: int, width: int, units: int) -> None:
    data = one_operator(schema.BuiltinOperator.FULLY_CONNECTED, (batch, width), (units, width), (batch, units))
    assert count(read(data)).macs == batch * width * units


def test_transposed_convolution() -> None:
    graph = Graph()
    shape = graph.tensor("shape", (4,), np.array([1, 8, 8, 3], np.int32), INT32)
    kernel = graph.tensor("kernel", (3, 2, 2, 5), np.zeros((3, 2, 2, 5), np.float32))
    image = graph.tensor("image", (1, 4, 4, 5))
    result = graph.tensor("result", (1, 8, 8, 3))
    graph.operator(schema.BuiltinOperator.TRANSPOSE_CONV, [shape, kernel, image], [result])
    assert count(read(graph.finish({"image": image}, {"result": result}))).macs == 4 * 4 * 5 * 3 * 2 * 2


def test_a_matrix_product() -> None:
    graph = Graph()
    left, right = graph.tensor("left", (2, 3, 4)), graph.tensor("right", (2, 4, 5))
    result = graph.tensor("result", (2, 3, 5))
    graph.operator(schema.BuiltinOperator.BATCH_MATMUL, [left, right], [result])
    data = graph.finish({"left": left, "right": right}, {"result": result})
    assert count(read(data)).macs == 2 * 3 * 4 * 5


def test_an_activation_costs_nothing() -> None:
    assert (count(read(tiny_features())).macs, count(read(tiny_features())).parameters) == (0, 0)


def test_shapes_and_axes_are_no_parameters(master: bytes) -> None:
    mean = next(cost for cost in count(read(master)).operators if cost.name == "MEAN")
    assert (mean.macs, mean.parameters) == (0, 0)


def test_a_constant_read_twice_is_counted_once() -> None:
    graph = Graph()
    image = graph.tensor("image", (1, 4))
    kernel = graph.tensor("kernel", (4, 4), np.zeros((4, 4), np.float32))
    results = [graph.tensor(f"result {index}", (1, 4)) for index in range(2)]
    graph.operator(schema.BuiltinOperator.FULLY_CONNECTED, [image, kernel, -1], [results[0]])
    graph.operator(schema.BuiltinOperator.FULLY_CONNECTED, [results[0], kernel, -1], [results[1]])
    cost = count(read(graph.finish({"image": image}, {"result": results[1]})))
    assert (cost.macs, cost.parameters) == (32, 16)


def test_float16_changes_neither_macs_nor_parameters(master: bytes) -> None:
    before, after = count(read(master)), count(read(to_float16(master)))
    assert (after.macs, after.parameters) == (before.macs, before.parameters)
    convolutions = [
        [(cost.macs, cost.parameters) for cost in whole.operators if cost.name == "CONV_2D"]
        for whole in (before, after)
    ]
    assert convolutions[0] == convolutions[1]


def test_operators_are_listed_with_their_output() -> None:
    first, second = count(read(tiny_classifier(4, 3))).operators
    assert (first.name, first.output) == ("RELU", "features")
    assert (second.index, second.macs, second.parameters) == (1, 12, 15)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the foreign models are not beside the checkout")
@pytest.mark.parametrize(
    ("name", "millions"),
    [("mobilenet_v1_0.25_128_quant.tflite", 14), ("tf2_mobilenet_v2_1.0_224_ptq.tflite", 300)],
)
def test_published_models_have_the_published_macs(name: str, millions: int) -> None:
    """TF-Slim's tables of MobileNet checkpoints list these, in millions."""
    assert count(read(SHARED / name)).macs / 1e6 == pytest.approx(millions, rel=0.05)

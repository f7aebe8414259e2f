"""A graph is fixed at one float image, and simplified."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from advisor.catalog.user_models.onnx_files.graph import Image, fixed, prepared
from advisor.catalog.user_models.onnx_files.original import OnnxOriginal
from advisor.core.errors import UsageError
from tests.catalog.user_models.onnx_files.graphs import CLASSES, IMAGE, NODES, SIDE, network, shuffled

FILE = Path("net.onnx")
RNG = np.random.default_rng(0)


def sides(model: Any) -> list[int]:
    return [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]


@pytest.mark.parametrize(
    ("shape", "size"),
    [(IMAGE, None), (("n", 3, SIDE, SIDE), None), (("n", 3, "h", "w"), SIDE), ((1, 3, "h", SIDE), None)],
)
def test_an_open_batch_or_size_is_fixed(shape: tuple[Any, ...], size: int | None) -> None:
    model = network(shape)
    assert fixed(model, size, FILE) == Image("image", True, SIDE)
    assert sides(model) == [1, 3, SIDE, SIDE]


def test_an_image_in_nhwc_keeps_its_order() -> None:
    turn = helper.make_node("Transpose", ["pixels"], ["image"], perm=[0, 3, 1, 2])
    model = network(("n", SIDE, SIDE, 3), nodes=(turn, *NODES), inputs=("pixels",))
    assert fixed(model, None, FILE) == Image("pixels", False, SIDE)
    assert OnnxOriginal(model, Image("pixels", False, SIDE)).scores(np.zeros((2, SIDE, SIDE, 3), np.float32)).shape == (
        2,
        CLASSES,
    )


@pytest.mark.parametrize(
    ("shape", "size", "said"),
    [
        (("n", 3, "h", "w"), None, "leaves the size open"),
        ((1, 3, SIDE, SIDE), 64, "not one square"),
        ((1, 3, 32, 64), None, "not one square"),
        ((1, 1, SIDE, SIDE), None, rf"its input \(1, 1, {SIDE}, {SIDE}\) is not one RGB image"),
        ((1, 3, SIDE), None, "not one RGB image"),
        ((8, 3, SIDE, SIDE), None, "its batch is fixed at 8"),
    ],
)
def test_an_input_that_is_not_one_image_is_refused(shape: tuple[Any, ...], size: int | None, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        fixed(network(shape), size, FILE)


def test_a_model_with_two_inputs_is_refused() -> None:
    with pytest.raises(UsageError, match="it has 2 inputs: 'image', 'mask'"):
        fixed(network(inputs=("image", "mask")), None, FILE)


def test_a_model_with_two_outputs_is_refused_unless_one_is_the_probabilities() -> None:
    with pytest.raises(UsageError, match="it has 2 outputs: 'scores', 'f'"):
        fixed(network(outputs=("scores", "f")), None, FILE)
    softmax = helper.make_node("Softmax", ["scores"], ["probabilities"])
    model = network(nodes=(*NODES, softmax), outputs=("f", "probabilities"))
    fixed(model, None, FILE)
    assert [entry.name for entry in model.graph.output] == ["probabilities"]


def test_an_input_of_bytes_is_refused() -> None:
    model = network()
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    with pytest.raises(UsageError, match="it takes uint8, not float32"):
        fixed(model, None, FILE)


def test_float16_is_widened() -> None:
    model = network()
    expected = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(expected[tensor.name].astype(np.float16), tensor.name))
    for entry in (*model.graph.input, *model.graph.output):
        entry.type.tensor_type.elem_type = TensorProto.FLOAT16
    fixed(model, None, FILE)
    assert outputs(model)(model).dtype == np.float32
    found = numpy_helper.to_array(model.graph.initializer[0])
    assert found.dtype == np.float32
    assert found == pytest.approx(expected["w1"], abs=1e-3)


def outputs(model: Any) -> Any:
    images = RNG.normal(size=(2, SIDE, SIDE, 3)).astype(np.float32)
    return lambda given: OnnxOriginal(given, Image("image", True, SIDE)).scores(images)


def test_batch_normalisation_joins_its_convolution() -> None:
    norm = helper.make_node("BatchNormalization", ["c1", "b1", "b1", "b1", "one"], ["n1"])
    relu = helper.make_node("Relu", ["n1"], ["r1"])
    one = numpy_helper.from_array(np.ones(8, np.float32), "one")
    model = network(nodes=(NODES[0], norm, relu, *NODES[2:]), more=(one,))
    run = outputs(model)
    simple = prepared(model, FILE)
    assert "BatchNormalization" not in {node.op_type for node in simple.graph.node}
    assert run(simple) == pytest.approx(run(model), abs=1e-6)


def test_hard_swish_stays_in_one_piece_and_a_gate_becomes_relu6() -> None:
    model = shuffled()
    run = outputs(model)
    simple = prepared(model, FILE)
    kinds = Counter(node.op_type for node in simple.graph.node)
    assert (kinds["HardSwish"], kinds["HardSigmoid"], kinds["Clip"]) == (1, 0, 1)
    assert run(simple) == pytest.approx(run(model), abs=1e-6)


def test_an_old_operator_set_is_converted() -> None:
    nodes = (NODES[0], helper.make_node("Clip", ["c1"], ["r1"], min=0.0, max=6.0), *NODES[2:])
    model = network(nodes=nodes, opset=9)
    run = outputs(model)
    assert run(prepared(model, FILE)) == pytest.approx(run(model), abs=1e-6)


def test_an_old_operator_that_cannot_be_converted_is_told() -> None:
    nodes = (NODES[0], helper.make_node("Upsample", ["c1", "scales"], ["r1"], mode="linear"), *NODES[2:])
    scales = numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")
    with pytest.raises(UsageError, match="its operator set 7 cannot be converted to 13"):
        prepared(network(nodes=nodes, more=(scales,), opset=7), FILE)

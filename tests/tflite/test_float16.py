from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from advisor.core.errors import UnsupportedRecipe, UsageError
from advisor.tflite.float16 import to_float16, to_float32
from advisor.tflite.model import Model, read

from .conftest import Array, Run
from .graphs import Graph, features_graph, tiny_classifier, tiny_features


@pytest.fixture(scope="module")
def halved(master: bytes) -> bytes:
    return to_float16(master)


@pytest.fixture(scope="module")
def converter_made(converted: Path) -> bytes:
    return (converted / "float16.tflite").read_bytes()


def operator_counts(model: Model) -> Counter[tuple[str, int]]:
    return Counter((operator.name, operator.version) for operator in model.operators)


def half_constants(model: Model) -> Counter[tuple[bytes, tuple[int, ...]]]:
    return Counter((tensor.buffer, tensor.shape) for tensor in model.tensors if tensor.dtype == "float16")


def test_operators_and_stored_constants_are_those_of_the_converter(halved: bytes, converter_made: bytes) -> None:
    own, theirs = read(halved), read(converter_made)
    assert operator_counts(own) == operator_counts(theirs)
    assert half_constants(own) == half_constants(theirs)


def test_the_size_is_that_of_the_converter(halved: bytes, converter_made: bytes) -> None:
    assert len(halved) == pytest.approx(len(converter_made), rel=0.01)


def test_outputs_are_those_of_the_converter(
    halved: bytes, converter_made: bytes, images: list[Array], run: Run
) -> None:
    for image in images[:3]:
        own, theirs = run(halved, {"image": image}), run(converter_made, {"image": image})
        assert own.keys() == theirs.keys()
        for name in own:
            np.testing.assert_allclose(own[name], theirs[name], atol=1e-6)


def test_the_notes_to_the_runtime_are_those_of_the_converter(halved: bytes, converter_made: bytes) -> None:
    def notes(data: bytes) -> dict[str, bytes]:
        entries = {name: content.rstrip(b"\0") for name, content in read(data).metadata.items()}
        return {name: entries[name] for name in ("min_runtime_version", "reduced_precision_support")}

    assert notes(halved) == notes(converter_made)


def test_the_whole_graph_stays_in_the_delegate(halved: bytes) -> None:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=halved)
    interpreter.allocate_tensors()
    names = [operator["op_name"] for operator in interpreter._get_ops_details()]
    assert names.count("DELEGATE") == 1


def test_inputs_and_outputs_stay_float32(master: bytes, halved: bytes) -> None:
    before, after = read(master), read(halved)
    assert after.inputs == before.inputs
    assert [(t.name, t.dtype) for t in after.outputs] == [(t.name, t.dtype) for t in before.outputs]
    assert after.signatures == before.signatures


def scaled(values: Array, readers: int = 1, keep: bool = False) -> bytes:
    """A model that multiplies its input by a constant ``readers`` times; the constant is an output too if ``keep``."""
    graph = Graph()
    last = image = graph.tensor("image", values.shape)
    constant = graph.tensor("constant", values.shape, values)
    for _ in range(readers):
        product = graph.tensor("product", values.shape)
        graph.operator(schema.BuiltinOperator.MUL, [last, constant], [product], schema.MulOptionsT())
        last = product
    return graph.finish({"image": image}, {"product": last, **({"constant": constant} if keep else {})})


@given(arrays.arrays(np.float32, (1, 5), elements=st.floats(-65504, 65504, width=32)))
def test_constants_are_rounded_to_the_nearest_float16(values: Array) -> None:
    constant = next(tensor for tensor in read(to_float16(scaled(values))).tensors if tensor.is_constant)
    stored = np.frombuffer(constant.buffer, np.float16)
    np.testing.assert_array_equal(stored, values[0].astype(np.float16))


def test_constants_beyond_the_range_are_clamped(run: Run) -> None:
    values = np.array([[1e9, -1e9, np.inf, -np.inf, 3e-9]], np.float32)
    outputs = run(to_float16(scaled(values)), {"image": np.ones((1, 5), np.float32)})
    np.testing.assert_array_equal(outputs["product"], [[65504, -65504, 65504, -65504, 0]])


def test_a_constant_read_twice_is_expanded_once(run: Run) -> None:
    data = to_float16(scaled(np.array([[3.0]], np.float32), readers=2))
    assert operator_counts(read(data)) == {("DEQUANTIZE", 3): 1, ("MUL", 1): 2}
    np.testing.assert_array_equal(run(data, {"image": np.ones((1, 1), np.float32)})["product"], [[9]])


def test_a_constant_that_is_an_output_stays_float32() -> None:
    model = read(to_float16(scaled(np.array([[3.0]], np.float32), keep=True)))
    assert [tensor.dtype for tensor in model.outputs] == ["float32", "float32"]
    assert Counter(tensor.dtype for tensor in model.tensors if tensor.is_constant) == {"float32": 1, "float16": 1}


def test_integer_constants_stay(run: Run) -> None:
    graph = features_graph()
    shape = graph.tensor("shape", (2,), np.array([2, 2], np.int32), schema.TensorType.INT32)
    square = graph.tensor("square", (2, 2))
    graph.operator(schema.BuiltinOperator.RESHAPE, [1, shape], [square], schema.ReshapeOptionsT())
    kernel = graph.tensor("kernel", (2, 2), np.eye(2, dtype=np.float32))
    out = graph.tensor("out", (2, 2))
    graph.operator(schema.BuiltinOperator.MUL, [square, kernel], [out], schema.MulOptionsT())
    data = to_float16(graph.finish({"image": 0}, {"out": out}))
    outputs = run(data, {"image": np.array([[1, 2, 3, 4]], np.float32)})
    np.testing.assert_array_equal(outputs["out"], [[1, 0], [0, 4]])


def test_the_float32_content_is_gone() -> None:
    data = tiny_classifier(width=64, classes=64)
    assert len(data) - len(to_float16(data)) > 64 * 64 * 2 - 1000


def test_a_model_without_float_constants_is_not_for_this_recipe() -> None:
    with pytest.raises(UnsupportedRecipe, match="no float32 constants"):
        to_float16(tiny_features())


def test_a_second_time_is_not_for_this_recipe(halved: bytes) -> None:
    with pytest.raises(UnsupportedRecipe, match="no float32 constants"):
        to_float16(halved)


def test_a_damaged_file_is_a_usage_error(master: bytes) -> None:
    with pytest.raises(UsageError, match="not a usable"):
        to_float16(master[: len(master) // 2])


def test_expanded_again_it_answers_the_same_to_the_last_bit(halved: bytes, images: list[Array], run: Run) -> None:
    whole = to_float32(halved)
    assert {tensor.dtype for tensor in read(whole).tensors} == {"float32", "int32"}
    assert "DEQUANTIZE" not in {operator.name for operator in read(whole).operators}
    for image in images[:3]:
        expected, actual = run(halved, {"image": image}), run(whole, {"image": image})
        for name in expected:
            np.testing.assert_array_equal(actual[name], expected[name])


def test_a_file_without_float16_constants_stays_as_it_is(master: bytes) -> None:
    assert to_float32(master) is master

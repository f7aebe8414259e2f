from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from advisor.core import StageError, UnsupportedRecipe
from advisor.tflite import attach_head, fold_normalization, read, to_float16, to_float_io, unpack, with_fixed_batch
from advisor.tflite._values import Model, Quantization
from tests.builders import must_fail
from tests.tables import with_cases
from tests.tflite.graphs import Graph, edited, features_graph, tiny_classifier, tiny_features
from tests.tflite.running import Array, Quantize, Run, stays_within_one_delegate

MEAN = (123.675, 116.28, 103.53)
STD = (58.395, 57.12, 57.375)


@pytest.fixture(scope="module")
def classifier(backbone: bytes) -> bytes:
    random = np.random.default_rng(11)
    return attach_head(backbone, random.normal(0, 0.2, (1280, 4)), np.zeros(4))


@pytest.fixture(scope="module", params=["static_wi8_ai8", "static_wi8_ai16"])
def quantized(request: pytest.FixtureRequest, classifier: bytes, quantize: Quantize) -> bytes:
    return quantize(classifier, request.param)


def stored(values: Array, how: Quantization, dtype: str) -> Array:
    """Quantize as a client does: to the nearest, within the type's range."""
    nearest = np.rint(values * np.float32(1 / how.scales[0])) + how.zero_points[0]
    limits = np.iinfo(dtype)
    return np.asarray(np.clip(nearest, limits.min, limits.max).astype(dtype))


def test_float_io_gives_what_a_quantizing_client_gets(quantized: bytes, images: list[Array], run: Run) -> None:
    model = read(quantized)
    entry, output = model.inputs[0], model.outputs[0]
    assert entry.quantization is not None
    outside = run(quantized, {"image": stored(images[0], entry.quantization, entry.dtype)})["probabilities"]
    expected = (outside.astype(np.float32) - output.quantization.zero_points[0]) * output.quantization.scales[0]
    inside = run(to_float_io(quantized), {"image": images[0]})["probabilities"]
    np.testing.assert_allclose(inside, expected, atol=1.1 * output.quantization.scales[0])


def test_float_io_keeps_all_names_and_leaves_a_float_model_as_it_is(quantized: bytes, classifier: bytes) -> None:
    model = read(to_float_io(quantized))
    assert [tensor.dtype for tensor in (*model.inputs, *model.outputs)] == ["float32", "float32"]
    assert [name for name, _ in model.signatures[0].inputs] == ["image"]
    assert [name for name, _ in model.signatures[0].outputs] == ["probabilities"]
    assert (model.operators[0].name, model.operators[-1].name) == ("QUANTIZE", "DEQUANTIZE")
    assert to_float_io(classifier) == classifier


def _opened(data: bytes, signature: list[int]) -> bytes:
    def open_sides(model: Any) -> None:
        model.subgraphs[0].tensors[model.subgraphs[0].inputs[0]].shapeSignature = signature

    return edited(data, open_sides)


def test_an_open_batch_is_fixed_to_one_image(classifier: bytes, run: Run) -> None:
    fixed = with_fixed_batch(_opened(classifier, [-1, 96, 96, 3]))
    graph = unpack(fixed).subgraphs[0]
    assert graph.tensors[graph.inputs[0]].shapeSignature is None
    image = np.random.default_rng(0).normal(size=(1, 96, 96, 3)).astype(np.float32)
    np.testing.assert_array_equal(
        run(fixed, {"image": image})["probabilities"], run(classifier, {"image": image})["probabilities"]
    )


def test_a_fixed_batch_and_an_open_side_stay_as_they_are(classifier: bytes) -> None:
    assert with_fixed_batch(classifier) is classifier
    opened = _opened(classifier, [-1, -1, -1, 3])
    assert with_fixed_batch(opened) is opened


def absolute(dtype: int) -> bytes:
    graph = Graph()
    image, out = (graph.tensor(name, (1, 4), dtype=dtype) for name in ("image", "out"))
    graph.operator(schema.BuiltinOperator.ABS, [image], [out])
    return graph.finish({"image": image}, {"out": out})


def test_float_io_refuses_other_types_and_leaves_indices_as_they_are() -> None:
    must_fail(StageError, "'image' is neither float32 nor quantized", to_float_io, absolute(schema.TensorType.UINT8))
    found = read(to_float_io(absolute(schema.TensorType.INT32)))
    assert [tensor.dtype for tensor in (*found.inputs, *found.outputs)] == ["int32", "int32"]


def test_a_folded_normalization_takes_raw_values(classifier: bytes, quantized: bytes, run: Run) -> None:
    values = np.random.default_rng(2).integers(0, 256, (1, 96, 96, 3)).astype(np.float32)
    normalized = ((values - np.array(MEAN)) / np.array(STD)).astype(np.float32)
    for plain, most in ((classifier, 1e-5), (to_float_io(quantized), 0.02)):
        folded = edited(plain, lambda model: fold_normalization(model, MEAN, STD))
        found = run(folded, {"image": values})["probabilities"]
        np.testing.assert_allclose(found, run(plain, {"image": normalized})["probabilities"], atol=most)


@with_cases
def test_a_normalization_that_does_not_fit_is_refused(
    classifier: bytes, mean: tuple[float, ...], std: tuple[float, ...], reason: str
) -> None:
    must_fail(StageError, reason, fold_normalization, unpack(classifier), mean, std)


def test_a_normalization_needs_an_image() -> None:
    must_fail(StageError, "one float32 image input", fold_normalization, unpack(tiny_features()), MEAN, STD)


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


def test_outputs_are_those_of_converter(halved: bytes, converter_made: bytes, images: list[Array], run: Run) -> None:
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
    assert stays_within_one_delegate(halved)


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
    square = graph.added(schema.BuiltinOperator.RESHAPE, [1, shape], (2, 2), schema.ReshapeOptionsT())
    kernel = graph.tensor("kernel", (2, 2), np.eye(2, dtype=np.float32))
    out = graph.added(schema.BuiltinOperator.MUL, [square, kernel], (2, 2), schema.MulOptionsT())
    data = to_float16(graph.finish({"image": 0}, {"out": out}))
    outputs = run(data, {"image": np.array([[1, 2, 3, 4]], np.float32)})
    np.testing.assert_array_equal(outputs["out"], [[1, 0], [0, 4]])


def test_the_float32_content_is_gone() -> None:
    data = tiny_classifier(width=64, classes=64)
    assert len(data) - len(to_float16(data)) > 64 * 64 * 2 - 1000


def test_a_model_without_float_constants_is_not_for_this_recipe(halved: bytes) -> None:
    for data in (tiny_features(), halved):
        must_fail(UnsupportedRecipe, "no float32 constants", to_float16, data)

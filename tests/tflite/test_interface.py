from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from advisor.core.errors import StageError, UsageError
from advisor.tflite.interface import fold_normalization, to_float_io, with_fixed_batch
from advisor.tflite.model import read
from advisor.tflite.rewrite import unpack
from advisor.tflite.surgery import attach_head, select_output
from advisor.tflite.values import Quantization

from .conftest import Array, Quantize, Run
from .graphs import Graph, edited, tiny_features

MEAN = (123.675, 116.28, 103.53)
STD = (58.395, 57.12, 57.375)


@pytest.fixture(scope="module")
def classifier(master: bytes) -> bytes:
    random = np.random.default_rng(11)
    return attach_head(select_output(master, "features"), random.normal(0, 0.2, (1280, 4)), np.zeros(4))


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
    assert output.quantization is not None
    outside = run(quantized, {"image": stored(images[0], entry.quantization, entry.dtype)})["probabilities"]
    expected = (outside.astype(np.float32) - output.quantization.zero_points[0]) * output.quantization.scales[0]
    inside = run(to_float_io(quantized), {"image": images[0]})["probabilities"]
    np.testing.assert_allclose(inside, expected, atol=1.1 * output.quantization.scales[0])


def test_float_io_names_the_same_inputs_and_outputs(quantized: bytes) -> None:
    model = read(to_float_io(quantized))
    assert [tensor.dtype for tensor in (*model.inputs, *model.outputs)] == ["float32", "float32"]
    assert [name for name, _ in model.signatures[0].inputs] == ["image"]
    assert [name for name, _ in model.signatures[0].outputs] == ["probabilities"]
    assert (model.operators[0].name, model.operators[-1].name) == ("QUANTIZE", "DEQUANTIZE")


def test_float_io_leaves_a_float_model_as_it_is(classifier: bytes) -> None:
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


def test_float_io_refuses_other_types() -> None:
    graph = Graph()
    image = graph.tensor("image", (1, 4), dtype=schema.TensorType.UINT8)
    out = graph.tensor("out", (1, 4), dtype=schema.TensorType.UINT8)
    graph.operator(schema.BuiltinOperator.ABS, [image], [out])
    with pytest.raises(StageError, match="'image' is neither float32 nor quantized"):
        to_float_io(graph.finish({"image": image}, {"out": out}))


def test_float_io_leaves_indices_as_they_are() -> None:
    graph = Graph()
    tokens = graph.tensor("tokens", (1, 4), dtype=schema.TensorType.INT32)
    out = graph.tensor("out", (1, 4), dtype=schema.TensorType.INT32)
    graph.operator(schema.BuiltinOperator.ABS, [tokens], [out])
    found = read(to_float_io(graph.finish({"tokens": tokens}, {"out": out})))
    assert [tensor.dtype for tensor in (*found.inputs, *found.outputs)] == ["int32", "int32"]


def test_a_folded_normalization_takes_raw_values(classifier: bytes, run: Run) -> None:
    values = np.random.default_rng(2).integers(0, 256, (1, 96, 96, 3)).astype(np.float32)
    normalized = ((values - np.array(MEAN)) / np.array(STD)).astype(np.float32)
    folded = fold_normalization(classifier, MEAN, STD)
    np.testing.assert_allclose(
        run(folded, {"image": values})["probabilities"],
        run(classifier, {"image": normalized})["probabilities"],
        atol=1e-5,
    )


def test_a_normalization_folds_in_front_of_a_quantized_model(quantized: bytes, run: Run) -> None:
    values = np.random.default_rng(2).integers(0, 256, (1, 96, 96, 3)).astype(np.float32)
    normalized = ((values - np.array(MEAN)) / np.array(STD)).astype(np.float32)
    plain = to_float_io(quantized)
    np.testing.assert_allclose(
        run(fold_normalization(plain, MEAN, STD), {"image": values})["probabilities"],
        run(plain, {"image": normalized})["probabilities"],
        atol=0.02,
    )


@pytest.mark.parametrize(
    ("mean", "std", "reason"),
    [
        ((1.0,), (1.0,), "does not fit 3 channels"),
        ((0.0, 0.0, 0.0), (1.0, 0.0, 1.0), "finite and positive"),
        ((0.0, float("nan"), 0.0), (1.0, 1.0, 1.0), "finite and positive"),
    ],
)
def test_a_normalization_that_does_not_fit_is_refused(
    classifier: bytes, mean: tuple[float, ...], std: tuple[float, ...], reason: str
) -> None:
    with pytest.raises(StageError, match=reason):
        fold_normalization(classifier, mean, std)


def test_a_normalization_needs_an_image() -> None:
    with pytest.raises(StageError, match="one float32 image input"):
        fold_normalization(tiny_features(), MEAN, STD)


def test_a_damaged_file_is_a_usage_error(master: bytes) -> None:
    for edit in (to_float_io, lambda data: fold_normalization(data, MEAN, STD)):
        with pytest.raises(UsageError, match="not a usable"):
            edit(master[:1000])

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from scipy import special

from advisor.compression import RECIPES, Needs, RecipeInputs, recipe
from advisor.compression._quantization.quantizer import eight_bit_rules, quantize_model
from advisor.core import StageError
from advisor.engine._pipeline.stages.unknown_score import Neighbours
from advisor.measurement import predict_arrays
from advisor.tflite import (
    Metadata,
    Model,
    Operator,
    attach_head,
    read,
    to_float_io,
    with_probe,
    with_temperature,
    with_unknown,
)
from tests.builders import must_fail
from tests.measurement.small_models import Builder
from tests.tflite.graphs import FLOAT32, edited, tiny_classifier
from tests.tflite.running import Array

MODELS = Path(__file__).resolve().parents[3] / "shared" / "data" / "models"
OPERATORS = schema.BuiltinOperator
SIDE, CLASSES, IMAGES = 16, 5, 100
RECIPE_NAMES = [one.name for one in RECIPES if one.needs < Needs.TRAINING]
MIXED = {"int8, softmax in float": ["head/probabilities"], "int8, sum in float": ["head/sum/1", "head/logits"]}
OF_ONE_PART = ["float32", "float16", "dynamic_int8", "int8", "int16x8"]
"""Each type of a head; recipes that leave it alone differ from these in the network below, and are tested on two."""
FORMS = [*((1, name) for name in OF_ONE_PART), *((2, name) for name in [*RECIPE_NAMES, *MIXED])]
TEMPERATURES = (0.4, 3.3)
STEPS = {"float32": 1e-6, "float16": 1e-3, "int8": 1 / 256, "int16": 4e-4}
"""Largest error of a probability by the type of the SOFTMAX; the int16 one of LiteRT looks powers up in a table."""

DESCRIPTION = Metadata("m", ("a", "b", "c", "d", "e"), (127.5, 1.0, 2.0), (64.0, 3.0, 4.0), "what", "who", "MIT", "2")
FORMS_OF_UNKNOWN = [(parts, name) for parts in (1, 2) for name in OF_ONE_PART]
WIDTHS = {1: 16, 2: 24}


@cache
def random_images() -> Array:
    """Noise around random colours, (N, S, S, 3)."""
    random = np.random.default_rng(1)
    colours = random.uniform(-3, 3, (IMAGES, 1, 1, 3))
    return (colours + random.normal(0, 0.3, (IMAGES, SIDE, SIDE, 3))).astype(np.float32)


@cache
def classifier(parts: int) -> bytes:
    """A float classifier by likeness to its first images; its head reads one level of the network, or two."""
    build, image = Builder.with_image(SIDE)
    lower = build.convolution(image, 8, 3, 2)
    features = build.mean(build.convolution(build.depthwise(lower), 16))
    if parts == 2:
        options = schema.ConcatenationOptionsT(axis=1)
        levels = [features, build.mean(lower)]
        features = build.operator(OPERATORS.CONCATENATION, levels, (1, 24), options)
    data = build.finish({"image": image}, {"features": features})
    rows = predict_arrays(data, random_images())
    mean = rows.mean(axis=0)
    weights = (rows[:CLASSES] - mean).T / rows.var(axis=0).sum()
    return attach_head(data, weights, -mean @ weights)


@cache
def form(parts: int, name: str) -> bytes:
    calibration = random_images()[:16]
    if name not in MIXED:
        return recipe(name).apply(classifier(parts), calibration)
    inputs = RecipeInputs(calibration)
    ranges = inputs.observer(classifier(parts), calibration).compute_ranges(8)
    return quantize_model(classifier(parts), eight_bit_rules(MIXED[name]), ranges)


def softmax_of(model: Model) -> Operator:
    return next(operator for operator in model.operators if operator.name == "SOFTMAX")


@cache
def logits_of(parts: int, name: str) -> Array:
    return logits(form(parts, name))


def logits(data: bytes, images: Array | None = None) -> Array:
    """Return the inputs of the SOFTMAX, dequantized."""
    index = softmax_of(read(data)).inputs[0]

    def give_out(model: Any) -> None:
        model.subgraphs[0].outputs = [index]
        for signature in model.signatureDefs:
            signature.outputs[0].tensorIndex = index

    return predict_arrays(edited(data, give_out), random_images() if images is None else images)


def largest_error(parts: int, name: str, temperature: float) -> float:
    """Return the largest error of a probability; rounding errors of logits are divided by the temperature too."""
    model = read(form(parts, name))
    kind = "float16" if name == "float16" else model.tensors[softmax_of(model).outputs[0]].dtype
    return STEPS[kind] / (min(1, temperature) if "float" in kind else 1)


def softmax(values: Array) -> Array:
    return np.asarray(special.softmax(values.astype(np.float64), axis=1))


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize(("parts", "name"), FORMS)
def test_probabilities_are_of_divided_logits_and_the_first_stays(parts: int, name: str, temperature: float) -> None:
    """Integer probabilities may tie: then it is one of the first. float16 rounds weights again, int16 logits."""
    made = predict_arrays(with_temperature(form(parts, name), temperature), random_images())
    wanted = softmax(logits_of(parts, name) / temperature)
    most = largest_error(parts, name, temperature)
    assert np.abs(made - wanted).max() <= most
    behind = made.max(axis=1) - made[np.arange(IMAGES), logits_of(parts, name).argmax(axis=1)]
    rounded = name in {"float16", "int16x8"}
    assert behind.max() <= (most if rounded else 0)
    assert np.count_nonzero(behind) <= (2 if rounded else 0)


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("name", ["int8", "int8_per_tensor", "int8_float_io", "int16x8", "int8, sum in float"])
def test_integer_logits_stay(name: str, temperature: float) -> None:
    """LiteRT computes 16-bit sums with factors of 16 bits: each part may move by one where a scale is rounded."""
    given, made = form(2, name), with_temperature(form(2, name), temperature)
    steps = read(given).tensors[softmax_of(read(given)).inputs[0]].quantization
    moved = np.rint((logits(made).astype(np.float64) * temperature - logits_of(2, name)) / steps.scales[0])
    assert np.abs(moved).max() <= (2 if name == "int16x8" else 0)


@pytest.mark.parametrize("name", OF_ONE_PART)
def test_a_temperature_of_1_changes_nothing(name: str) -> None:
    assert read(with_temperature(form(2, name), 1.0)).subgraphs == read(form(2, name)).subgraphs


@pytest.mark.parametrize(("parts", "name"), FORMS)
def test_operators_integers_and_signatures_stay(parts: int, name: str) -> None:
    given, made = read(form(parts, name)), read(with_temperature(form(parts, name), 3.3))
    assert made.operators == given.operators
    assert made.signatures == given.signatures
    pairs = [(old, new) for old, new in zip(given.tensors, made.tensors, strict=True) if "float" not in old.dtype]
    assert [new.buffer for _, new in pairs] == [old.buffer for old, _ in pairs]


@pytest.mark.parametrize("name", ["float16", "int8_float_io"])
def test_labels_and_normalization_stay(name: str) -> None:
    made = with_temperature(DESCRIPTION.write_into(form(2, name)), 1.7)
    assert Metadata.read(made) == DESCRIPTION
    assert made == DESCRIPTION.write_into(with_temperature(form(2, name), 1.7))


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_wrong_temperatures_are_refused(temperature: float) -> None:
    must_fail(StageError, "not finite and positive", with_temperature, classifier(1), temperature)


@pytest.mark.parametrize("name", ["float32", "float16", "dynamic_int8", "int8"])
@pytest.mark.parametrize("temperature", [1e-300, 1e300])
def test_temperatures_out_of_a_type_s_range_are_refused(name: str, temperature: float) -> None:
    must_fail(StageError, "is out of the range of float", with_temperature, form(1, name), temperature)


def inserted(code: int, options: Any = None, behind: str = "FULLY_CONNECTED") -> bytes:
    """Return the classifier of one part with an operator behind its last layer or its softmax."""

    def insert(model: Any) -> None:
        graph = model.subgraphs[0]
        place = [operator.name for operator in read(classifier(1)).operators].index(behind)
        layer = graph.operators[place]
        fresh = model.add_tensor(graph, "fresh", (1, CLASSES), FLOAT32)
        graph.operators.insert(place + 1, model.make_operator(code, [fresh], layer.outputs[0], options))
        layer.outputs = [fresh]

    return edited(classifier(1), insert)


def test_the_way_leads_through_reshapes() -> None:
    data = inserted(OPERATORS.RESHAPE, schema.ReshapeOptionsT(newShape=[1, CLASSES]))
    made = predict_arrays(with_temperature(data, 2.0), random_images())
    np.testing.assert_array_equal(made, predict_arrays(with_temperature(classifier(1), 2.0), random_images()))


def softmax_of_the_input() -> bytes:
    build, image = Builder.with_image(1)
    flat = build.operator(OPERATORS.RESHAPE, [image], (1, 3), schema.ReshapeOptionsT(newShape=[1, 3]))
    return build.finish({"image": image}, {"probabilities": build.softmax(flat)})


def activated() -> bytes:
    def activate(model: Any) -> None:
        model.subgraphs[0].operators[-2].builtinOptions.fusedActivationFunction = schema.ActivationFunctionType.RELU

    return edited(classifier(1), activate)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: inserted(OPERATORS.TANH), "no linear layer before its SOFTMAX that a temperature fits: TANH is in"),
        (lambda: inserted(OPERATORS.TANH, behind="SOFTMAX"), "ends in TANH, and a temperature needs a SOFTMAX there"),
        (softmax_of_the_input, "the model's input is in the way"),
        (activated, "the activation function of FULLY_CONNECTED is in the way"),
        (tiny_classifier, "1 graphs and 2 outputs"),
    ],
)
def test_what_is_in_the_way_is_named(make: Callable[[], bytes], reason: str) -> None:
    must_fail(StageError, reason, with_temperature, make(), 2.0)


@pytest.mark.parametrize("name", ["head/logits", "head/weights"])
def test_another_reader_of_the_head_is_refused(name: str) -> None:
    def read_again(model: Any) -> None:
        graph = model.subgraphs[0]
        index = next(index for index, tensor in enumerate(graph.tensors) if tensor.name == name.encode())
        fresh = model.add_tensor(graph, "fresh", graph.tensors[index].shape, FLOAT32)
        graph.operators.append(model.make_operator(OPERATORS.TANH, [index], fresh))

    with pytest.raises(StageError, match=f"'{name}' of the head has another reader"):
        with_temperature(edited(classifier(1), read_again), 2.0)


def test_layers_may_share_a_bias() -> None:
    def share(model: Any) -> None:
        layers = [operator for operator in model.subgraphs[0].operators if len(operator.inputs) == 3][-2:]
        layers[1].inputs[2] = layers[0].inputs[2]

    data = edited(classifier(2), share)
    made = predict_arrays(with_temperature(data, 2.0), random_images())
    np.testing.assert_allclose(made, softmax(logits(data) / 2.0), atol=1e-6)


def test_another_owner_of_a_buffer_keeps_its_values() -> None:
    def share(model: Any) -> None:
        graph = model.subgraphs[0]
        other = graph.tensors[model.add_tensor(graph, "other", (CLASSES,), FLOAT32)]
        other.buffer = next(tensor.buffer for tensor in graph.tensors if tensor.name == b"head/bias")

    data = edited(classifier(1), share)
    assert read(with_temperature(data, 2.0)).tensors[-1].buffer == read(data).tensors[-1].buffer != b""


@pytest.mark.parametrize("file", ["mobilenet_v1_0.25_128_quant.tflite", "tf2_mobilenet_v2_1.0_224_ptq.tflite"])
def test_published_quantized_networks_keep_their_logits_and_labels(file: str) -> None:
    """Their last layer is a CONV_2D, and they have no signature."""
    if not MODELS.is_dir():
        pytest.skip("../shared/data/models is not here")
    data = (MODELS / file).read_bytes()
    made = with_temperature(data, 1.6, file)
    side = read(data).inputs[0].shape[1]
    images = np.random.default_rng(0).uniform(-1, 1, (2, side, side, 3)).astype(np.float32)
    given = logits(data, images)
    np.testing.assert_allclose(logits(made, images) * 1.6, given, rtol=1e-6)
    np.testing.assert_allclose(predict_arrays(made, images), softmax(given / 1.6), atol=1 / 256)
    assert Metadata.read(made) == Metadata.read(data)


@pytest.mark.parametrize(("parts", "name"), FORMS_OF_UNKNOWN)
def test_the_probe_has_features_and_logits_and_class_unknown_logit_that_its_rule_says(parts: int, name: str) -> None:
    data, images = to_float_io(form(parts, name)), random_images()[:60]
    rows = predict_arrays(with_probe(data), images)
    features, logits = rows[:, :-CLASSES], rows[:, -CLASSES:]
    assert features.shape[1] == WIDTHS[parts]
    np.testing.assert_allclose(softmax(logits), predict_arrays(data, images), atol=1 / 200)
    near = Neighbours.of(features[:30], 8)
    made = predict_arrays(with_unknown(data, near.axes, near.images, 3.0, 2.0), images)
    logit = 2.0 - 3.0 * near.similarity(features)
    wanted = special.softmax(np.column_stack([logits, logit]), axis=1)
    np.testing.assert_allclose(made, wanted, atol=5e-3)


@pytest.mark.parametrize(("name", "width", "reason"), [("float32", 5, "do not fit 16"), ("int8", 16, "float32 output")])
def test_features_of_another_width_and_integer_outputs_are_refused(name: str, width: int, reason: str) -> None:
    must_fail(StageError, reason, with_unknown, form(1, name), np.ones((width, 2)), np.ones((2, 3)), 1.0, 0.0)

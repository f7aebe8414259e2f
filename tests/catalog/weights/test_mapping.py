"""Tensors on their way into a graph: everything finds its place, or the error says what does not."""

import re
from typing import Any

import numpy as np
import pytest

from advisor.catalog import Catalogue
from advisor.catalog._graph_file import graph_of
from advisor.catalog._weights import mapping
from advisor.catalog._weights.mapping import (
    LayerSpec,
    TrackedTensors,
    from_output_first,
    from_runtime,
    make_folded_norm,
    map_weights,
)
from advisor.core import WeightsError
from tests.builders import must_fail

SMALL = (
    LayerSpec("first", "convolution", {"weight": (3, 3, 3, 4), "bias": (4,)}),
    LayerSpec("logits", "dense", {"weight": (4, 5), "bias": (5,)}),
)


def tensors() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return {
        f"{layer.name}/{part.replace('weight', 'kernel')}": rng.normal(size=shape).astype(np.float32)
        for layer in SMALL
        for part, shape in layer.shapes.items()
    }


def layers_of_card(name: str) -> tuple[LayerSpec, ...]:
    return graph_of(Catalogue.load()[name]).layers


@pytest.mark.parametrize("prefix", ["", "other_"], ids=["layers by name", "layers of other names in order"])
def test_every_weight_of_a_keras_file_finds_its_layer(prefix: str) -> None:
    given = tensors()
    stored = {f"{prefix}{name}": value for name, value in given.items()}
    # A classifier stored as a 1x1 convolution fits a dense layer.
    stored[f"{prefix}logits/kernel"] = given["logits/kernel"].reshape(1, 1, 4, 5)
    weights = map_weights("keras", SMALL, stored)
    assert [*weights] == ["first.weight", "first.bias", "logits.weight", "logits.bias"]
    assert all(np.array_equal(*pair) for pair in zip(weights.values(), given.values(), strict=True))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"logits/kernel": np.zeros((4, 6), np.float32)}, "layer 'logits' takes weights of shapes"),
        ({"extra/kernel": np.zeros(1, np.float32)}, "no place in the graph, first 'extra/kernel'"),
        ({"logits/bias": np.full(5, np.nan, np.float32)}, "not all finite"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(changed: dict[str, np.ndarray[Any, Any]], said: str) -> None:
    must_fail(WeightsError, said, map_weights, "keras", SMALL, tensors() | changed)


def test_a_missing_tensor_names_the_nearest() -> None:
    with pytest.raises(WeightsError, match=r"no tensor 'conv1/0' \(did you mean 'conv1/O'\?\)"):
        map_weights("squeezenet", layers_of_card("squeezenet_1.1_227"), {"conv1/O": np.zeros(1, np.float32)})


def test_an_unknown_rule_names_the_nearest() -> None:
    must_fail(WeightsError, "did you mean 'squeezenet'", map_weights, "squeezenets", SMALL, {})


def test_kernels_of_other_frameworks_compute_the_same_in_keras() -> None:
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(4, 3, 2, 5)).astype(np.float32)  # (output, input, height, width)
    layer = LayerSpec("any", "convolution", {"weight": (2, 5, 3, 4)})
    for convert, given in ((from_output_first, kernel), (from_runtime, kernel.transpose(0, 2, 3, 1))):
        assert np.array_equal(convert(given, layer)[1, 3, 2], kernel[:, 2, 1, 3])


def test_squeezenets_first_kernel_takes_red_first_and_no_other_is_turned() -> None:
    rng = np.random.default_rng(0)
    given: dict[str, np.ndarray[Any, Any]] = {}
    for layer in layers_of_card("squeezenet_1.1_227"):
        name, (height, width, into, out) = re.sub(r"^(fire\d)_", r"\1/", layer.name), layer.shapes["weight"]
        given[f"{name}/0"] = rng.normal(size=(out, into, height, width)).astype(np.float32)
        given[f"{name}/1"] = rng.normal(size=out).astype(np.float32)
    weights = map_weights("squeezenet", layers_of_card("squeezenet_1.1_227"), given)
    blue_green_red = given["conv1/0"][:, :, 1, 2]
    assert np.array_equal(weights["conv1.weight"][1, 2].T, blue_green_red[:, ::-1])
    assert np.array_equal(weights["fire2_squeeze1x1.weight"][0, 0].T, given["fire2/squeeze1x1/0"][:, :, 0, 0])


def test_a_folded_norm_only_adds_its_offset() -> None:
    layer = LayerSpec("norm", "norm", dict.fromkeys(mapping.NORM_PARTS, (3,)), epsilon=1e-3)
    offset = np.array([1.0, -2.0, 3.0], np.float32)
    gamma, beta, mean, variance = make_folded_norm(offset, layer)
    values = np.random.default_rng(0).normal(size=(2, 2, 3)).astype(np.float32)
    normalized = (values - mean) / np.sqrt(variance + layer.epsilon) * gamma + beta
    assert normalized == pytest.approx(values + offset, rel=1e-6, abs=1e-6)


def test_a_classifier_with_the_background_first_fits_a_graph_without_it() -> None:
    logits = LayerSpec("logits", "dense", {"weight": (256, 10), "bias": (10,)})
    kernel, bias = np.arange(256 * 11, dtype=np.float32).reshape(1, 1, 256, 11), np.arange(11, dtype=np.float32)
    head = "MobilenetV1/Logits/Conv2d_1c_1x1"
    taken = TrackedTensors({f"{head}/weights": kernel, f"{head}/biases": bias})
    found = mapping.map_rules()["slim_mobilenet_v1"].arrays(logits, taken)
    assert np.array_equal(found[0], kernel[0, 0, :, 1:])
    assert np.array_equal(found[1], bias[1:])

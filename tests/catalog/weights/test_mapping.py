"""Tensors on their way into a graph: everything finds its place, or the error says what does not."""

import re
from typing import Any

import numpy as np
import pytest

from advisor.catalog import architectures
from advisor.catalog.weights import mapping
from advisor.catalog.weights.mapping import TrackedTensors, folded_norm, from_output_first, from_runtime
from advisor.core.errors import WeightsError

pytestmark = pytest.mark.integration


def small_model() -> Any:
    import keras
    from keras import layers

    image = keras.Input((8, 8, 3), batch_size=1)
    x = layers.Conv2D(4, 3, name="first")(image)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, layers.Dense(5, name="logits")(x))


def tensors(model: Any) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return {
        f"{layer.name}/{weight.name}": rng.normal(size=weight.shape).astype(np.float32)
        for layer in model.layers
        for weight in layer.weights
    }


@pytest.mark.parametrize("prefix", ["", "other_"], ids=["layers by name", "layers of other names in order"])
def test_every_weight_of_a_keras_file_finds_its_layer(prefix: str) -> None:
    model = small_model()
    given = tensors(model)
    stored = {f"{prefix}{name}": value for name, value in given.items()}
    # A classifier stored as a 1x1 convolution fits a dense layer.
    stored[f"{prefix}logits/kernel"] = given["logits/kernel"].reshape(1, 1, 4, 5)
    mapping.put("keras", model, stored)
    assert all(
        np.array_equal(model.get_layer(name.split("/")[0]).weights["kernel" not in name], value)
        for name, value in given.items()
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"logits/kernel": np.zeros((4, 6), np.float32)}, "layer 'logits' takes weights of shapes"),
        ({"extra/kernel": np.zeros(1, np.float32)}, "no place in the graph, first 'extra/kernel'"),
        ({"logits/bias": np.full(5, np.nan, np.float32)}, "not all finite"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(changed: dict[str, np.ndarray[Any, Any]], said: str) -> None:
    model = small_model()
    with pytest.raises(WeightsError, match=said):
        mapping.put("keras", model, tensors(model) | changed)


def test_a_missing_tensor_names_the_nearest() -> None:
    model = architectures.build("squeezenet", 64, 10, {})
    with pytest.raises(WeightsError, match=r"no tensor 'conv1/0' \(did you mean 'conv1/O'\?\)"):
        mapping.put("squeezenet", model, {"conv1/O": np.zeros(1, np.float32)})


def test_an_unknown_rule_names_the_nearest() -> None:
    with pytest.raises(WeightsError, match="did you mean 'squeezenet'"):
        mapping.put("squeezenets", small_model(), {})


def test_kernels_of_other_frameworks_compute_the_same_in_keras() -> None:
    from keras import layers

    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(4, 3, 2, 5)).astype(np.float32)  # (output, input, height, width)
    patch = rng.normal(size=(2, 5, 3)).astype(np.float32)
    expected = np.einsum("oihw,hwi->o", kernel, patch)
    for convert, given in ((from_output_first, kernel), (from_runtime, kernel.transpose(0, 2, 3, 1))):
        layer = layers.Conv2D(4, (2, 5))
        moved = convert(given, layer)
        layer.build((1, 2, 5, 3))
        layer.set_weights([moved, np.zeros(4, np.float32)])
        assert np.asarray(layer(patch[None])).reshape(4) == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_squeezenets_first_kernel_takes_red_first_and_no_other_is_turned() -> None:
    model = architectures.build("squeezenet", 64, 10, {})
    rng = np.random.default_rng(0)
    given: dict[str, np.ndarray[Any, Any]] = {}
    for layer in (layer for layer in model.layers if layer.weights):
        name = re.sub(r"^(fire\d)_", r"\1/", layer.name)
        kernel, bias = layer.get_weights()
        given[f"{name}/0"] = rng.normal(size=kernel.transpose(3, 2, 0, 1).shape).astype(np.float32)
        given[f"{name}/1"] = rng.normal(size=bias.shape).astype(np.float32)
    mapping.put("squeezenet", model, given)
    blue_green_red = given["conv1/0"][:, :, 1, 2]
    assert np.array_equal(model.get_layer("conv1").get_weights()[0][1, 2].T, blue_green_red[:, ::-1])
    squeeze = model.get_layer("fire2_squeeze1x1").get_weights()[0]
    assert np.array_equal(squeeze[0, 0].T, given["fire2/squeeze1x1/0"][:, :, 0, 0])


def test_a_folded_norm_only_adds_its_offset() -> None:
    from keras import layers

    layer = layers.BatchNormalization(epsilon=1e-3)
    layer.build((1, 2, 2, 3))
    offset = np.array([1.0, -2.0, 3.0], np.float32)
    layer.set_weights(folded_norm(offset, layer))
    values = np.random.default_rng(0).normal(size=(1, 2, 2, 3)).astype(np.float32)
    assert np.asarray(layer(values, training=False)) == pytest.approx(values + offset, rel=1e-6, abs=1e-6)


def test_a_classifier_with_the_background_first_fits_a_graph_without_it() -> None:
    logits = architectures.build("mobilenet_v1", 32, 10, {"width": 0.25}).get_layer("logits")
    kernel, bias = np.arange(256 * 11, dtype=np.float32).reshape(1, 1, 256, 11), np.arange(11, dtype=np.float32)
    head = "MobilenetV1/Logits/Conv2d_1c_1x1"
    taken = TrackedTensors({f"{head}/weights": kernel, f"{head}/biases": bias})
    found = mapping.RULES["slim_mobilenet_v1"].arrays(logits, taken)
    assert np.array_equal(found[0], kernel[0, 0, :, 1:])
    assert np.array_equal(found[1], bias[1:])

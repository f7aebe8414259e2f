"""What lets the originals' weights fit: torch's padding and names, Slim's scopes, the order and scaling of Keras."""

from typing import Any

import numpy as np
import pytest

from advisor.catalog import Catalogue, _architectures as architectures, build_model
from advisor.catalog._convert import fill_randomly
from advisor.core import UsageError
from tests.builders import must_fail
from tests.tables import with_cases

pytestmark = pytest.mark.integration
PLAIN = {"minimalistic": True}


def test_same_padding_computes_what_keras_own_network_does_with_padding_by_hand() -> None:
    import keras

    ours = architectures.build("mobilenet_v2", 96, 10, {"width": 0.35})
    theirs = keras.applications.MobileNetV2((96, 96, 3), alpha=0.35, weights=None, classes=10)
    fill_randomly(ours)
    theirs.set_weights(ours.get_weights())
    photo = np.random.default_rng(0).normal(size=(1, 96, 96, 3)).astype(np.float32)
    assert np.asarray(ours(photo)["probabilities"]) == pytest.approx(np.asarray(theirs(photo)), abs=1e-6)


@pytest.mark.parametrize("size", [5, 6, 9, 10, 13, 56])
def test_squeezenets_pooling_rounds_up_as_caffe_does(size: int) -> None:
    import keras

    from advisor.catalog._architectures.networks import max_pool

    values = np.random.default_rng(0).uniform(size=(size, size)).astype(np.float32)
    image = keras.Input((size, size, 1), batch_size=1)
    found = np.asarray(keras.Model(image, max_pool(image, "pool"))(values[None, :, :, None]))[0, :, :, 0]
    starts = range(0, 2 * int(np.ceil((size - 3) / 2)) + 1, 2)
    expected = np.array([[values[y : y + 3, x : x + 3].max() for x in starts] for y in starts])
    assert np.array_equal(found, expected)


def test_random_weights_are_the_same_every_time_and_keep_the_scale_of_activations() -> None:
    import keras

    model = build_model(Catalogue.load()["mobilenet_v2_0.35_96"], None)
    fill_randomly(model)
    before = model.get_weights()
    fill_randomly(model)
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
    norms = [layer.output for layer in model.layers if layer.name.endswith("_BN")]
    photo = np.random.default_rng(1).normal(size=(1, 96, 96, 3)).astype(np.float32)
    spreads = [float(np.asarray(output).std()) for output in keras.Model(model.inputs, norms)(photo)]
    assert min(spreads) > 0.3
    assert max(spreads) < 5


def test_a_depthwise_kernel_keeps_its_scale_whatever_its_layer_is_called() -> None:
    import keras
    from keras import layers

    image = keras.Input((8, 8, 64), batch_size=1)
    x = layers.DepthwiseConv2D(3, use_bias=False, name="branch1.0")(image)
    model = keras.Model(image, layers.SeparableConv2D(32, 3, use_bias=False, name="unit")(x))
    fill_randomly(model)
    kernels = (model.get_layer("branch1.0").kernel, model.get_layer("unit").depthwise_kernel)
    assert [float(np.asarray(kernel).std()) for kernel in kernels] == pytest.approx([np.sqrt(2 / 9)] * 2, rel=0.15)


@with_cases
def test_arguments_that_an_architecture_does_not_take_are_a_usage_error(name: str, arguments: dict[str, Any]) -> None:
    must_fail(UsageError, f"architecture '{name}' cannot be built", architectures.build, name, 96, 10, arguments)


def layers_with_weights(model: Any) -> list[Any]:
    return [layer for layer in model.layers if layer.weights]


@pytest.mark.parametrize("stride", [1, 2])
def test_a_convolution_pads_both_sides_alike_as_torch_does(stride: int) -> None:
    import keras

    from advisor.catalog._architectures.networks import TORCH

    image = keras.Input((6, 6, 1), batch_size=1)
    model = keras.Model(image, TORCH.convolution(image, 1, 3, stride, "sum"))
    model.get_layer("sum").set_weights([np.ones((3, 3, 1, 1), np.float32)])
    values = np.arange(36, dtype=np.float32).reshape(6, 6)
    padded = np.pad(values, 1)
    expected = [[padded[y : y + 3, x : x + 3].sum() for x in range(0, 6, stride)] for y in range(0, 6, stride)]
    assert np.asarray(model(values[None, :, :, None]))[0, :, :, 0] == pytest.approx(np.array(expected))


def test_pooling_pads_both_sides_alike_as_torch_does() -> None:
    import keras

    from advisor.catalog._architectures.networks import pool_padded

    image = keras.Input((4, 4, 1), batch_size=1)
    values = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    pooled = np.asarray(keras.Model(image, pool_padded(image))(values))
    assert pooled[0, :, :, 0].tolist() == [[5, 7], [13, 15]]


def test_a_shuffle_interleaves_the_two_halves() -> None:
    import keras

    from advisor.catalog._architectures.networks import shuffle_halves

    left, right = (keras.Input((2, 3, 4), batch_size=1) for _ in range(2))
    model = keras.Model([left, right], shuffle_halves(left, right, "unit"))
    rng = np.random.default_rng(0)
    first, second = (rng.normal(size=(1, 2, 3, 4)).astype(np.float32) for _ in range(2))
    shuffle_halves = np.asarray(model([first, second]))
    assert np.array_equal(shuffle_halves[..., 0::2], first)
    assert np.array_equal(shuffle_halves[..., 1::2], second)


@pytest.mark.parametrize(
    ("architecture", "arguments", "size", "original", "options"),
    [
        ("mobilenet_v3", {"size": "small", "width": 0.75}, 64, "MobileNetV3Small", {"alpha": 0.75}),
        *(
            pytest.param(*graph, marks=pytest.mark.slow)
            for graph in (
                ("mobilenet_v3", {"size": "large", "width": 1.0, **PLAIN}, 64, "MobileNetV3Large", PLAIN),
                ("densenet", {}, 64, "DenseNet121", {}),
                ("nasnet", {}, 64, "NASNetMobile", {}),
                ("inception_resnet_v2", {}, 75, "InceptionResNetV2", {}),
            )
        ),
    ],
)
def test_weights_stand_in_the_order_of_keras_own_graph(
    architecture: str, arguments: dict[str, Any], size: int, original: str, options: dict[str, Any]
) -> None:
    from keras import applications

    own = architectures.build(architecture, size, 10, arguments)
    theirs = getattr(applications, original)(input_shape=(size, size, 3), classes=10, weights=None, **options)
    ours, expected = (
        [[tuple(weight.shape) for weight in layer.weights] for layer in layers_with_weights(model)]
        for model in (own, theirs)
    )
    assert ours == expected


@pytest.mark.slow
def test_efficientnets_card_scales_pixels_as_keras_graph_does() -> None:
    from keras import applications, layers

    card = Catalogue.load()["efficientnet_b0_224"]
    size = 128
    original = applications.EfficientNetB0(input_shape=(size, size, 3), weights=None, classes=10)
    own = architectures.build("efficientnet", size, 10, {})
    fill_randomly(own)
    scaling = next(layer for layer in original.layers if isinstance(layer, layers.Normalization))
    backbone = [layer for layer in layers_with_weights(original) if layer is not scaling]
    for source, target in zip(layers_with_weights(own), backbone, strict=True):
        target.set_weights(source.get_weights())
    mean, std = np.float32(card.preprocessing.mean), np.float32(card.preprocessing.std)
    # Keras divides by 255 first, so its statistics are the card's on that scale.
    scaling.set_weights([mean / 255, (std / 255) ** 2, np.int64(0)])
    scaling.finalize_state()
    pixels = np.random.default_rng(0).uniform(0, 255, (1, size, size, 3)).astype(np.float32)
    expected = np.asarray(original(pixels, training=False))
    assert expected.std() > 0.01
    assert np.asarray(own((pixels - mean) / std, training=False)["probabilities"]) == pytest.approx(expected, abs=1e-4)

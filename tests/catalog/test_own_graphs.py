"""MobileNet V1 and V2, SqueezeNet, EfficientNet-Lite and Inception V3 against their cards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from advisor.catalog import architectures, load_catalogue
from advisor.catalog.build import build_model, fill_randomly
from advisor.catalog.cards import Card

pytestmark = pytest.mark.integration

FAMILIES = ("mobilenet_v1", "mobilenet_v2", "squeezenet", "efficientnet_lite", "inception_v3")
CARDS = [card for card in load_catalogue().values() if card.family in FAMILIES]
QUICK = ("mobilenet_v1_0.5_128", "mobilenet_v2_0.35_96", "squeezenet_1.1_227", "squeezenet_1.0_227")


def graph(card: Card) -> Any:
    return architectures.build(card.architecture, card.input_size, card.classes, card.keywords)


@pytest.mark.parametrize(
    "card",
    [pytest.param(card, id=card.name, marks=[pytest.mark.slow] * (card.name not in QUICK)) for card in CARDS],
)
def test_the_graph_has_the_counts_and_ends_of_its_card(card: Card) -> None:
    from advisor.catalog.graph import macs, parameters

    model = graph(card)
    assert (parameters(model), macs(model)) == (card.params, card.macs)
    assert model.inputs[0].name == "image"
    assert model.inputs[0].shape == (1, card.input_size, card.input_size, 3)
    assert model.output["probabilities"].shape == (1, card.classes)
    assert not [layer.name for layer in model.layers if layer.name.startswith("_")]


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_published_counts_agree_or_the_card_says_why_not(card: Card) -> None:
    for published in card.published:
        if published.params is not None:
            assert card.params == pytest.approx(published.params, rel=0.015)
        if published.macs is not None and "published MACs" not in card.note:
            assert card.macs == pytest.approx(published.macs, rel=0.02, abs=1e6)


def test_the_catalogue_holds_the_published_variants() -> None:
    sizes = {family: sum(card.family == family for card in CARDS) for family in FAMILIES}
    assert sizes == {
        "mobilenet_v1": 16,
        "mobilenet_v2": 23,  # the 22 published ones, and torchvision's training of one of them
        "squeezenet": 3,
        "efficientnet_lite": 5,
        "inception_v3": 1,
    }


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

    from advisor.catalog.architectures.squeezenet import max_pool

    values = np.random.default_rng(0).uniform(size=(size, size)).astype(np.float32)
    image = keras.Input((size, size, 1), batch_size=1)
    found = np.asarray(keras.Model(image, max_pool(image, "pool"))(values[None, :, :, None]))[0, :, :, 0]
    starts = range(0, 2 * int(np.ceil((size - 3) / 2)) + 1, 2)
    expected = np.array([[values[y : y + 3, x : x + 3].max() for x in starts] for y in starts])
    assert np.array_equal(found, expected)


def test_random_weights_keep_the_scale_of_activations() -> None:
    import keras

    card = load_catalogue()["mobilenet_v2_0.35_96"]
    model = build_model(card, None)
    inner = keras.Model(model.inputs, [layer.output for layer in model.layers if layer.name.endswith("_BN")])
    photo = np.random.default_rng(1).normal(size=(1, 96, 96, 3)).astype(np.float32)
    spreads = [float(np.asarray(output).std()) for output in inner(photo)]
    assert min(spreads) > 0.3
    assert max(spreads) < 5
    assert float(np.abs(np.asarray(model(photo)["features"])).min()) >= 0


def test_a_depthwise_kernel_keeps_its_scale_whatever_its_layer_is_called() -> None:
    import keras
    from keras import layers

    image = keras.Input((8, 8, 64), batch_size=1)
    x = layers.DepthwiseConv2D(3, use_bias=False, name="branch1.0")(image)
    model = keras.Model(image, layers.SeparableConv2D(32, 3, use_bias=False, name="unit")(x))
    fill_randomly(model)
    kernels = (model.get_layer("branch1.0").kernel, model.get_layer("unit").depthwise_kernel)
    assert [float(np.asarray(kernel).std()) for kernel in kernels] == pytest.approx([np.sqrt(2 / 9)] * 2, rel=0.15)


def test_random_weights_are_the_same_every_time() -> None:
    card = load_catalogue()["squeezenet_1.1_227"]
    first, second = (build_model(card, None).get_weights() for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("squeezenet", {"version": "2"}), ("mobilenet_v2", {"padding": "odd"}), ("mobilenet_v1", {"widht": 1.0})],
)
def test_arguments_that_an_architecture_does_not_take_are_a_usage_error(name: str, arguments: dict[str, Any]) -> None:
    from advisor.core.errors import UsageError

    with pytest.raises(UsageError, match=f"architecture '{name}' cannot be built"):
        architectures.build(name, 96, 10, arguments)

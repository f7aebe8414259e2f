"""The graphs of these families against their cards: counts, ends, names, and what was published about them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import pytest

from advisor.catalog import architectures
from advisor.catalog.cards import Card
from advisor.catalog.catalogue import load_catalogue

pytestmark = pytest.mark.integration

FAMILIES = (
    "densenet",
    "efficientnet",
    "inception_resnet_v2",
    "inception_v1",
    "inception_v2",
    "inception_v4",
    "mnasnet",
    "mobilenet_v3",
    "nasnet",
    "resnet",
    "shufflenet_v2",
)
# One or two a family whose graph is built in a moment; the rest are built by the slow run.
QUICK = (
    "inception_v1_224",
    "inception_v2_224",
    "mnasnet_0.5_224",
    "mnasnet_1.0_96",
    "mobilenet_v3_small_1.0_224",
    "mobilenet_v3_small_minimalistic_1.0_224",
    "resnet_18_224",
    "shufflenet_v2_0.5_224",
)
CARDS = [card for card in load_catalogue().values() if card.family in FAMILIES]


@pytest.fixture(
    scope="module",
    params=[pytest.param(card, id=card.name, marks=[pytest.mark.slow] * (card.name not in QUICK)) for card in CARDS],
)
def built(request: pytest.FixtureRequest) -> Iterator[tuple[Card, Any]]:
    """A card and its Keras graph, built once for the tests below."""
    import keras

    card: Card = request.param
    yield card, architectures.build(card.architecture, card.input_size, card.classes, card.keywords)
    keras.backend.clear_session()


def test_parameters_are_exactly_those_of_the_card(built: tuple[Card, Any]) -> None:
    from advisor.catalog.graph import parameters

    card, model = built
    assert parameters(model) == card.params


def test_multiply_accumulates_are_those_of_the_card(built: tuple[Card, Any]) -> None:
    from advisor.catalog.graph import macs

    card, model = built
    assert macs(model) == card.macs


def test_published_parameters_are_the_graphs_as_far_as_the_source_rounds(built: tuple[Card, Any]) -> None:
    card, model = built
    with_statistics = sum(prod(variable.shape) for variable in model.variables)
    for published in card.published:
        if published.params is not None:
            unit = rounding(published.params)
            differences = [abs(own - published.params) for own in (card.params, with_statistics)]
            assert min(differences) <= unit / 2, f"{published.source} says {published.params}"


def test_one_image_enters_and_two_named_tensors_leave(built: tuple[Card, Any]) -> None:
    card, model = built
    (image,) = model.inputs
    assert (image.name, image.shape) == ("image", (1, card.input_size, card.input_size, 3))
    assert set(model.output) == {"probabilities", "features"}
    assert model.output["probabilities"].shape == (1, card.classes)
    assert len(model.output["features"].shape) == 2


def test_no_layer_has_a_name_that_the_converter_dies_of(built: tuple[Card, Any]) -> None:
    _, model = built
    assert [layer.name for layer in model.layers if layer.name.startswith("_")] == []


def test_no_layer_runs_code_from_a_file(built: tuple[Card, Any]) -> None:
    _, model = built
    assert [layer.name for layer in model.layers if type(layer).__name__ == "Lambda"] == []


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_published_multiply_accumulates_are_within_two_percent(card: Card) -> None:
    for published in card.published:
        if published.macs is not None:
            assert card.macs == pytest.approx(published.macs, rel=0.02), published.source


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_every_card_has_a_published_accuracy_with_its_source(card: Card) -> None:
    assert card.top1() is not None
    assert all(published.source for published in card.published)


def test_the_families_hold_what_the_catalogue_promises() -> None:
    sizes = {family: sum(card.family == family for card in CARDS) for family in FAMILIES}
    assert sizes == {
        "densenet": 1,
        "efficientnet": 1,
        "inception_resnet_v2": 1,
        "inception_v1": 1,
        "inception_v2": 1,
        "inception_v4": 1,
        "mnasnet": 8,
        "mobilenet_v3": 6,
        "nasnet": 1,
        "resnet": 3,
        "shufflenet_v2": 4,
    }


def rounding(value: int) -> int:
    """The unit to which ``value`` was rounded: a figure that ends in zeros is taken to be rounded there."""
    unit = 1
    while value % (unit * 10) == 0:
        unit *= 10
    return unit

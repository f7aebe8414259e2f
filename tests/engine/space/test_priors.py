"""What accuracy to expect before anything was evaluated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.catalog.cards import Card
from advisor.catalog.catalogue import load_catalogue
from advisor.engine.space.plan import MIDDLING, expected_top1, prior_accuracy


@pytest.fixture(scope="module")
def card() -> Card:
    return replace(load_catalogue()["mobilenet_v2_1.0_224"], published=())


def test_a_published_figure_is_taken_as_it_is() -> None:
    assert prior_accuracy(load_catalogue()["mobilenet_v2_1.0_224"], "float32") == 71.8


def test_a_card_without_figures_is_expected_to_do_as_cards_of_its_size_do(card: Card) -> None:
    assert prior_accuracy(card, "float32") == pytest.approx(71.8, abs=8.0)


def test_a_smaller_card_is_expected_to_do_worse(card: Card) -> None:
    half = replace(card, params=card.params // 4, macs=card.macs // 4, input_size=112)
    assert expected_top1(half) < expected_top1(card) - 5.0


def test_a_card_of_unknown_size_is_middling(card: Card) -> None:
    assert expected_top1(replace(card, macs=0)) == MIDDLING


def test_int8_without_a_figure_of_its_own_is_expected_to_lose_a_little(card: Card) -> None:
    assert 0.0 < prior_accuracy(card, "float32") - prior_accuracy(card, "int8") < 2.0

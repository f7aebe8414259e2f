"""The replay of which cards are fine-tuned, on a made-up table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.core.training import FINETUNE_CACHED, HEAD
from benchmarks.cost_table import Purse, Row
from benchmarks.tuning_promotion import Steps, best_of, one_epoch_first, problem_of, promoted

CARDS = {"mobilenet_v1_0.25_224": 50.0, "mobilenet_v2_1.0_224": 80.0, "mobilenet_v1_1.0_224": 60.0}
"""Accuracy of the heads; the last card is slower and larger than the one before."""


@pytest.fixture
def steps() -> Steps:
    found = {}
    for place, (name, accuracy) in enumerate(CARDS.items()):
        card = load_catalogue()[name]
        head = Row(
            name, name, 224, card.params, card.macs, HEAD, "float32", 1, accuracy, 1.0 + place, 1e6 * (1 + place),
            0.0, 2.0, 0.0, 0.0,
        )  # fmt: skip
        epochs = [
            replace(head, training=FINETUNE_CACHED, accuracy=accuracy + gain, training_s=10.0 * number)
            for number, gain in enumerate((1.0, 4.0, 3.0), 1)
        ]
        found[name] = [head, *epochs]
    return found


def test_a_whole_fine_tuning_has_its_best_epoch_and_the_cost_of_all(steps: Steps) -> None:
    whole = best_of(steps["mobilenet_v2_1.0_224"])
    assert (whole.accuracy, whole.training_s) == (84.0, 30.0)


def test_the_baseline_pays_the_first_epoch_of_every_card_and_the_others_of_the_best(steps: Steps) -> None:
    purse = Purse()
    for row in one_epoch_first(steps, 1):
        purse.pay(row)
    assert purse.spent == pytest.approx((3 * 2 + 3 * 10 + 20) / 2)


def test_the_product_tunes_the_pick_first_and_not_the_card_that_it_dominates(steps: Steps) -> None:
    tuned = [row.card for row in promoted(problem_of(steps)) if row.training == FINETUNE_CACHED]
    assert tuned[0] == "mobilenet_v2_1.0_224"
    assert "mobilenet_v1_1.0_224" not in tuned

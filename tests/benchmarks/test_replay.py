"""Parts of the replayed searches: who is tuned first, what a stopwatch adds up, what a certain point gains."""

from dataclasses import replace

import numpy as np
import pytest

from advisor.catalog import load_catalogue
from advisor.core import FINETUNE_CACHED, HEAD
from advisor.engine._pipeline.stage import EventKind, StageEvent
from advisor.engine._pipeline.stages.backbone import convert
from benchmarks.cost_table import Purse, Row
from benchmarks.listed_gp import improvement
from benchmarks.trashnet_table import Stopwatch
from benchmarks.tuning_promotion import Steps, one_epoch_first, problem_of, promoted

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


def test_the_baseline_pays_the_first_epoch_of_every_card_and_the_product_tunes_the_pick_first(steps: Steps) -> None:
    purse = Purse()
    for row in one_epoch_first(steps, 1):
        purse.pay(row)
    assert purse.spent == pytest.approx((3 * 2 + 3 * 10 + 20) / 2)
    tuned = [row.card for row in promoted(problem_of(steps)) if row.training == FINETUNE_CACHED]
    assert tuned[0] == "mobilenet_v2_1.0_224"
    assert "mobilenet_v1_1.0_224" not in tuned


def test_a_stopwatch_adds_up_what_stages_of_a_card_worked() -> None:
    card = load_catalogue()["mobilenet_v2_1.0_224"]
    watch = Stopwatch()
    events = ((EventKind.STARTED, 0.0), (EventKind.DONE, 3.0), (EventKind.CACHED, 9.0), (EventKind.DONE, 1.0))
    for kind, seconds in events:
        watch.stage(StageEvent(convert(card), kind, seconds))
    assert watch.seconds == {("convert", card.name): 4.0}


def test_a_certain_point_gains_its_own_volume() -> None:
    found = improvement(np.array([[2.0, 3.0]]), np.zeros((1, 2)), np.zeros((1, 2)), np.full((1, 2), np.inf))
    assert found == pytest.approx([6.0])

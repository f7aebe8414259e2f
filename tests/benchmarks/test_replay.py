"""A search replayed on a small made-up table follows the product's rules with every sampler."""

from dataclasses import replace

import numpy as np
import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.core.training import FINETUNE_CACHED, FINETUNE_TOP, HEAD, HEAD_SUBSET
from advisor.engine.pipeline.stage import EventKind, StageEvent
from advisor.engine.pipeline.stages.backbone import convert
from benchmarks.cost_table import PROBLEMS, Problem, Purse, Row
from benchmarks.listed_gp import improvement
from benchmarks.replay import ADVISOR, searched
from benchmarks.trashnet_table import Stopwatch
from benchmarks.tuning_promotion import Steps, one_epoch_first, problem_of, promoted


@pytest.fixture(scope="module")
def problem(rows: list[Row]) -> Problem:
    return Problem(PROBLEMS["rungs"], rows)


@pytest.fixture(scope="module", params=[ADVISOR, "random", "nsga2"])
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def order(problem: Problem, method: str) -> list[Row]:
    return list(searched(problem, method, seed=1))


def test_nothing_is_evaluated_twice_and_a_card_is_fine_tuned_after_its_head(order: list[Row]) -> None:
    assert len({id(row) for row in order}) == len(order)
    ladder = (HEAD_SUBSET, HEAD, FINETUNE_TOP)
    for card in {row.card for row in order}:
        floats = [ladder.index(row.training) for row in order if row.card == card and row.recipe == "float32"]
        first = list(dict.fromkeys(floats))
        assert first == sorted(first)


def test_only_what_may_still_be_picked_is_fine_tuned(problem: Problem, order: list[Row], rows: list[Row]) -> None:
    assert problem.course(iter(order)).shares[-1] >= 0.99
    hopeless = {"mobilenet_v2_1.0_224": 40.0}
    worse = [replace(row, accuracy=hopeless.get(row.base, row.accuracy)) for row in rows]
    order = list(searched(Problem(PROBLEMS["rungs"], worse), ADVISOR, seed=0))
    assert any(row.training == FINETUNE_TOP for row in order)
    assert not any(row.training == FINETUNE_TOP and row.base in hopeless for row in order)


def test_the_same_seed_gives_the_same_order(problem: Problem, method: str, order: list[Row]) -> None:
    assert list(searched(problem, method, seed=1)) == order


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

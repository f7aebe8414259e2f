"""Which cards and trainings may start, and when."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog.catalogue import load_catalogue
from advisor.core.evaluation import Configuration
from advisor.engine.scheduling import halving as module
from advisor.engine.scheduling.halving import REDUCTION_FACTOR, CardTraining, SuccessiveHalving
from tests.engine.plans import planned

CARDS = tuple(card.name for card in load_catalogue().values())[:7]
TRAININGS = ("head", "finetune_top", "finetune_all")
PLAN = planned(load_catalogue().select(CARDS), ("float32", "int8"), (1,), TRAININGS, "runtime")
SPACE = PLAN.configurations()


def of(card: str, training: str) -> list[Configuration]:
    return [each for each in SPACE if CardTraining.of(each) == (card, training)]


def start(halving: SuccessiveHalving, card: str, training: str) -> None:
    for configuration in of(card, training):
        halving.mark_started(configuration)


def finish(halving: SuccessiveHalving, card: str, training: str) -> None:
    for configuration in of(card, training):
        halving.mark_done(configuration)


def test_the_example_of_the_docstring_holds() -> None:
    result = doctest.testmod(module)
    assert result.attempted > 5
    assert result.failed == 0


def test_at_first_every_card_may_start_on_the_lowest_rung_only() -> None:
    assert SuccessiveHalving(SPACE).runnable() == [(card, "head") for card in CARDS]


def test_a_card_is_blocked_until_every_configuration_below_is_done() -> None:
    halving = SuccessiveHalving(SPACE)
    *first, last = of(CARDS[0], "head")
    for configuration in first:
        halving.mark_done(configuration)
    assert halving.is_blocked(CardTraining(CARDS[0], "finetune_top"))
    halving.mark_done(last)
    assert not halving.is_blocked(CardTraining(CARDS[0], "finetune_top"))
    assert halving.is_blocked(CardTraining(CARDS[0], "finetune_all"))


def test_one_card_for_each_reduction_factor_done_is_promoted_while_others_have_not_started() -> None:
    halving = SuccessiveHalving(SPACE)
    for count, card in enumerate(CARDS[:6], 1):
        start(halving, card, "head")
        finish(halving, card, "head")
        promotable = halving.promotable("finetune_top")
        assert bool(promotable) == (count >= REDUCTION_FACTOR)
        assert promotable == [unit.card for unit in halving.runnable() if unit.training == "finetune_top"]
    halving.mark_started(of(CARDS[1], "finetune_top")[0])
    halving.mark_started(of(CARDS[2], "finetune_top")[0])
    assert halving.promotable("finetune_top") == []
    above = [unit for unit in halving.runnable() if unit.training == "finetune_top"]
    assert above == [(CARDS[1], "finetune_top"), (CARDS[2], "finetune_top")]


@pytest.mark.parametrize("factor", [1, 2, 4])
def test_the_reduction_factor_is_how_many_must_be_done_for_one_promotion(factor: int) -> None:
    halving = SuccessiveHalving(SPACE, reduction_factor=factor)
    for count, card in enumerate(CARDS[:5], 1):
        start(halving, card, "head")
        finish(halving, card, "head")
        assert bool(halving.promotable("finetune_top")) == (count >= factor)


def test_no_card_waits_for_the_slowest_when_all_below_have_started() -> None:
    halving = SuccessiveHalving(SPACE)
    for card in CARDS:
        start(halving, card, "head")
    finish(halving, CARDS[3], "head")
    assert halving.runnable() == [(CARDS[3], "finetune_top")]


def test_a_started_card_may_finish_its_rung_whatever_the_quota() -> None:
    halving = SuccessiveHalving(SPACE)
    for card in CARDS[:3]:
        start(halving, card, "head")
        finish(halving, card, "head")
    first, second = of(CARDS[0], "finetune_top")
    halving.mark_started(first)
    assert halving.is_runnable(CardTraining.of(second))
    assert not halving.is_runnable(CardTraining(CARDS[1], "finetune_top"))


def test_what_was_evaluated_before_counts_as_done() -> None:
    halving = SuccessiveHalving(SPACE, [each for each in SPACE if each.training == "head"])
    assert halving.runnable() == [(card, "finetune_top") for card in CARDS]


def test_a_deferred_configuration_no_longer_blocks_heavier_trainings() -> None:
    halving = SuccessiveHalving(SPACE, [each for each in SPACE if each.training == "head"])
    start(halving, CARDS[0], "finetune_top")
    for configuration in of(CARDS[0], "finetune_top"):
        halving.defer(configuration, expected_gain=6.0)
    assert not halving.is_blocked(CardTraining(CARDS[0], "finetune_all"))
    assert halving.deferred == dict.fromkeys(of(CARDS[0], "finetune_top"), 6.0)


def test_only_what_there_is_capacity_for_is_runnable() -> None:
    runnable = SuccessiveHalving(SPACE).runnable(lambda unit: unit.card != CARDS[0])
    assert runnable == [(card, "head") for card in CARDS[1:]]


@settings(max_examples=25)
@given(st.data())
def test_nothing_starts_before_what_it_builds_on_and_everything_starts_in_the_end(data: st.DataObject) -> None:
    halving, done, running = SuccessiveHalving(SPACE), set[Configuration](), list[Configuration]()
    started = set[Configuration]()
    while (runnable := halving.runnable()) or running:
        if running and (not runnable or data.draw(st.booleans())):
            ended = running.pop(data.draw(st.integers(0, len(running) - 1)))
            halving.mark_done(ended)
            done.add(ended)
            continue
        card, training = runnable[data.draw(st.integers(0, len(runnable) - 1))]
        configuration = next(each for each in of(card, training) if each not in started)
        lower = TRAININGS[: TRAININGS.index(training)]
        assert all(each in done for below in lower for each in of(card, below))
        halving.mark_started(configuration)
        started.add(configuration)
        running.append(configuration)
    assert started == set(SPACE)


@pytest.mark.parametrize("training", TRAININGS)
def test_a_search_of_one_rung_has_no_waiting(training: str) -> None:
    plan = planned(PLAN.cards, PLAN.recipes, (1, 2), (training,), "runtime")
    assert len(SuccessiveHalving(plan.configurations()).runnable()) == len(plan.cards)

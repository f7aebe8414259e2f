"""Who may climb, and when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog.catalogue import load_catalogue
from advisor.core.evaluation import Configuration
from advisor.engine.scheduling.halving import HALVING, Step, SuccessiveHalving, step_of
from advisor.engine.space.plan import Plan

CARDS = tuple(card.name for card in load_catalogue().values())[:7]
TRAININGS = ("head", "finetune_top", "finetune_all")
PLAN = Plan(load_catalogue().select(CARDS), ("float32", "int8"), (1,), TRAININGS, "runtime")


def of(step: Step) -> list[Configuration]:
    return [each for each in PLAN.configurations() if step_of(each) == step]


def go_through(rungs: SuccessiveHalving, step: Step) -> None:
    for configuration in of(step):
        rungs.asked(configuration)
        rungs.settled(configuration)


def test_at_first_every_card_may_begin_on_the_lowest_rung_alone() -> None:
    assert SuccessiveHalving(PLAN, ()).left() == [(card, "head") for card in CARDS]


def test_a_card_is_open_above_when_every_form_is_through() -> None:
    rungs = SuccessiveHalving(PLAN, ())
    *first, last = of((CARDS[0], "head"))
    for configuration in first:
        rungs.settled(configuration)
    assert not rungs.is_open((CARDS[0], "finetune_top"))
    rungs.settled(last)
    assert rungs.is_open((CARDS[0], "finetune_top"))
    assert not rungs.is_open((CARDS[0], "finetune_all"))


def test_one_card_in_three_that_are_through_climbs_while_others_have_not_begun() -> None:
    rungs = SuccessiveHalving(PLAN, ())
    for count, card in enumerate(CARDS[:6], 1):
        go_through(rungs, (card, "head"))
        able = [step for step in rungs.left() if step[1] == "finetune_top"]
        assert bool(able) == (count >= HALVING)
    rungs.asked(of((CARDS[1], "finetune_top"))[0])
    rungs.asked(of((CARDS[2], "finetune_top"))[0])
    above = [step for step in rungs.left() if step[1] == "finetune_top"]
    assert above == [(CARDS[1], "finetune_top"), (CARDS[2], "finetune_top")]


def test_when_all_below_have_begun_nobody_waits_for_the_slowest() -> None:
    rungs = SuccessiveHalving(PLAN, ())
    for card in CARDS:
        for configuration in of((card, "head")):
            rungs.asked(configuration)
    for configuration in of((CARDS[3], "head")):
        rungs.settled(configuration)
    assert rungs.left() == [(CARDS[3], "finetune_top")]


def test_what_is_begun_may_be_ended_whatever_its_turn() -> None:
    rungs = SuccessiveHalving(PLAN, ())
    for card in CARDS[:3]:
        go_through(rungs, (card, "head"))
    first, second = of((CARDS[0], "finetune_top"))
    rungs.asked(first)
    assert rungs.may(step_of(second))
    assert not rungs.may((CARDS[1], "finetune_top"))


def test_what_was_evaluated_before_counts_as_through() -> None:
    rungs = SuccessiveHalving(PLAN, [each for each in PLAN.configurations() if each.training == "head"])
    assert rungs.left() == [(card, "finetune_top") for card in CARDS]


def test_the_rows_of_a_table_follow_its_steps() -> None:
    rungs = SuccessiveHalving(PLAN, ())
    steps = [step_of(each) for each in PLAN.configurations()]
    places = np.array([rungs.place(step) for step in steps])
    held = rungs.held(lambda step: step[0] != CARDS[0], places)
    assert held.tolist() == [step[1] != "head" or step[0] == CARDS[0] for step in steps]


@settings(max_examples=25)
@given(st.data())
def test_nothing_begins_before_what_it_builds_on_and_everything_begins_in_the_end(data: st.DataObject) -> None:
    rungs, through, flying = SuccessiveHalving(PLAN, ()), set[Configuration](), list[Configuration]()
    asked = set[Configuration]()
    while (left := rungs.left()) or flying:
        if flying and (not left or data.draw(st.booleans())):
            ended = flying.pop(data.draw(st.integers(0, len(flying) - 1)))
            rungs.settled(ended)
            through.add(ended)
            continue
        step = left[data.draw(st.integers(0, len(left) - 1))]
        configuration = next(each for each in of(step) if each not in asked)
        lower = TRAININGS[: TRAININGS.index(step[1])]
        assert all(each in through for below in lower for each in of((step[0], below)))
        rungs.asked(configuration)
        asked.add(configuration)
        flying.append(configuration)
    assert asked == set(PLAN.configurations())


@pytest.mark.parametrize("training", TRAININGS)
def test_a_search_of_one_rung_has_no_waiting(training: str) -> None:
    plan = Plan(PLAN.cards, PLAN.recipes, (1, 2), (training,), "runtime")
    assert len(SuccessiveHalving(plan, ()).left()) == len(plan.cards)

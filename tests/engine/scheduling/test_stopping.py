from __future__ import annotations

from dataclasses import replace

import pytest
from optuna.storages import InMemoryStorage

from advisor.catalog.catalogue import load_catalogue
from advisor.core.budget import Budget
from advisor.core.errors import UsageError
from advisor.core.quantity import Provenance, Quantity
from advisor.engine.pipeline.cost import rough_ms, rough_size
from advisor.engine.question import resolve
from advisor.engine.question.values import LEAST_GAIN
from advisor.engine.scheduling.stopping import CONSECUTIVE, ExpectedGainRule, max_trials_reached, time_limit_reached
from advisor.engine.scheduling.study import Study
from advisor.engine.space.plan import Plan, prior_accuracy
from tests.builders import RUNTIME, evaluation
from tests.engine.plans import planned

RECIPES = ("float32", "float16", "int8")


@pytest.fixture(scope="module")
def plan() -> Plan:
    cards = [card for card in load_catalogue().values() if card.family in ("mobilenet_v1", "mobilenet_v2")]
    return planned(tuple(cards), RECIPES, (1,), ("none",), RUNTIME)


@pytest.fixture(scope="module")
def small(plan: Plan) -> Plan:
    return replace(plan, cards=plan.cards[:5])


def searched(plan: Plan, sampler: str, least: float | None) -> tuple[int, ExpectedGainRule]:
    """Search a table that is as published; returns how many were evaluated."""
    study = Study(InMemoryStorage(), "advisor", plan, Budget(), sampler, 0, ())
    rule, cards, count = ExpectedGainRule(study, least), {card.name: card for card in plan.cards}, 0
    while not rule.met and (asked := study.ask()) is not None:
        card, recipe = cards[asked.card], asked.compression
        one = replace(
            evaluation(),
            configuration=asked,
            accuracy=Quantity(prior_accuracy(card, recipe), "%", Provenance.MEASURED),
            latency=Quantity(rough_ms(card, recipe, 1), "ms", Provenance.MEASURED),
            size=Quantity(rough_size(card, recipe), "bytes", Provenance.MEASURED),
        )
        study.tell(one)
        rule.update()
        count += 1
    return count, rule


def test_a_search_ends_where_more_is_not_expected_to_help(plan: Plan) -> None:
    count, rule = searched(plan, "advisor", 0.05)
    assert CONSECUTIVE < count < plan.size
    stop = rule.stop(plan.size - count)
    assert stop.why == "gain"
    assert "less than --stop-below 5%" in stop.text
    assert f"{plan.size - count} configurations not evaluated" in stop.text


def test_without_a_share_everything_is_evaluated(small: Plan) -> None:
    assert searched(small, "advisor", None)[0] == small.size


def test_a_sampler_without_expectation_goes_on_to_the_end(small: Plan) -> None:
    assert searched(small, "random", 0.05)[0] == small.size


def test_large_spaces_stop_by_themselves_and_small_ones_do_not() -> None:
    assert resolve({}).execution.least_gain(99) is None
    assert resolve({}).execution.least_gain(100) == LEAST_GAIN
    assert resolve({"stop_below": "2%"}).execution.least_gain(10) == 0.02
    assert resolve({"stop_below": "never"}).execution.least_gain(10_000) is None
    assert resolve({"sampler": "tpe"}).execution.least_gain(10_000) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [({"stop_below": "0.5"}, "has no unit"), ({"stop_below": "1%", "sampler": "tpe"}, "needs --sampler advisor")],
)
def test_a_share_that_cannot_be_held_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        resolve(options)


def test_reasons_say_what_was_left() -> None:
    assert time_limit_reached("10min", 3).text == "stopped at --time-limit 10min: 3 configurations not evaluated"
    assert max_trials_reached(40, 1).text == "stopped at --max-trials 40: 1 configuration not evaluated"

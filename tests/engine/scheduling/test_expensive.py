"""Cards that cost many times as much as the others: when they start, and when they are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.core.budget import Budget
from advisor.core.evaluation import Evaluation
from advisor.core.forms import FORM_GAIN
from advisor.core.preference import BALANCED, Preference, parse_preference
from advisor.engine.pipeline.rule import Known, RejectionRule, RuleNeeds
from advisor.engine.scheduling.allowance import Allowance
from advisor.engine.scheduling.promotion import HEAD_GAIN, LEAST_RESULTS, STAGE, ExpensiveCards, FrontBound
from advisor.engine.scheduling.scheduler import Scheduler
from advisor.engine.space.plan import Plan
from tests.builders import evaluation, present
from tests.engine.plans import changed
from tests.engine.scheduling.test_allowance import DEFAULT, Allowed
from tests.engine.scheduling.test_scheduler import CARDS, Search
from tests.engine.scheduling.test_scheduler import PLAN as HEADS

EXPENSIVE, NO_LIMITS = "inception_v3_299", Budget()
NAMES = [*CARDS, EXPENSIVE]
PLAN = changed(HEADS, cards=load_catalogue().select(NAMES), trainings=("head",), images=2000, validation=400)


def _head(card: str, accuracy: float, latency: float = 5.0, size: float = 1e7, recipe: str = "float32") -> Evaluation:
    made = evaluation(card, accuracy=accuracy, latency=latency, size=size)
    return replace(made, configuration=PLAN.configuration(card, recipe, 1))


def _reason(*results: Evaluation, budget: Budget = NO_LIMITS) -> str:
    return _asked(ExpensiveCards.of(PLAN), results, budget)


def _asked(cards: ExpensiveCards, results: Sequence[Evaluation], budget: Budget = NO_LIMITS) -> str:
    candidate = cards.plan.configuration(EXPENSIVE, "float32", 1)
    return cards.reason(candidate, Known(budget, {each.configuration: each for each in results}))


def test_only_a_card_of_many_times_the_usual_work_is_expensive() -> None:
    assert list(ExpensiveCards.of(PLAN).cards) == [EXPENSIVE]
    cheap = replace(PLAN, cards=tuple(card for card in PLAN.cards if card.name != EXPENSIVE))
    assert not ExpensiveCards.of(cheap).cards


def test_an_expensive_card_is_left_out_where_another_is_picked_though_its_head_were_the_best() -> None:
    reason = _reason(*(_head(card, 90.0) for card in CARDS), _head(CARDS[0], 92.5, 1.0, 1e6, "int8"))
    assert CARDS[0] in reason
    assert f"{90 + 10 * HEAD_GAIN:.1f} %" in reason
    assert f"--candidates {EXPENSIVE}" in reason


@pytest.mark.parametrize(
    ("accuracies", "why"),
    [
        ((90.0,) * (LEAST_RESULTS - 1), "too few results"),
        ((50.0,) * LEAST_RESULTS, "it may be far more accurate"),
    ],
)
def test_an_expensive_card_is_evaluated_where_it_may_be_picked(accuracies: tuple[float, ...], why: str) -> None:
    heads = [_head(card, accuracy) for card, accuracy in zip(CARDS, accuracies, strict=False)]
    assert not _reason(*heads), why


PUBLISHED = changed(PLAN, trainings=("none",), images=0, validation=0)


def _quoted() -> list[Evaluation]:
    made = [_head(card, 77.9) for card in CARDS]
    return [replace(each, configuration=replace(each.configuration, training="none")) for each in made]


def _reason_without_images(preference: Preference = BALANCED) -> str:
    return _asked(ExpensiveCards.of(PUBLISHED, preference), _quoted())


def test_without_images_the_published_accuracy_is_the_bound() -> None:
    published = present(load_catalogue()[EXPENSIVE].top1())
    assert f"points more than its published accuracy ({published + FORM_GAIN:.1f} %)" in _reason_without_images()


def test_an_expensive_card_is_evaluated_where_accuracy_alone_counts() -> None:
    assert not _reason_without_images(parse_preference("accuracy"))


def test_results_over_the_budget_leave_no_expensive_card_out() -> None:
    results = [*(_head(card, 90.0) for card in CARDS), _head(CARDS[0], 92.5, 1.0, 1e6, "int8")]
    assert not _reason(*results, budget=Budget(size_bytes=1e3))


def _bound(plan: Plan = PLAN) -> FrontBound:
    """Return the rules of a search with an expensive card."""
    expensive = ExpensiveCards.of(plan)
    rule = RejectionRule(RuleNeeds.RESULTS, STAGE, expensive.reason)
    return FrontBound(NO_LIMITS, (rule, *FrontBound(NO_LIMITS).listed), last=expensive.cards)


def _searched(accuracy: float) -> Search:
    """Return a search with an expensive card after the heads of all others had this accuracy."""
    search = Search(plan=PLAN)
    search.bound = _bound()
    search.scheduler = Scheduler(search.study, search.bound, PLAN, 100, 2)
    search.end_heads(lambda _card: (accuracy, 1.0))
    return search


def test_an_expensive_card_starts_when_nothing_else_is_left() -> None:
    started = [each.card for each in _searched(50.0).started]
    assert started.index(EXPENSIVE) == len(started) - len(PLAN.recipes)


def test_an_expensive_card_is_not_counted_as_work_before_it_starts() -> None:
    search = Search(plan=PLAN)
    search.bound = _bound()
    search.scheduler = Scheduler(search.study, search.bound, PLAN, 100, 2)
    search.start()
    assert [each.card for each in search.scheduler.waiting] == [EXPENSIVE] * len(PLAN.recipes)
    search.end_heads(lambda _card: (50.0, 1.0))
    assert not search.scheduler.waiting


def test_an_expensive_card_that_cannot_be_picked_is_rejected_at_the_end() -> None:
    search = _searched(97.0)
    assert EXPENSIVE not in {each.card for each in search.started}
    assert [each.card for each, _ in search.scheduler.reject_deferred()] == [EXPENSIVE] * len(PLAN.recipes)


def test_an_expensive_card_is_rejected_without_images_too() -> None:
    plan = replace(PUBLISHED, cards=load_catalogue().select([EXPENSIVE]))
    search = Search(plan=plan)
    search.bound = _bound(PUBLISHED)
    search.bound.add(_quoted())
    search.scheduler = Scheduler(search.study, search.bound, plan, 100, 2)
    assert search.scheduler.next([]) is None
    assert [each.card for each, _ in search.scheduler.reject_deferred()] == [EXPENSIVE] * len(PLAN.recipes)


def test_fine_tuning_does_not_wait_for_an_expensive_card() -> None:
    plan = replace(DEFAULT, cards=PLAN.cards)
    search = Allowed(plan)
    search.bound = _bound(plan)
    allowance = Allowance(plan, search.bound, search.favourite)
    search.scheduler = Scheduler(search.study, search.bound, plan, 100, 2, allowance)
    search.end_heads(lambda card: (80.0 + CARDS.index(card), 10.0 + CARDS.index(card)))
    assert search.tuned
    assert EXPENSIVE not in {each.card for each in search.started}

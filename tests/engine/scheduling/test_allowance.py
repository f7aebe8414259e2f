"""Which cards a default search fine-tunes, when, and what it says of the others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from advisor.engine.scheduling.allowance import HEADS_SHARE, Allowance, TimeLimit
from advisor.engine.scheduling.scheduler import OVER_ALLOWANCE, Scheduler
from advisor.engine.space.plan import Plan
from tests.engine.plans import changed
from tests.engine.scheduling.test_scheduler import BEST, CARDS, LAST, PLAN, Search, alike

CACHED = "finetune_cached"
DEFAULT = changed(PLAN, trainings=("head", CACHED), images=2000, validation=400, tuning_limited=True)


class Allowed(Search):
    """A search of the default recipes, in which the first of the possible cards would be picked."""

    def __init__(self, plan: Plan = DEFAULT, left_s: float | None = None) -> None:
        super().__init__(plan=plan)
        self.left_s = left_s
        limit = None if left_s is None else TimeLimit(600.0, lambda: self.left_s or 0.0)
        allowance = Allowance(plan, self.bound, self.favourite, limit)
        self.scheduler = Scheduler(self.study, self.bound, plan, 100, 2, allowance)

    def favourite(self, cards: Collection[str]) -> str | None:
        """Return the first card in the order of the module's cards."""
        return min(cards, key=CARDS.index)

    def finish(self) -> None:
        """End everything that starts."""
        while self.running:
            self.end(self.running[0])
            self.start()

    @property
    def tuned(self) -> list[str]:
        """The cards that were fine-tuned, in order."""
        return list(dict.fromkeys(each.card for each in self.started if each.training == CACHED))


def _costing(plan: Plan, cards: int) -> Plan:
    """Return the plan with time for the fine-tuning of its first cards."""
    seconds = [plan.costs.of_card(plan.cards_by_name[name]).trained_s[CACHED] for name in CARDS[:cards]]
    limited = replace(plan)
    limited.__dict__["tuning_s"] = sum(seconds) + 1.0
    return limited


def test_without_a_limit_fine_tuning_waits_for_every_head() -> None:
    search = Allowed(_costing(DEFAULT, 2))
    search.end_heads(alike, kept=LAST)
    assert not search.tuned
    search.end(LAST)
    search.start()
    assert search.tuned == [BEST, CARDS[1]]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_as_many_cards_are_tuned_as_their_expected_seconds_allow_the_pick_first(count: int) -> None:
    search = Allowed(_costing(DEFAULT, count))
    search.end_heads(alike)
    search.finish()
    assert search.tuned == list(CARDS[:count])


@pytest.mark.parametrize("count", [1, 2])
def test_the_time_left_counts_only_the_cards_that_fit(count: int) -> None:
    search = Allowed(_costing(DEFAULT, count))
    search.end_heads(alike, kept=LAST)
    assert not search.scheduler.waiting
    search.end(LAST)
    search.start()
    assert {each.card for each in search.scheduler.waiting} == set(CARDS[count:])
    assert {each.training for each in search.scheduler.waiting} == {CACHED}


def test_what_is_not_tuned_says_how_to_tune_it() -> None:
    search = Allowed(_costing(DEFAULT, 1))
    search.end_heads(alike)
    search.finish()
    refused = search.scheduler.refuse_rest()
    assert {each.card for each, _ in refused} == set(CARDS[1:])
    assert {reason for _, reason in refused} == {OVER_ALLOWANCE}
    assert len(search.started) + len(refused) == DEFAULT.size


def test_a_card_that_cannot_win_is_not_tuned_whatever_time_is_left() -> None:
    search = Allowed()
    search.end_heads(lambda card: (95.0, 5.0) if card == BEST else (60.0, 20.0))
    search.finish()
    assert search.tuned == [BEST]
    assert all(BEST in reason for _, reason in search.scheduler.refuse_rest())


def test_a_time_limit_leaves_its_second_half_to_fine_tuning() -> None:
    search = Allowed(left_s=600.0)
    search.end_heads(alike, kept=LAST)
    assert not search.tuned
    search.left_s = 600.0 * (1 - HEADS_SHARE)
    search.start()
    assert search.tuned == [BEST]


def test_no_card_is_tuned_that_the_time_limit_would_end_at_once() -> None:
    search = Allowed(left_s=1.0)
    search.end_heads(alike)
    assert not search.tuned

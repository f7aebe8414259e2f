"""The share of a search that fine-tuning gets if the user chose no training recipes, and which card is tuned next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from advisor.core.evaluation import Configuration, Status
from advisor.core.training import recipe_of
from advisor.engine.scheduling.halving import CardTraining
from advisor.engine.scheduling.promotion import FrontBound
from advisor.engine.space.plan import Plan

HEADS_SHARE = 0.5
"""Share of a time limit after which fine-tuning begins, even if some heads have no result yet."""

LEAST_SHARE = 0.5
"""Least share of a card's expected fine-tuning that the rest of a time limit must leave room for."""

Favourite = Callable[[Collection[str]], str | None]
"""Returns the card that the decision picks among some cards, by the results so far; None if it picks none."""


@dataclass(frozen=True)
class TimeLimit:
    """The time limit of a search.

    Attributes:
        seconds: the limit.
        left_s: returns the seconds until fine-tuning must end.
    """

    seconds: float
    left_s: Callable[[], float]


@dataclass(frozen=True)
class Allowance:
    """Limits the fine-tuning of a search whose training recipes are the default ones.

    Fine-tuning begins when every head has its result, or at :data:`HEADS_SHARE` of a time limit. The card that would be
    picked now is tuned first, then the one that would be picked among the others, and so on. Without a time limit, this
    ends where the expected seconds of all tuned cards would exceed those that the plan allows. Only the first card may
    be another one that fits.

    Args:
        plan: the search space.
        bound: the results so far.
        favourite: says which card would be picked.
        limit: the time limit; None for none.
    """

    plan: Plan
    bound: FrontBound
    favourite: Favourite
    limit: TimeLimit | None = None

    def begun(self, heads_left: bool) -> bool:
        """Return whether fine-tuning may begin."""
        return not heads_left or (
            self.limit is not None and self.limit.left_s() <= (1 - HEADS_SHARE) * self.limit.seconds
        )

    def admitted(
        self, open_units: Iterable[CardTraining], running: Collection[Configuration], most: int
    ) -> frozenset[CardTraining]:
        """Return the cards and heavier trainings of which configurations may start now.

        These are the ones that have begun, and the next one if fewer than ``most`` are fine-tuned.

        Args:
            open_units: cards and heavier trainings that the rungs let start.
            running: configurations in work.
            most: largest number of cards that are fine-tuned at a time.
        """
        tuned = self._tuned(running)
        in_work = {CardTraining.of(each) for each in running if recipe_of(each.training).tunes_backbone}
        following = None if len(in_work) >= most else self._following(open_units, tuned)
        return tuned if following is None else tuned | {following}

    def expected(
        self, open_units: Collection[CardTraining], running: Collection[Configuration]
    ) -> frozenset[CardTraining]:
        """Return the cards and heavier trainings that have begun or will begin, if the next results change nothing."""
        tuned = self._tuned(running)
        while (following := self._following(open_units, tuned)) is not None:
            tuned |= {following}
        return tuned

    def _tuned(self, running: Collection[Configuration]) -> frozenset[CardTraining]:
        evaluated = [each for each, result in self.bound.results.items() if result.status is not Status.SKIPPED]
        return frozenset(CardTraining.of(e) for e in (*running, *evaluated) if recipe_of(e.training).tunes_backbone)

    def _following(self, open_units: Iterable[CardTraining], tuned: Collection[CardTraining]) -> CardTraining | None:
        """Return what is tuned after ``tuned``; None if nothing is."""
        fresh = {unit.card: unit for unit in open_units if unit not in tuned}
        fitting = {card: unit for card, unit in fresh.items() if self._fits(unit, tuned)}
        card = self.favourite(fitting) if fitting else None
        if card is None or (tuned and self.limit is None and card != self.favourite(fresh)):
            return None
        return fresh[card]

    def _fits(self, unit: CardTraining, tuned: Iterable[CardTraining]) -> bool:
        cost_s = self._cost_s(unit)
        if self.limit is not None:
            return self.limit.left_s() >= LEAST_SHARE * cost_s
        return sum(map(self._cost_s, tuned)) + cost_s <= self.plan.tuning_s

    def _cost_s(self, unit: CardTraining) -> float:
        return self.plan.costs.of_card(self.plan.cards_by_name[unit.card]).trained_s[unit.training]

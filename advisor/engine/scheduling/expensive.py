"""Cards that cost many times as much as the others: they come last, and only if they can still be picked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median

from advisor.catalog.cards import Card
from advisor.core.budget import Budget
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.core.figures import accuracy_of, describe, latency_of, size_of
from advisor.core.forms import most_speedup
from advisor.core.preference import BALANCED
from advisor.core.training import HEAD
from advisor.engine.pipeline import cost
from advisor.engine.space.plan import Plan, prior_accuracy

EXPENSIVE = 10.0
"""Multiply-accumulates over those of the median card, from which on a card is expensive."""

HEAD_GAIN = 0.25
"""Share of the errors of the best head so far that the head of one more card removes at most. Of six networks on five
splits of TrashNet and on groceries, the best had 2 to 19 % fewer errors than the second (decision 0058)."""

LEAST_RESULTS, MOST_AHEAD = 4, 3.0
"""Cards with a head that the bound needs, and points of published top-1 that the card may be ahead of all of them."""

FLOAT = "float32"


@dataclass(frozen=True)
class ExpensiveCards:
    """The expensive cards of a search, and the bound that decides whether one is evaluated.

    The best that an expensive card may reach is taken: :data:`HEAD_GAIN` fewer errors than the best head, the speed of
    the card that is fastest for its MACs, the fastest form and the smallest file. If a result would be picked before it
    even so, the card is left out.

    Args:
        plan: the search space.
        budget: its limits.
        cards: names of the expensive cards, and their multiply-accumulates over those of the median card.
    """

    plan: Plan
    budget: Budget
    cards: Mapping[str, float]

    @classmethod
    def of(cls, plan: Plan, budget: Budget) -> ExpensiveCards:
        """Return the expensive cards of a plan."""
        usual = median(max(1, card.macs) for card in plan.cards)
        return cls(
            plan, budget, {card.name: card.macs / usual for card in plan.cards if card.macs >= EXPENSIVE * usual}
        )

    def rejection_reason(self, name: str, results: Mapping[Configuration, Evaluation]) -> str:
        """Return why an expensive card cannot be picked any more, by the results so far; empty if it can."""
        card = self.plan.cards_by_name[name]
        good = [each for each in results.values() if each.status is Status.OK and self.budget.met_by(each)]
        heads = [each for each in good if _is_head(each.configuration)]
        others = {each.configuration.card: self.plan.cards_by_name[each.configuration.card] for each in heads}
        published = [prior_accuracy(other, FLOAT) for other in others.values()]
        if len(others) < LEAST_RESULTS or prior_accuracy(card, FLOAT) - max(published) > MOST_AHEAD:
            return ""
        best = max(map(accuracy_of, heads))
        most = best + HEAD_GAIN * (100.0 - best)
        pace = min(latency_of(each) / _rough_ms(others[each.configuration.card], each.configuration) for each in heads)
        rivals = [
            self._preferred(card, self.plan.configuration(name, recipe, threads), most, pace, good)
            for recipe, threads in product(self.plan.recipes, self.plan.threads)
        ]
        if None in rivals:
            return ""
        rival = max(filter(None, rivals), key=accuracy_of)
        return (
            f"it computes {self.cards[name]:.0f} times as much as usual, and even with {100 * HEAD_GAIN:.0f} % fewer "
            f"errors than the best head ({most:.1f} %) it would not be picked before {describe(rival)}; "
            f"--candidates {name} evaluates it"
        )

    def _preferred(
        self, card: Card, form: Configuration, most: float, pace: float, good: Sequence[Evaluation]
    ) -> Evaluation | None:
        """Return a result that is picked before a form of the card, whatever the images show; None if there is none."""
        latency_ms = pace * _rough_ms(card, form) / most_speedup(form.compression)
        size = self.plan.least_size(card, form.compression)
        own = BALANCED.cost(math.log(latency_ms), math.log(size), 0.0, 0.0, 0.0)

        def loss(rival: Evaluation) -> float:
            behind = max(0.0, most - accuracy_of(rival))
            return float(BALANCED.cost(math.log(latency_of(rival)), math.log(size_of(rival)), behind, behind, 0.0))

        rival = min(good, key=loss)
        return rival if loss(rival) <= own else None


def _rough_ms(card: Card, configuration: Configuration) -> float:
    return cost.rough_ms(card, FLOAT, configuration.target.threads)


def _is_head(configuration: Configuration) -> bool:
    return (configuration.training, configuration.compression) == (HEAD, FLOAT)

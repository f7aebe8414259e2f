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
from advisor.core.forms import FORM_GAIN, most_speedup
from advisor.core.preference import BALANCED, Preference
from advisor.core.training import recipe_of
from advisor.engine.pipeline import cost
from advisor.engine.space.plan import Plan, prior_accuracy

EXPENSIVE = 10.0
"""Multiply-accumulates over those of the median card, from which on a card is expensive."""

HEAD_GAIN = 0.25
"""Share of the errors of the best head so far that the head of one more card removes at most. Of six networks on five
splits of TrashNet and on groceries, the best had 2 to 19 % fewer errors than the second (decision 0058)."""

LEAST_RESULTS, MOST_AHEAD = 4, 3.0
"""Cards with a float32 file that the bound needs, and points of published top-1 that the card may be ahead of them."""

FLOAT = "float32"


@dataclass(frozen=True)
class ExpensiveCards:
    """The expensive cards of a search, and the bound that decides whether one is evaluated.

    The best that an expensive card may reach is taken: :data:`HEAD_GAIN` fewer errors than the best head (without
    images its published accuracy), the speed of the card that is fastest for its MACs, the fastest form and the
    smallest file. If a result would be picked before it even so, the card is left out.

    Args:
        plan: the search space.
        budget: its limits.
        preference: what counts among the candidates that meet the limits.
        cards: names of the expensive cards, and their multiply-accumulates over those of the median card.
    """

    plan: Plan
    budget: Budget
    preference: Preference
    cards: Mapping[str, float]

    @classmethod
    def of(cls, plan: Plan, budget: Budget, preference: Preference = BALANCED) -> ExpensiveCards:
        """Return the expensive cards of a plan."""
        usual = median(max(1, card.macs) for card in plan.cards)
        networks = [card for card in plan.cards if not card.form]
        cards = {card.name: card.macs / usual for card in networks if card.macs >= EXPENSIVE * usual}
        return cls(plan, budget, preference, cards)

    def rejection_reason(self, name: str, results: Mapping[Configuration, Evaluation]) -> str:
        """Return why an expensive card cannot be picked any more, by the results so far; empty if it can."""
        card = self.plan.cards_by_name[name]
        good = [each for each in results.values() if each.status is Status.OK and self.budget.met_by(each)]
        heads = [each for each in good if _is_head(each.configuration)]
        others = {each.configuration.card: self.plan.cards_by_name[each.configuration.card] for each in heads}
        if len(others) < LEAST_RESULTS:
            return ""
        most, why = self._most(card, heads)
        if not why:
            return ""
        pace = min(latency_of(each) / _rough_ms(others[each.configuration.card], each.configuration) for each in heads)
        rivals = [
            self._preferred(card, self.plan.configuration(name, recipe, threads), most, pace, good)
            for recipe, threads in product(self.plan.recipes, self.plan.threads)
        ]
        if None in rivals:
            return ""
        rival = max(filter(None, rivals), key=accuracy_of)
        return (
            f"it computes {self.cards[name]:.0f} times as much as usual, and even with {why} ({most:.1f} %) it would "
            f"not be picked before {describe(rival)}; --candidates {name} evaluates it"
        )

    def _most(self, card: Card, heads: Sequence[Evaluation]) -> tuple[float, str]:
        """Return the highest accuracy that the card may reach, in %, and what it is; empty if nothing bounds it."""
        published = prior_accuracy(card, FLOAT)
        if not self.plan.images:
            known = card.top1() is not None
            return published + FORM_GAIN, f"{FORM_GAIN:g} points more than its published accuracy" if known else ""
        others = {each.configuration.card for each in heads}
        ahead = published - max(prior_accuracy(self.plan.cards_by_name[name], FLOAT) for name in others)
        best = max(map(accuracy_of, heads))
        most = best + HEAD_GAIN * (100.0 - best)
        return most, f"{100 * HEAD_GAIN:.0f} % fewer errors than the best head" if ahead <= MOST_AHEAD else ""

    def _preferred(
        self, card: Card, form: Configuration, most: float, pace: float, good: Sequence[Evaluation]
    ) -> Evaluation | None:
        """Return a result that is picked before a form of the card, whatever the images show; None if there is none."""
        latency_ms = pace * _rough_ms(card, form) / most_speedup(form.compression)
        size = self.plan.least_size(card, form.compression)
        own = self.preference.cost(math.log(latency_ms), math.log(size), 0.0, 0.0, 0.0)

        def loss(rival: Evaluation) -> float:
            behind = max(0.0, most - accuracy_of(rival))
            return float(
                self.preference.cost(math.log(latency_of(rival)), math.log(size_of(rival)), behind, behind, 0.0)
            )

        rival = min(good, key=loss)
        return rival if loss(rival) <= own else None


def _rough_ms(card: Card, configuration: Configuration) -> float:
    return cost.rough_ms(card, FLOAT, configuration.target.threads)


def _is_head(configuration: Configuration) -> bool:
    return recipe_of(configuration.training).base and configuration.compression == FLOAT

"""Reject what cannot reach the front by the results so far, and expensive cards that cannot be picked."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import mean, median

from advisor.catalog.cards import Card
from advisor.core.evaluation import (
    Configuration,
    Evaluation,
    Status,
    accuracy_of,
    describe,
    latency_of,
    size_of,
    variant_of,
)
from advisor.core.forms import FORM_GAIN, most_shrinkage, most_speedup
from advisor.core.metrics import BALANCED, Preference
from advisor.core.quantity import Quantity
from advisor.core.training import lighter_than, recipe_of
from advisor.engine.pipeline import cost
from advisor.engine.pipeline.rule import Known, RejectionRule, RuleNeeds, Rules
from advisor.engine.pipeline.stage import StageName
from advisor.engine.space.plan import Plan, prior_accuracy

PERFECT = 100.0

PRIOR_WEIGHT = 2.0
"""Number of results of the run that a prior counts as."""

MOST_SPEEDUP, MOST_SHRINKAGE = 4.0, 8.0
"""Most that a compressed form can be faster and smaller than float: int8 on a phone, and four bits a weight."""

FLOAT = "float32"

STANDARD_DEVIATIONS = 2.0
"""Standard deviations above the mean that count as possible."""

STAGE = StageName.PROMOTION

EXPENSIVE = 10.0
"""Multiply-accumulates over those of the median card, from which on a card is expensive."""

HEAD_GAIN = 0.25
"""Share of the errors of the best head so far that the head of one more card removes at most. Of six networks on five
splits of TrashNet and on groceries, the best had 2 to 19 % fewer errors than the second (decision 0058)."""

LEAST_RESULTS, MOST_AHEAD = 4, 3.0
"""Cards with a float32 file that the bound needs, and points of published top-1 that the card may be ahead of them."""

Results = Mapping[Configuration, Evaluation]


def unpromising(candidate: Configuration, known: Known) -> str:
    """Return why a configuration cannot reach the front; empty if it can, or if no lighter result bounds it.

    A heavier training changes neither latency nor size of a network. So the bound has the latency and the size of the
    lighter result. Its accuracy is the upper end of that result's interval plus the largest gain.
    """
    recipe = recipe_of(candidate.training)
    if recipe.tunes_backbone:
        lighter = _lighter(candidate, known.results)
    else:
        lighter = known.results.get(replace(candidate, training=recipe.over, compression=FLOAT))
    if lighter is None:
        return "no lighter training of this model was evaluated" if recipe.tunes_backbone else ""
    if lighter.status is not Status.OK:
        return f"{lighter.configuration.training} was {lighter.status}: {lighter.reason}"
    if recipe.tunes_backbone and lighter.accuracy is not None and lighter.accuracy.value >= PERFECT:
        return "its head is right on every validation image: fine-tuning cannot show a gain"
    share = largest_gain(candidate.training, known.results)
    accuracy = lighter.accuracy
    if accuracy is not None:
        upper = accuracy.value if accuracy.high is None else accuracy.high
        accuracy = replace(accuracy, value=upper + share * (PERFECT - upper))
    best = replace(_in_form(lighter, candidate), accuracy=accuracy)
    if broken := [limit for limit in known.limits.violations(best) if limit != "drop"]:
        return f"it cannot meet the budget ({', '.join(broken)}): training changes neither latency nor size"
    rival = _rival(best, known)
    if rival is None:
        return ""
    return (
        f"even with {100 * share:.0f} % fewer errors it would reach {accuracy_of(best):.1f} %, and "
        f"{' '.join(variant_of(rival))} has {accuracy_of(rival):.1f} % in less time and fewer bytes"
    )


def dominated(candidate: Configuration, known: Known) -> str:
    """Return why a form cannot reach the front, by the evaluation of its float32 file; empty if it can.

    The form is taken to be as fast and as small as forms of its kind may be, and as accurate as the float32 file on
    the same images and :data:`~advisor.core.forms.FORM_GAIN` points more.
    """
    form, floats = candidate.compression, known.floats
    if floats is None:
        return ""
    best = replace(
        floats,
        latency=_divided(floats.latency, most_speedup(form)),
        size=_divided(floats.size, most_shrinkage(form)),
        accuracy=floats.accuracy and replace(floats.accuracy, value=floats.accuracy.value + FORM_GAIN),
    )
    rival = _rival(best, known)
    if rival is None:
        return ""
    return f"even with {FORM_GAIN:g} points more than float32, {describe(rival)} would be better in everything"


def largest_gain(training: str, results: Results) -> float:
    """Return the largest share of the errors that a training is expected to remove, by the run so far.

    It is the mean plus two standard deviations of the shares seen, pooled with a prior of weight two.
    """
    gains = _gains(training, results)
    weight = PRIOR_WEIGHT + len(gains)
    gain, spread = recipe_of(training).gain, recipe_of(training).spread
    centre = (PRIOR_WEIGHT * gain + sum(gains)) / weight
    squares = PRIOR_WEIGHT * (spread**2 + (gain - centre) ** 2) + sum((g - centre) ** 2 for g in gains)
    return min(1.0, max(0.0, centre + STANDARD_DEVIATIONS * math.sqrt(squares / weight)))


def _gains(training: str, results: Results) -> list[float]:
    """Return the share of the errors that a training removed from the lighter one, a mean over the forms of a card.

    A training that adds errors removes none: counted below zero, it would widen the spread and raise the bound.
    """
    by_card: dict[str, list[float]] = {}
    lighter = recipe_of(training).over
    for configuration, tuned in results.items():
        base = results.get(replace(configuration, training=lighter))
        if configuration.training == training and tuned.accuracy and base is not None and base.accuracy:
            errors = PERFECT - accuracy_of(base)
            share = (accuracy_of(tuned) - accuracy_of(base)) / errors if errors > 0 else 0.0
            by_card.setdefault(configuration.card, []).append(max(0.0, share))
    return [mean(gains) for gains in by_card.values()]


def _lighter(configuration: Configuration, results: Results) -> Evaluation | None:
    """Return the result of the heaviest training below this one."""
    forms = (configuration.compression, FLOAT)  # a form may have been left out, see :func:`dominated`
    found = (
        results.get(replace(configuration, training=training, compression=form))
        for training in reversed(lighter_than(configuration.training))
        for form in forms
    )
    return next((each for each in found if each is not None and each.stage != STAGE), None)


def _rival(best: Evaluation, known: Known) -> Evaluation | None:
    """Return another result within the limits that is at least as good in everything; None if there is none."""
    for rival in known.results.values():
        other = rival.status is Status.OK and rival.configuration != best.configuration and known.limits.met_by(rival)
        cheaper = latency_of(rival) <= latency_of(best) and size_of(rival) <= size_of(best)
        if other and cheaper and accuracy_of(rival) >= accuracy_of(best):
            return rival
    return None


def _in_form(lighter: Evaluation, configuration: Configuration) -> Evaluation:
    """Return a result as it may be in another form at best. A first look has a result in float32 only."""
    if configuration.compression == lighter.configuration.compression:
        return lighter
    return replace(
        lighter,
        latency=_divided(lighter.latency, MOST_SPEEDUP),
        latency_p90=_divided(lighter.latency_p90, MOST_SPEEDUP),
        size=_divided(lighter.size, MOST_SHRINKAGE),
        memory=_divided(lighter.memory, MOST_SHRINKAGE),
    )


def _divided(quantity: Quantity | None, factor: float) -> Quantity | None:
    return None if quantity is None else replace(quantity, value=quantity.value / factor)


@dataclass(frozen=True)
class ExpensiveCards:
    """The expensive cards of a search, and the bound that decides whether one is evaluated.

    The best that an expensive card may reach is taken: :data:`HEAD_GAIN` fewer errors than the best head (without
    images its published accuracy), the speed of the card that is fastest for its MACs, the fastest form and the
    smallest file. If a result would be picked before it even so, the card is left out.

    ``cards`` are the names of the expensive cards, and their multiply-accumulates over those of the median card.
    """

    plan: Plan
    preference: Preference
    cards: Mapping[str, float]

    @classmethod
    def of(cls, plan: Plan, preference: Preference = BALANCED) -> ExpensiveCards:
        """Return the expensive cards of a plan."""
        usual = median(max(1, card.macs) for card in plan.cards)
        networks = [card for card in plan.cards if not card.form]
        cards = {card.name: card.macs / usual for card in networks if card.macs >= EXPENSIVE * usual}
        return cls(plan, preference, cards)

    def reason(self, candidate: Configuration, known: Known) -> str:
        """Return why an expensive card cannot be picked any more, by the results so far; empty if it can."""
        name = candidate.card
        if name not in self.cards or recipe_of(candidate.training).tunes_backbone:
            return ""
        card = self.plan.cards_by_name[name]
        good = [each for each in known.results.values() if each.status is Status.OK and known.limits.met_by(each)]
        floats = [each for each in good if each.configuration.compression == FLOAT]
        heads = [each for each in floats if recipe_of(each.configuration.training).base]
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
            latency, size = math.log(latency_of(rival)), math.log(size_of(rival))
            behind = max(0.0, most - accuracy_of(rival))
            return float(self.preference.cost(latency, size, behind, behind, 0.0))

        rival = min(good, key=loss)
        return rival if loss(rival) <= own else None


def _rough_ms(card: Card, configuration: Configuration) -> float:
    return cost.rough_ms(card, FLOAT, configuration.target.threads)


@dataclass(frozen=True)
class FrontBound(Rules):
    """The rules of a search, as the scheduler asks them; cards in ``last`` start only when nothing else may."""

    listed: tuple[RejectionRule, ...] = (RejectionRule(RuleNeeds.RESULTS, STAGE, unpromising),)
    last: Collection[str] = ()

    def rejection_reason(self, configuration: Configuration) -> str:
        """Return why a configuration does not start, by the results so far; empty if it may."""
        return self.reason(RuleNeeds.RESULTS, configuration)

    def largest_gain(self, training: str) -> float:
        """Return the largest share of the errors that a training is expected to remove, by the run so far."""
        return largest_gain(training, self.results)

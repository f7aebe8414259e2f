"""An optimistic bound: can a configuration still reach the front if its training gains as much as it may?"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from statistics import mean

from advisor.core.beliefs import without_holdout
from advisor.core.budget import Budget
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.core.figures import accuracy_of, describe, latency_of, size_of
from advisor.core.forms import FORM_GAIN, most_shrinkage, most_speedup
from advisor.core.quantity import Quantity
from advisor.core.training import lighter_than, recipe_of
from advisor.engine.pipeline.names import StageName
from advisor.engine.scheduling.expensive import ExpensiveCards

PERFECT = 100.0

PRIOR_WEIGHT = 2.0
"""Number of results of the run that a prior counts as."""

MOST_SPEEDUP, MOST_SHRINKAGE = 4.0, 8.0
"""Most that a compressed form can be faster and smaller than float: int8 on a phone, and four bits a weight."""

FLOAT = "float32"

STANDARD_DEVIATIONS = 2.0
"""Standard deviations above the mean that count as possible."""

STAGE = StageName.PROMOTION
"""Stage of evaluations that did not start because they cannot reach the front."""


@dataclass
class FrontBound:
    """Says which configurations cannot reach the front, by the results of the run so far.

    Attributes:
        budget: the limits.
        results: the results so far.
        expensive: cards that are evaluated only if they can still be picked; None for none.
    """

    budget: Budget
    results: dict[Configuration, Evaluation] = field(default_factory=dict)
    expensive: ExpensiveCards | None = None

    def add(self, evaluations: Iterable[Evaluation]) -> None:
        """Add results, without the hold-out: it decides nothing in a search that goes on.

        Files that a user ships are left out: their figures are too high if they have learnt from the images.
        """
        own = [evaluation for evaluation in evaluations if not evaluation.card_facts.as_it_is]
        self.results |= {evaluation.configuration: without_holdout(evaluation) for evaluation in own}

    def rejection_reason(self, configuration: Configuration) -> str:
        """Return why a configuration cannot reach the front; empty if it can, or if no lighter result bounds it.

        A heavier training changes neither latency nor size of a network. So the bound has the latency and the size of
        the lighter result. Its accuracy is the upper end of that result's interval plus the largest gain.
        """
        recipe = recipe_of(configuration.training)
        if self.expensive and configuration.card in self.expensive.cards and not recipe.tunes_backbone:
            reason = self.expensive.rejection_reason(configuration.card, self.results)
            if reason:
                return reason
        if recipe.tunes_backbone:
            lighter = self._lighter(configuration)
        else:
            lighter = self.results.get(replace(configuration, training=recipe.over, compression=FLOAT))
        if not recipe.tunes_backbone and lighter is None:
            return ""
        if lighter is None:
            return "no lighter training of this model was evaluated"
        if lighter.status is not Status.OK:
            return f"{lighter.configuration.training} was {lighter.status}: {lighter.reason}"
        if recipe.tunes_backbone and lighter.accuracy is not None and lighter.accuracy.value >= PERFECT:
            return "its head is right on every validation image: fine-tuning cannot show a gain"
        share = self.largest_gain(configuration.training)
        best = replace(_in_form(lighter, configuration), accuracy=_optimistic(lighter, share))
        return self._budget_reason(best) or self._dominated_reason(best, share)

    def outclassed(self, floats: Evaluation, configuration: Configuration) -> str:
        """Return why a form cannot reach the front, by the evaluation of its float32 file; empty if it can.

        The form is taken to be as fast and as small as forms of its kind may be, and as accurate as the float32 file on
        the same images and :data:`~advisor.core.forms.FORM_GAIN` points more.
        """
        form = configuration.compression
        best = replace(
            floats,
            latency=_divided(floats.latency, most_speedup(form)),
            size=_divided(floats.size, most_shrinkage(form)),
            accuracy=floats.accuracy and replace(floats.accuracy, value=floats.accuracy.value + FORM_GAIN),
        )
        rival = next((each for each in self.results.values() if self._dominates(each, best)), None)
        if rival is None:
            return ""
        return f"even with {FORM_GAIN:g} points more than float32, {describe(rival)} would be better in everything"

    def largest_gain(self, training: str) -> float:
        """Return the largest share of the errors that a training is expected to remove, by the run so far.

        It is the mean plus two standard deviations of the shares seen, pooled with a prior of weight two.
        """
        gains = self._gains(training)
        weight = PRIOR_WEIGHT + len(gains)
        gain, spread = recipe_of(training).gain, recipe_of(training).spread
        centre = (PRIOR_WEIGHT * gain + sum(gains)) / weight
        squares = PRIOR_WEIGHT * (spread**2 + (gain - centre) ** 2) + sum((g - centre) ** 2 for g in gains)
        return min(1.0, max(0.0, centre + STANDARD_DEVIATIONS * math.sqrt(squares / weight)))

    def _gains(self, training: str) -> list[float]:
        """Return the share of the errors that a training removed from the lighter one, a mean over the forms of a card.

        A training that adds errors removes none: counted below zero, it would widen the spread and raise the bound.
        """
        by_card: dict[str, list[float]] = {}
        lighter = recipe_of(training).over
        for configuration, tuned in self.results.items():
            base = self.results.get(replace(configuration, training=lighter))
            if configuration.training == training and tuned.accuracy and base is not None and base.accuracy:
                errors = PERFECT - accuracy_of(base)
                share = (accuracy_of(tuned) - accuracy_of(base)) / errors if errors > 0 else 0.0
                by_card.setdefault(configuration.card, []).append(max(0.0, share))
        return [mean(gains) for gains in by_card.values()]

    def _lighter(self, configuration: Configuration) -> Evaluation | None:
        """Return the result of the heaviest training below this one."""
        forms = (configuration.compression, FLOAT)  # a form may have been left out, see :meth:`outclassed`
        found = (
            self.results.get(replace(configuration, training=training, compression=form))
            for training in reversed(lighter_than(configuration.training))
            for form in forms
        )
        return next((each for each in found if each is not None and each.stage != STAGE), None)

    def _budget_reason(self, best: Evaluation) -> str:
        broken = [limit for limit in self.budget.violations(best) if limit != "drop"]
        if not broken:
            return ""
        return f"it cannot meet the budget ({', '.join(broken)}): training changes neither latency nor size"

    def _dominated_reason(self, best: Evaluation, share: float) -> str:
        rival = next((each for each in self.results.values() if self._dominates(each, best)), None)
        if rival is None:
            return ""
        return (
            f"even with {100 * share:.0f} % fewer errors it would reach {accuracy_of(best):.1f} %, and "
            f"{rival.configuration.card} {rival.configuration.training} {rival.configuration.compression} has "
            f"{accuracy_of(rival):.1f} % in less time and fewer bytes"
        )

    def _dominates(self, rival: Evaluation, best: Evaluation) -> bool:
        if rival.status is not Status.OK or not self.budget.met_by(rival):
            return False
        if rival.configuration == best.configuration:
            return False
        return (
            accuracy_of(rival) >= accuracy_of(best)
            and latency_of(rival) <= latency_of(best)
            and size_of(rival) <= size_of(best)
        )


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


def _optimistic(evaluation: Evaluation, share: float) -> Quantity | None:
    accuracy = evaluation.accuracy
    if accuracy is None:
        return None
    upper = accuracy.value if accuracy.high is None else accuracy.high
    return replace(accuracy, value=upper + share * (PERFECT - upper))

"""Which cards climb to fine-tuning: those whose optimistic bound can still reach the front."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from statistics import mean

from advisor.core.budget import Budget
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.core.figures import accuracy_of, latency_of, size_of
from advisor.core.quantity import Quantity
from advisor.core.training import FINETUNED, HEAD, HEAD_SUBSET, TRAININGS

MORE_LAYERS = (3.0, 1.5)
"""Points that fine-tuning gains over the head alone, and their standard deviation, before this run has seen any:
MobileNetV2 and EfficientNet-Lite0 gained 2.4 and 4 on TrashNet."""

MORE_IMAGES = (2.0, 1.5)
"""Likewise of a head that learns from all pictures instead of some two thousand."""

PRIOR_WEIGHT = 2.0
"""How many results of this run these count as."""

LIGHTER, SMALLER = 4.0, 8.0
"""What a compressed form may be faster and smaller than float at most: int8 on a phone, and four bits a weight."""

SPREADS = 2.0
"""Standard deviations above the mean that count as possible."""

STAGE = "promotion"
"""Stage of evaluations that were not begun as they cannot reach the front."""


@dataclass
class Promotion:
    """Knows the run's results and says who climbs.

    Attributes:
        budget: what must be met.
        known: the results so far.
    """

    budget: Budget
    known: dict[Configuration, Evaluation] = field(default_factory=dict)

    def add(self, evaluations: Iterable[Evaluation]) -> None:
        """Take note of results."""
        self.known |= {evaluation.configuration: evaluation for evaluation in evaluations}

    def objection(self, configuration: Configuration) -> str:
        """Return why a configuration is not worth its training; empty where it is, or is not trained for long.

        What is trained more is the same network: it takes the time and the bytes of the lighter one, and is at best
        as accurate as the upper end of that one's interval and the most that fine-tuning may add.
        """
        if configuration.training == HEAD:
            below = self.known.get(replace(configuration, training=HEAD_SUBSET, compression="float32"))
        else:
            below = self._below(configuration)
        if configuration.training not in FINETUNED and below is None:
            return ""
        if below is None:
            return "nothing lighter was evaluated that it could build on"
        if below.status is not Status.OK:
            return f"{below.configuration.training} was {below.status}: {below.reason}"
        gain = self.largest_gain(configuration.training)
        best = replace(_in_form(below, configuration), accuracy=_optimistic(below, gain))
        broken = [limit for limit in self.budget.violations(best) if limit != "drop"]
        if broken:
            return f"it cannot meet the budget ({', '.join(broken)}): training changes neither time nor bytes"
        rival = next((e for e in self.known.values() if self._beats(e, best)), None)
        if rival is None:
            return ""
        return (
            f"even with {gain:.1f} points more it would reach {accuracy_of(best):.1f} %, and "
            f"{rival.configuration.card} {rival.configuration.training} {rival.configuration.compression} has "
            f"{accuracy_of(rival):.1f} % in less time and fewer bytes"
        )

    def largest_gain(self, training: str) -> float:
        """Return the points that a training may add to the head, by what it has gained in this run so far."""
        gains = self._gains(training)
        weight = PRIOR_WEIGHT + len(gains)
        gain, spread = MORE_IMAGES if training == HEAD else MORE_LAYERS
        centre = (PRIOR_WEIGHT * gain + sum(gains)) / weight
        squares = PRIOR_WEIGHT * (spread**2 + (gain - centre) ** 2) + sum((g - centre) ** 2 for g in gains)
        return max(0.0, centre + SPREADS * math.sqrt(squares / weight))

    def _gains(self, training: str) -> list[float]:
        """Return what a training gained over the one that it builds on, of the same card and form, one mean a card."""
        by_card: dict[str, list[float]] = {}
        below = HEAD_SUBSET if training == HEAD else HEAD
        for configuration, tuned in self.known.items():
            base = self.known.get(replace(configuration, training=below))
            if configuration.training == training and tuned.accuracy and base is not None and base.accuracy:
                by_card.setdefault(configuration.card, []).append(accuracy_of(tuned) - accuracy_of(base))
        return [mean(gains) for gains in by_card.values()]

    def _below(self, configuration: Configuration) -> Evaluation | None:
        """Return the result of the heaviest training below this one."""
        lighter = TRAININGS[: TRAININGS.index(configuration.training)]
        found = (self.known.get(replace(configuration, training=training)) for training in reversed(lighter))
        ok = [evaluation for evaluation in found if evaluation is not None and evaluation.stage != STAGE]
        return next(iter(ok), None)

    def _beats(self, rival: Evaluation, best: Evaluation) -> bool:
        if rival.status is not Status.OK or not self.budget.met_by(rival):
            return False
        if rival.configuration == best.configuration:
            return False
        return (
            accuracy_of(rival) >= accuracy_of(best)
            and latency_of(rival) <= latency_of(best)
            and size_of(rival) <= size_of(best)
        )


def _in_form(below: Evaluation, configuration: Configuration) -> Evaluation:
    """Return a result as it may be in another form at best: of a first look only the float form is known."""
    if configuration.compression == below.configuration.compression:
        return below
    return replace(
        below,
        latency=_divided(below.latency, LIGHTER),
        latency_p90=_divided(below.latency_p90, LIGHTER),
        size=_divided(below.size, SMALLER),
        memory=_divided(below.memory, SMALLER),
    )


def _divided(quantity: Quantity | None, factor: float) -> Quantity | None:
    return None if quantity is None else replace(quantity, value=quantity.value / factor)


def _optimistic(evaluation: Evaluation, gain: float) -> Quantity | None:
    accuracy = evaluation.accuracy
    if accuracy is None:
        return None
    upper = accuracy.value if accuracy.high is None else accuracy.high
    return replace(accuracy, value=min(100.0, upper + gain))

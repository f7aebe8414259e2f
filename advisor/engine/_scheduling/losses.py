"""What the forms of networks lose: latency, size and points against float32, measured or expected."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

from advisor.core import Evaluation, Limits, Preference, form_of
from advisor.engine._scheduling.belief import FormStep
from advisor.engine._scheduling.suggesting import CostEstimate, CostEstimates
from advisor.engine._space.plan import Plan

INFEASIBLE = 20.0
"""Loss of an answer that breaks the budget where none meets it, in the unit of :meth:`.Preference.price`."""

UNMEASURED_SD = 0.3
DROP_SD = 0.6
"""Standard deviations before a measurement: of the logarithm of a latency, and of the points that a form loses."""

ADJUSTED = 0.5
"""Points that a form loses over those that published files of it lose: its head is adjusted to its own backbone
(``benchmarks/results/accuracy_int8.md``)."""


class FormCost(NamedTuple):
    """The loss of latency, size and form in the unit of a price, and the chance (0-1) to meet the budget."""

    loss: float
    chance: float


def least(cost: FormCost) -> float:
    """Return what orders costs, the best first."""
    return cost.loss - INFEASIBLE * cost.chance


class Losses:
    """The costs of steps, without that of the network's accuracy."""

    def __init__(self, plan: Plan, preference: Preference, limits: Limits) -> None:
        self._preference = preference.within(limits.by_figure)
        self._limits = limits
        self._estimates = CostEstimates(plan)
        self._drops = dict[tuple[str, str], float]()
        self._known = dict[FormStep, FormCost]()
        self._fastest_of = dict[FormStep, CostEstimate]()
        self._slower = dict[str, float]()  # logarithm of the first latency of each card over the expected one

    def note_result(self, evaluation: Evaluation) -> FormCost | None:
        """Note a result and return its cost; None if it has no figures."""
        step = FormStep.of(evaluation.configuration)
        expected_ms = self._fastest(step).latency_ms
        card = step.network.card
        if self._estimates.add(evaluation) is None or evaluation.accuracy is None:
            return None
        if evaluation.drop is not None:
            self._drops[card, step.form] = evaluation.drop.value
        self._slower.setdefault(card, math.log(evaluation.latency_ms / expected_ms))
        self._known.clear()
        self._fastest_of.clear()
        loss = self._loss(step, evaluation.latency_ms, evaluation.size_bytes)
        return FormCost(loss, float(self._limits.met_by(evaluation)))

    def expect_cost(self, step: FormStep) -> FormCost:
        """Return the expected cost of a step's result."""
        if step not in self._known:
            fastest = self._fastest(step)
            limit = self._limits.latency_ms
            chance = 1.0
            others = [] if step.network.card in self._slower else list(self._slower.values())
            latency_ms = fastest.latency_ms * math.exp(sum(others) / max(1, len(others)))
            if limit is not None:
                chance = NormalDist(math.log(latency_ms), UNMEASURED_SD).cdf(math.log(limit))
            self._known[step] = FormCost(self._loss(step, latency_ms, fastest.size_bytes), chance)
        return self._known[step]

    def spread(self, step: FormStep) -> float:
        """Return the standard deviation of the loss by the points that a form loses, 0 once a file of it was scored."""
        known = (step.network.card, step.form) in self._drops
        return float(self._preference.loss(0.0, 0.0, 0.0 if known else DROP_SD))

    def _fastest(self, step: FormStep) -> CostEstimate:
        """Return the latency with the best thread count that is expected of a step, and its size."""
        if step not in self._fastest_of:
            for configuration, cost in self._estimates.of(step.network.card).items():
                other = self._fastest_of.setdefault(FormStep.of(configuration), cost)
                self._fastest_of[FormStep.of(configuration)] = min(other, cost, key=lambda known: known.latency_ms)
        return self._fastest_of[step]

    def _loss(self, step: FormStep, latency_ms: float, size_bytes: float) -> float:
        lost = self._drops.get((step.network.card, step.form), ADJUSTED * form_of(step.form).drop)
        return float(self._preference.price(latency_ms, size_bytes) + self._preference.loss(0.0, 0.0, max(0.0, lost)))

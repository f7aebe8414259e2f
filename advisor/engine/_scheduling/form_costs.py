"""What each form of a network costs in an answer: its latency, its size and the points that it
loses against float32, measured or expected.

``expected_gain.py`` adds these costs to the belief of accuracies. The unit of every cost is that
of :meth:`.Preference.price`, so that it can be set against points of accuracy.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

from advisor.core import Evaluation, Limits, Preference, form_of
from advisor.engine._scheduling.belief import FormStep
from advisor.engine._scheduling.suggesting import CostEstimate, CostEstimates
from advisor.engine._space.plan import Plan

INFEASIBLE = 20.0
"""Loss of an answer that breaks a limit, in the unit of :meth:`.Preference.price`."""

UNMEASURED_SD = 0.3
DROP_SD = 0.6
"""Standard deviations before a measurement:
of the logarithm of a latency, and of the points that a form loses.
"""

ADJUSTED = 0.5
"""Points that a form loses over those that published files of it lose: its head is adjusted to its
own backbone (``benchmarks/results/accuracy_int8.md``).
"""


class FormCost(NamedTuple):
    """The loss of latency, size and form in the unit of a price,
    and the chance (0-1) to meet the limits.
    """

    loss: float
    chance: float

    def net_loss(self) -> float:
        """Return the loss less what the chance is worth: the form with the least one is the
        best.
        """
        return self.loss - INFEASIBLE * self.chance


class FormCosts:
    """The cost of the steps of a search: noted from results, and expected before them.

    The accuracy of the network is no part of it: :class:`.AccuracyBelief` has that. ``limits``
    decide the chance, and scale what latency and size cost.
    """

    def __init__(self, plan: Plan, preference: Preference, limits: Limits) -> None:
        self._preference = preference.within(limits.by_figure)
        self._limits = limits
        self._estimates = CostEstimates(plan)
        self._drops = dict[tuple[str, str], float]()
        self._expected = dict[FormStep, FormCost]()
        self._fastest_of = dict[FormStep, CostEstimate]()
        # Logarithm of the first latency of each card over the expected one.
        self._slower = dict[str, float]()

    def note_result(self, evaluation: Evaluation) -> FormCost | None:
        """Note a result and return its cost; None if it has no figures."""
        step = FormStep.of(evaluation.configuration)
        expected_ms = self._find_fastest(step).latency_ms
        card = step.network.card
        if self._estimates.add(evaluation) is None or evaluation.accuracy is None:
            return None
        if evaluation.drop is not None:
            self._drops[card, step.form] = evaluation.drop.value
        self._slower.setdefault(card, math.log(evaluation.latency_ms / expected_ms))
        # A result changes what is expected of the same card, and of cards that have none.
        self._expected.clear()
        self._fastest_of.clear()
        loss = self._compute_loss(step, evaluation.latency_ms, evaluation.size_bytes)
        return FormCost(loss, float(self._limits.met_by(evaluation)))

    def expect_cost(self, step: FormStep) -> FormCost:
        """Return the expected cost of a step's result."""
        if step not in self._expected:
            fastest = self._find_fastest(step)
            # A card that was timed has its own estimates.
            # The others are off by as much as those that were timed.
            others = []
            if step.network.card not in self._slower:
                others = list(self._slower.values())
            latency_ms = fastest.latency_ms * math.exp(sum(others) / max(1, len(others)))
            # Of the limits, only that of the latency has a chance before a result.
            # The others are taken as met.
            chance = 1.0
            budget_ms = self._limits.latency_ms
            if budget_ms is not None:
                chance = NormalDist(math.log(latency_ms), UNMEASURED_SD).cdf(math.log(budget_ms))
            self._expected[step] = FormCost(
                self._compute_loss(step, latency_ms, fastest.size_bytes), chance
            )
        return self._expected[step]

    def expect_loss_sd(self, step: FormStep) -> float:
        """Return the standard deviation of the loss by the points that a form loses,
        0 once a file of it was scored.
        """
        known = (step.network.card, step.form) in self._drops
        return float(self._preference.loss(0.0, 0.0, 0.0 if known else DROP_SD))

    def _find_fastest(self, step: FormStep) -> CostEstimate:
        """Return the latency with the best thread count that is expected of a step, and its
        size.
        """
        if step not in self._fastest_of:
            for configuration, cost in self._estimates.of(step.network.card).items():
                other = self._fastest_of.setdefault(FormStep.of(configuration), cost)
                self._fastest_of[FormStep.of(configuration)] = min(
                    other, cost, key=lambda known: known.latency_ms
                )
        return self._fastest_of[step]

    def _compute_loss(self, step: FormStep, latency_ms: float, size_bytes: float) -> float:
        lost = self._drops.get((step.network.card, step.form), ADJUSTED * form_of(step.form).drop)
        return float(
            self._preference.price(latency_ms, size_bytes)
            + self._preference.loss(0.0, 0.0, max(0.0, lost))
        )

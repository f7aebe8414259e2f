"""The probability that a predicted latency meets the latency budget."""

from __future__ import annotations

from dataclasses import replace

from advisor.core.evaluation import Evaluation
from advisor.core.latency_distribution import percent
from advisor.core.quantity import Provenance, Quantity
from advisor.core.units import show_ms


def with_budget_probability(evaluation: Evaluation, limit_ms: float | None, confidence: float) -> Evaluation:
    """Return ``evaluation`` with the probability that its predicted latency meets a limit.

    ``latency_p90`` becomes the latency that is not exceeded with probability ``confidence``. So it meets the limit
    exactly where the probability of meeting it is at least ``confidence``. An evaluation without a latency
    distribution is returned unchanged.
    """
    distribution = evaluation.latency_distribution
    if distribution is None or evaluation.latency is None:
        return evaluation
    source = f"not above with {percent(confidence)} confidence"
    p90 = Quantity(distribution.at(confidence), "ms", evaluation.latency.provenance, source=source)
    probability = None
    if limit_ms is not None and evaluation.latency.provenance is Provenance.PREDICTED:
        probability = round(distribution.below(limit_ms), 4)
    return replace(evaluation, latency_p90=p90, budget_probability=probability)


def show_budget_probability(evaluation: Evaluation, limit_ms: float) -> str:
    """Format the probability of meeting a limit: ``97 % sure to meet 50 ms``; empty for a measured latency."""
    probability = evaluation.budget_probability
    return "" if probability is None else f"{percent(probability)} sure to meet {show_ms(limit_ms)}"

"""Sentences about a decision: why a candidate was picked, and how another one differs from it."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.core.budget import Budget, show_budget_probability, show_met
from advisor.core.evaluation import Evaluation
from advisor.core.figures import accuracy_of, describe, latency_of, name, p90_of, show_figure, size_of
from advisor.core.metrics import METRICS
from advisor.core.preference import LOST_FACTOR, POINT_WORTH, Preference
from advisor.core.quantity import Provenance
from advisor.core.units import plural, show_ms

FASTER = 1.05
"""Ratio of latencies or sizes from which a difference is named."""


def reason(
    pick: Evaluation,
    feasible: Sequence[Evaluation],
    ties: Sequence[Evaluation],
    budget: Budget,
    preference: Preference,
    pick_ties: bool = True,
) -> str:
    """Return one sentence that says why a candidate was picked.

    Args:
        pick: the picked evaluation.
        feasible: everything that meets the budget.
        ties: evaluations that are tied in accuracy with the most accurate of them.
        budget: the limits.
        preference: how the feasible evaluations were ranked.
        pick_ties: the pick is tied in accuracy with the most accurate of them.
    """
    best = max(feasible, key=accuracy_of)
    met = _met(pick, budget)
    if not preference.accuracy_first and preference.name != "accuracy":
        return f"{describe(pick)} is {_praise(preference)}{_price_of(pick, best)}{met}."
    if not preference.accuracy_first or accuracy_of(pick) == accuracy_of(best):
        why = " (slower, larger or less accurate)" if preference.accuracy_first else ""
        tied = f", statistically tied with {plural(len(ties), 'other')}{why}" if ties else ""
        return f"{describe(pick)} is the most accurate candidate within the limits{tied}{met}."
    behind = accuracy_of(best) - accuracy_of(pick)
    stands = (
        "is statistically tied with"
        if pick_ties
        else f"has the smallest expected loss: it is {behind:.1f} points behind"
    )
    return (
        f"{describe(pick)} {stands} the most accurate candidate within the limits "
        f"({name(best)}, {accuracy_of(best):.1f} %), "
        f"is {_times(latency_of(best), latency_of(pick), 'faster', 'slower')} and "
        f"{_times(size_of(best), size_of(pick), 'smaller', 'larger')}{met}."
    )


def _met(pick: Evaluation, budget: Budget) -> str:
    """Say how the pick meets the latency budget, and with which probability what is uncertain."""
    words = {
        "accuracy": "the limit of {} accuracy",
        "drop": "the limit of {} of drop",
        **{name: f"the limit of {{}} {metric.label}" for name, metric in METRICS.items()},
    }
    uncertain = "".join(
        f"; {words[limit].format(show_figure(limit, budget.limits[limit]))} is {text}"
        for limit, text in show_met(budget, pick).items()
    )
    if budget.latency_ms is None:
        return uncertain
    if pick.budget_probability is not None:
        sure = show_budget_probability(pick, budget.latency_ms)
        origin = pick.latency.provenance if pick.latency else Provenance.PREDICTED
        return f"; it is {sure}, which is {origin}, not measured{uncertain}"
    return f" and meets the {show_ms(budget.latency_ms)} budget with p90 {show_ms(p90_of(pick))}{uncertain}"


def _praise(preference: Preference) -> str:
    named = {"latency": "the fastest candidate within the limits", "size": "the smallest candidate within the limits"}
    return named.get(preference.name, f"the best candidate within the limits by the weights {preference}")


def _price_of(pick: Evaluation, best: Evaluation) -> str:
    """Say how far the pick is behind the most accurate candidate within the limits."""
    behind = accuracy_of(best) - accuracy_of(pick)
    return f", {behind:.1f} points behind the most accurate ({describe(best)})" if behind > 0 else ""


def comparison(other: Evaluation, pick: Evaluation) -> str:
    """Say how another evaluation differs from the pick: points of accuracy, latency, size."""
    points = round(accuracy_of(other) - accuracy_of(pick), 1) + 0.0  # never -0.0
    return (
        f"{describe(other)}: {points:+.1f} points, {_times(latency_of(pick), latency_of(other), 'faster', 'slower')}, "
        f"{_times(size_of(pick), size_of(other), 'smaller', 'larger')}"
    )


def not_the_faster(
    fastest: Evaluation,
    pick: Evaluation,
    shown_points: float = 0.0,
    further_points: float = 0.0,
    expected_points: float | None = None,
) -> str:
    """Return one sentence why the fastest tied evaluation is not the pick; empty where the pick is as fast.

    Args:
        fastest: the fastest evaluation that is tied in accuracy with the most accurate.
        pick: the picked evaluation.
        shown_points: points that the images show it to be behind the pick.
        further_points: points that its network is shown to be further behind another one than that of the pick.
        expected_points: for forms of one network, points that it is expected to lose against the pick.
    """
    ratio = latency_of(pick) / latency_of(fastest)
    if ratio < FASTER:
        return ""
    points, larger = accuracy_of(pick) - accuracy_of(fastest), size_of(fastest) / size_of(pick)
    drawbacks = []
    if points > 0:
        why = f"(a point counts as a factor of {POINT_WORTH:g})"
        if expected_points is not None:
            remain = f"{expected_points:.1f} points are expected to remain"
            why = f"of which {remain} (a point counts as a factor of {LOST_FACTOR:.2g})"
        elif shown_points > 0:
            why = "which is more than noise (odds above 3 to 1)"
        comma = "" if why.startswith("(") else ","
        drawbacks.append(f"it is {points:.1f} points less accurate{comma} {why}")
    if shown_points <= 0 and further_points >= 0.05:
        drawbacks.append(f"its network is {further_points:.1f} points further behind a better one, beyond the noise")
    if larger >= FASTER:
        drawbacks.append(f"it is {larger:.1f}x larger")
    why = " and ".join(drawbacks) or "its loss is larger in sum"
    return f"{name(fastest)} is tied too and {ratio:.1f}x faster, but {why}."


def _times(reference: float, value: float, better: str, worse: str) -> str:
    ratio = reference / value
    if 0.95 < ratio < 1.05:
        return f"no {worse}"
    return f"{ratio:.1f}x {better}" if ratio > 1 else f"{1 / ratio:.1f}x {worse}"

"""Tell a changed figure from noise: it differs by share, by amount AND beyond its interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from advisor.core.evaluation import Evaluation
from advisor.core.figures import show_figure
from advisor.core.quantity import Quantity

FIGURES = ("accuracy", "holdout_accuracy", "latency", "latency_p90", "size", "memory", "drop")

BETTER_UP = frozenset({"accuracy", "holdout_accuracy"})
"""Figures of which more is better; of all others, less is better."""


@dataclass(frozen=True)
class NoiseThreshold:
    """The least difference that counts: it must exceed both."""

    share: float
    amount: float


THRESHOLDS: Mapping[str, NoiseThreshold] = {
    "accuracy": NoiseThreshold(0.005, 0.5),
    "holdout_accuracy": NoiseThreshold(0.005, 0.5),
    "latency": NoiseThreshold(0.05, 0.1),
    "latency_p90": NoiseThreshold(0.05, 0.1),
    "size": NoiseThreshold(0.01, 10_000),
    "memory": NoiseThreshold(0.10, 1_000_000),
    "drop": NoiseThreshold(0.0, 0.5),
}
"""By figure, the amount in its unit (points, ms, bytes). Undisturbed timings of one file differ by 5 % from process to
process; published accuracies of one model differ by half a point from source to source."""


@dataclass(frozen=True)
class Delta:
    """One figure of one configuration, before and after.

    Attributes:
        figure: one of :data:`FIGURES`.
        before: the earlier figure, None where it was unknown.
        after: the later figure, None where it is unknown.
        counts: the difference is beyond the noise.
        why: why it counts or does not.
    """

    figure: str
    before: Quantity | None
    after: Quantity | None
    counts: bool
    why: str

    @property
    def worse(self) -> bool:
        """True where the difference counts and the later figure is worse; a figure that became unknown is worse."""
        if not self.counts or self.before is None:
            return False
        if self.after is None:
            return True
        return (self.after.value < self.before.value) == (self.figure in BETTER_UP)


def delta(figure: str, before: Quantity | None, after: Quantity | None, distinct: bool | None = None) -> Delta:
    """Compare one figure with its earlier value.

    Args:
        figure: one of :data:`FIGURES`.
        before: the earlier value.
        after: the later value.
        distinct: whether a paired test finds a difference; None to compare the intervals.
    """
    if before is None or after is None:
        return Delta(figure, before, after, before is not after, "known on one side only" if before or after else "")
    amount = abs(after.value - before.value)
    threshold = THRESHOLDS[figure]
    if amount <= threshold.amount:
        return Delta(figure, before, after, False, f"not more than {show_figure(figure, threshold.amount)}")
    if amount <= threshold.share * abs(before.value):
        return Delta(figure, before, after, False, f"not more than {100 * threshold.share:g} %")
    if distinct is False:
        return Delta(figure, before, after, False, "no significant difference on the same images")
    if distinct is None and before.overlaps(after):
        return Delta(figure, before, after, False, "the intervals overlap")
    return Delta(figure, before, after, True, "beyond the noise")


def deltas(before: Evaluation, after: Evaluation) -> tuple[Delta, ...]:
    """Compare every figure of a configuration with its earlier value.

    A latency that was measured on a busy machine never counts. The 90th percentile has no interval, so it counts only
    where the median does.
    """
    found = {name: delta(name, getattr(before, name), getattr(after, name)) for name in FIGURES}
    if before.holdout_accuracy is None or after.holdout_accuracy is None:
        found["holdout_accuracy"] = replace(found["holdout_accuracy"], counts=False, why="known of finalists only")
    if before.contended or after.contended:
        for name in ("latency", "latency_p90"):
            found[name] = replace(found[name], counts=False, why="measured while the machine was busy")
    elif found["latency_p90"].counts and not found["latency"].counts:
        found["latency_p90"] = replace(found["latency_p90"], counts=False, why="the median has not changed")
    return tuple(found.values())


def without_noise(after: Evaluation, changes: tuple[Delta, ...]) -> Evaluation:
    """Return ``after`` with the earlier figure wherever the difference does not count."""
    unchanged: dict[str, Any] = {change.figure: change.before for change in changes if not change.counts}
    return replace(after, **unchanged)

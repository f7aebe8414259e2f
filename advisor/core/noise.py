"""When a figure has changed and when it only varies: by share, by amount AND beyond its interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from advisor.core.evaluation import Evaluation
from advisor.core.quantity import Quantity
from advisor.core.units import show_bytes, show_ms

FIGURES = ("accuracy", "holdout_accuracy", "latency", "latency_p90", "size", "memory", "drop")

BETTER_UP = frozenset({"accuracy", "holdout_accuracy"})
"""Figures of which more is better; of the others less is."""


@dataclass(frozen=True)
class Threshold:
    """The least change that counts: both must be passed."""

    share: float
    amount: float


THRESHOLDS: Mapping[str, Threshold] = MappingProxyType(
    {
        "accuracy": Threshold(0.005, 0.5),
        "holdout_accuracy": Threshold(0.005, 0.5),
        "latency": Threshold(0.05, 0.1),
        "latency_p90": Threshold(0.05, 0.1),
        "size": Threshold(0.01, 10_000),
        "memory": Threshold(0.10, 1_000_000),
        "drop": Threshold(0.0, 0.5),
    }
)
"""By figure, the amount in its unit (points, ms, bytes). 5 % is what undisturbed timings of one file differ by from
process to process; half a point is what sources round and re-measure published accuracies by."""


@dataclass(frozen=True)
class Move:
    """One figure of one configuration, before and after.

    Attributes:
        figure: one of :data:`FIGURES`.
        before: the figure then, None where it was not known.
        after: the figure now, None where it is not known.
        counts: the change is beyond the noise.
        why: why it counts or does not.
    """

    figure: str
    before: Quantity | None
    after: Quantity | None
    counts: bool
    why: str

    @property
    def worse(self) -> bool:
        """True where the change counts and is for the worse; a figure that is no longer known is worse."""
        if not self.counts or self.before is None:
            return False
        if self.after is None:
            return True
        return (self.after.value < self.before.value) == (self.figure in BETTER_UP)


def moved(figure: str, before: Quantity | None, after: Quantity | None, told_apart: bool | None = None) -> Move:
    """Hold one figure against its former value.

    Args:
        figure: one of :data:`FIGURES`.
        before: then.
        after: now.
        told_apart: whether a paired comparison tells them apart; None to look at their intervals.
    """
    if before is None or after is None:
        return Move(figure, before, after, before is not after, "known on one side only" if before or after else "")
    amount = abs(after.value - before.value)
    threshold = THRESHOLDS[figure]
    if amount <= threshold.amount:
        return Move(figure, before, after, False, f"not more than {show_figure(figure, threshold.amount)}")
    if amount <= threshold.share * abs(before.value):
        return Move(figure, before, after, False, f"not more than {100 * threshold.share:g} %")
    if told_apart is False:
        return Move(figure, before, after, False, "picture by picture they cannot be told apart")
    if told_apart is None and before.overlaps(after):
        return Move(figure, before, after, False, "the intervals overlap")
    return Move(figure, before, after, True, "beyond the noise")


def moves(before: Evaluation, after: Evaluation) -> tuple[Move, ...]:
    """Hold every figure of a configuration against its former value.

    A latency taken while the machine was busy never counts; the 90th percentile, which has no interval of its own,
    counts only where the median does.
    """
    found = {name: moved(name, getattr(before, name), getattr(after, name)) for name in FIGURES}
    if before.holdout_accuracy is None or after.holdout_accuracy is None:
        found["holdout_accuracy"] = replace(found["holdout_accuracy"], counts=False, why="known of finalists only")
    if before.contended or after.contended:
        for name in ("latency", "latency_p90"):
            found[name] = replace(found[name], counts=False, why="taken while the machine was busy")
    elif found["latency_p90"].counts and not found["latency"].counts:
        found["latency_p90"] = replace(found["latency_p90"], counts=False, why="the median has not changed")
    return tuple(found.values())


def settled(after: Evaluation, changes: tuple[Move, ...]) -> Evaluation:
    """Return ``after`` with the former figure wherever the change does not count."""
    kept: dict[str, Any] = {change.figure: change.before for change in changes if not change.counts}
    return replace(after, **kept)


def show_figure(figure: str, value: float) -> str:
    """Format a value of a figure with its unit."""
    if figure.startswith("latency"):
        return show_ms(value)
    if figure in ("size", "memory"):
        return show_bytes(value)
    return f"{value:.1f} points" if figure == "drop" else f"{value:.1f} %"

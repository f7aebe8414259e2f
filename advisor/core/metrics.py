"""The metrics of a classifier, as facts: each can decide, be limited, and be shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

TOP1, BALANCED_ACCURACY, MACRO_F1, TOP5 = "top1", "balanced-accuracy", "macro-f1", "top5"
LOG_LOSS, COST_SAVED, WORST_GROUP = "log-loss", "cost-saved", "worst-group"

LEAST_GROUP_IMAGES = 20
"""Images of a part that a group needs to be among those that :data:`WORST_GROUP` compares."""


@dataclass(frozen=True)
class Metric:
    """One metric, in %: higher is better.

    Attributes:
        name: as users write it.
        label: in sentences and tables.
        meaning: what it is, in words.
    """

    name: str
    label: str
    meaning: str


METRICS: Mapping[str, Metric] = MappingProxyType({
    metric.name: metric
    for metric in (
        Metric(TOP1, "top-1", "share of the images whose most probable class is right"),
        Metric(BALANCED_ACCURACY, "balanced accuracy", "mean recall of the classes, so that each counts the same"),
        Metric(MACRO_F1, "macro F1", "mean F1 of the classes: wrong answers count for the class that they name, too"),
        Metric(TOP5, "top-5", "share of the images whose class is among the five most probable"),
        Metric(LOG_LOSS, "mean probability", "geometric mean of the probability of the true class, exp(-log loss)"),
        Metric(COST_SAVED, "cost saved", "share of the cost that is saved against always giving the cheapest answer"),
        Metric(
            WORST_GROUP,
            "worst-group top-1",
            f"lowest top-1 of the groups with at least {LEAST_GROUP_IMAGES} images; the lowest of several is too low "
            "on average, by chance",
        ),
    )
})  # fmt: skip
"""Every metric by its name."""

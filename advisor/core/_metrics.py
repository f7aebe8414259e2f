"""What makes a candidate good: the metrics of a classifier, the costs of its mistakes, the preference among figures."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from advisor.core._metric import Metric

TOP1 = "top1"
BALANCED_ACCURACY = "balanced-accuracy"
MACRO_F1 = "macro-f1"
TOP5 = "top5"
LOG_LOSS = "log-loss"
COST_SAVED = "cost-saved"
WORST_GROUP = "worst-group"

LEAST_GROUP_IMAGES = 20
"""Images of a part that a group needs to be among those that :data:`WORST_GROUP` compares."""

METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Metric(TOP1, "top-1", "share of the images whose most probable class is right"),
            Metric(BALANCED_ACCURACY, "balanced accuracy", "mean recall of the classes, so that each counts the same"),
            Metric(
                MACRO_F1, "macro F1", "mean F1 of the classes: wrong answers count for the class that they name, too"
            ),
            Metric(TOP5, "top-5", "share of the images whose class is among the five most probable"),
            Metric(LOG_LOSS, "mean probability", "geometric mean of the probability of the true class, exp(-log loss)"),
            Metric(
                COST_SAVED, "cost saved", "share of the cost that is saved against always giving the cheapest answer"
            ),
            Metric(
                WORST_GROUP,
                "worst-group top-1",
                f"lowest top-1 of the groups with at least {LEAST_GROUP_IMAGES} images; the lowest of several is too "
                "low on average, by chance",
            ),
        )
    }
)
"""Every metric by its name."""

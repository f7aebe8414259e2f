"""The table of the metrics of classifiers and detectors.

A question names the one that decides. ``measurement`` computes them, and reports show their words;
the help of ``--metric`` has words of its own (``_options.py``). The names are values of
``--metric`` and keys of ``evaluations.jsonl``, so they stay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from advisor.core._metric import Metric

LEAST_GROUP_IMAGES = 20
"""Images of a part that a group needs to be among those that :attr:`Metric.WORST_GROUP`
compares.
"""

METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Metric(Metric.TOP1, "top-1", "share of the images whose most probable class is right"),
            Metric(
                Metric.BALANCED_ACCURACY,
                "balanced accuracy",
                "mean recall of the classes, so that each counts the same",
            ),
            Metric(
                Metric.MACRO_F1,
                "macro F1",
                "mean F1 of the classes: wrong answers count for the class that they name, too",
            ),
            Metric(
                Metric.TOP5,
                "top-5",
                "share of the images whose class is among the five most probable",
            ),
            Metric(
                Metric.LOG_LOSS,
                "mean probability",
                "geometric mean of the probability of the true class, exp(-log loss)",
            ),
            Metric(
                Metric.COST_SAVED,
                "cost saved",
                "share of the cost that is saved against always giving the cheapest answer",
            ),
            Metric(
                Metric.WORST_GROUP,
                "worst-group top-1",
                f"lowest top-1 of the groups with at least {LEAST_GROUP_IMAGES} images; the lowest"
                " of several is too low on average, by chance",
            ),
            Metric(
                "map",
                "mAP@0.5:0.95",
                "COCO's main figure: the mean over overlaps from 0.5 to 0.95",
                True,
            ),
            Metric(
                "map-small",
                "mAP of small objects",
                "mAP@0.5:0.95 of objects below 32 x 32 pixels of the photograph",
                True,
                (0, 32),
            ),
            Metric(
                "map-medium",
                "mAP of medium objects",
                "mAP@0.5:0.95 of objects from 32 x 32 to 96 x 96 pixels of the photograph",
                True,
                (32, 96),
            ),
            Metric(
                "map-large",
                "mAP of large objects",
                "mAP@0.5:0.95 of objects above 96 x 96 pixels of the photograph",
                True,
                (96, math.inf),
            ),
        )
    }
)
"""Every metric by its name."""

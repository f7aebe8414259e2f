"""Every metric of a classifier's answers to the user's images."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from advisor.core.costs import Costs
from advisor.core.metrics import LOG_LOSS, METRICS
from advisor.core.quantity import Quantity
from advisor.engine.pipeline.evaluation.accuracy import percent
from advisor.engine.pipeline.images import Images, Role
from advisor.measurement.confidence import crossfitted
from advisor.measurement.metrics import Judged, Score, scores


def scored(
    probabilities: Path, images: Images, role: Role, costs: Costs | None = None, names: Collection[str] = METRICS
) -> dict[str, Score]:
    """Return those of some metrics that the images allow, by name.

    Args:
        probabilities: ``.npy`` of a file, float32 (N, C). That of the file that ships has the temperature; answers to
            the validation part get one that was fitted to other images of it.
        images: the user's images.
        role: the part.
        costs: the cost of each answer; None for none.
        names: the metrics.
    """
    rows, labels = np.load(probabilities, allow_pickle=False), np.asarray(images.part(role).labels)
    calibrated = crossfitted(rows, labels) if role is Role.VALIDATION and LOG_LOSS in names else None
    table = None if costs is None else np.array(costs.of(images.classes))
    if table is not None and rows.shape[1] > len(table):  # an answer that is no class costs as much as the worst one
        further = np.repeat(table.max(axis=1, keepdims=True), rows.shape[1] - len(table), axis=1)
        table = np.hstack([table, further])
    return scores(Judged(rows, labels, calibrated, images.group_names(role), table), names)


def quantities(found: Mapping[str, Score], source: str) -> dict[str, Quantity]:
    """Return metrics in %; each names its source, and what it belongs to where the metric does not say it."""
    return {
        name: percent(score.figure, score.images or len(score.shares), ", ".join(filter(None, (score.note, source))))
        for name, score in found.items()
    }

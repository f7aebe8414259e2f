"""Find labels that are likely wrong by confident learning (Northcutt, Jiang, Chuang, JAIR 2021) with cleanlab.

A classifier that was trained neither on an image nor on a copy of it predicts its class
(:func:`advisor.training.labels.out_of_sample.left_out`). Cleanlab estimates the number of wrong labels from these
predictions and names the images whose label is least likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DOUBTED = 0.05
"""Only labels with a lower probability are named, as classifiers of small sets are often unsure."""


@dataclass(frozen=True)
class Suspect:
    """An image whose label is likely wrong.

    Attributes:
        index: of the image.
        suggested: the label that fits best.
        given: probability (0-1) of the label that it has.
        better: probability of the suggested one.
    """

    index: int
    suggested: int
    given: float
    better: float


def suspects(labels: Sequence[int], probabilities: NDArray[np.float32]) -> tuple[Suspect, ...]:
    """Return the images whose labels are likely wrong, the least likely label first.

    Args:
        labels: N class indices; each of the classes has an image.
        probabilities: (N, C), of a classifier that was not trained on the image.
    """
    from cleanlab.filter import find_label_issues

    given = np.asarray(labels)
    found = find_label_issues(
        given, probabilities, filter_by="low_self_confidence", return_indices_ranked_by="self_confidence", n_jobs=1
    )
    rows = ((int(index), probabilities[index]) for index in found)
    return tuple(
        Suspect(index, int(row.argmax()), float(row[given[index]]), float(row.max()))
        for index, row in rows
        if row.argmax() != given[index] and row[given[index]] < DOUBTED
    )

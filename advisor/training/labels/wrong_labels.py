"""Labels that are likely wrong, by confident learning (Northcutt, Jiang, Chuang, JAIR 2021) as cleanlab does it.

Every image is judged by a classifier that has seen neither it nor a copy of it
(:func:`advisor.training.labels.out_of_sample.left_out`). How many labels are wrong is estimated from all those
judgements; the images least likely to have the label that they have are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DOUBTED = 0.05
"""Only labels less likely than this are named: small sets make unsure classifiers, and doubt is no evidence."""


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
    """Return the images whose labels are likely wrong, the surest first.

    Args:
        labels: N class indices; each of the classes has an image.
        probabilities: (N, C), of a classifier that has not seen the image.
    """
    import numpy as np
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

"""Run a ``.tflite`` file that marks the centres of objects, and score what it found by its centres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.core.quantity import Interval
from advisor.measurement.accuracy import Detections, Detector
from advisor.measurement.average_precision import RESAMPLES, Matched, counts
from advisor.tflite.postprocess import CENTRES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

LEAST_SCORE = 0.5
"""Score from which a centre counts: the training shifts the scores so that it has the best F1."""

KEPT = 0.05
"""Least score of a centre that is kept: the answers of a file serve other thresholds, too."""

NEAR = 2
"""Distance in places, down and across, within which only the centre with the highest score of a class counts."""


def centres(scores: Floats, least: float) -> Detections:
    """Return the centres in a map of scores: places with the highest score of their class among their neighbours.

    Of several neighbours with equal scores, as integers have, the first one stands for all.

    Args:
        scores: float32 (rows, columns, C).
        least: least score.

    Returns:
        Boxes without area at the centres, the highest score first.
    """
    import numpy as np

    (rows, columns, _), side = scores.shape, 2 * NEAR + 1
    around = np.pad(scores, ((NEAR, NEAR), (NEAR, NEAR), (0, 0)), constant_values=-1)
    highest = np.lib.stride_tricks.sliding_window_view(around, (side, side), (0, 1)).max(axis=(-2, -1))
    down, across, labels = np.nonzero((scores >= highest) & (scores >= least))
    order = np.argsort(-scores[down, across, labels], kind="stable")
    kept: list[int] = []
    for place in order:
        same = [one for one in kept if labels[one] == labels[place]]
        if not any(max(abs(down[one] - down[place]), abs(across[one] - across[place])) <= NEAR for one in same):
            kept.append(int(place))
    y, x = (down[kept] + 0.5) / rows, (across[kept] + 0.5) / columns
    boxes = np.stack([y, x, y, x], axis=1).astype(np.float32)
    return Detections(boxes, labels[kept].astype(np.int64), scores[down, across, labels][kept].astype(np.float32))


class CentreFinder(Detector):
    """A loaded network that marks centres: one output ``centres``, a map of scores (1, rows, columns, C).

    Arguments and errors are those of :class:`.detection.Detector`.
    """

    outputs = (CENTRES,)

    def read(self, found: Mapping[str, Floats]) -> Detections:
        """Return the centres in the outputs, as boxes without area."""
        return centres(found[CENTRES][0], KEPT)


@dataclass(frozen=True)
class CentreScore:
    """F1 of found centres.

    Attributes:
        mean: mean over the classes of F1 (0-1), with a 95 % interval by a bootstrap over the images.
        by_class: F1 of each class; None for a class without an object.
    """

    mean: Interval
    by_class: tuple[float | None, ...]


def match_centres(true: Sequence[Detections], found: Sequence[Detections], least: float = LEAST_SCORE) -> list[Matched]:
    """Match what was found to true objects by its centres.

    A centre is right if it is inside the box of an object of its class that no surer centre has taken; of several ones
    it takes the one whose own centre is nearest.

    Args:
        true: the true boxes of N images.
        found: what was found in them; boxes are judged by their centres.
        least: least score of a centre that counts.
    """
    import numpy as np

    matched = []
    for objects, marks in zip(true, (one.above(least) for one in found), strict=True):
        seen, right = np.zeros(len(objects.labels), bool), np.zeros(len(marks.labels), bool)
        middles, places = ((one.boxes[:, :2] + one.boxes[:, 2:]) / 2 for one in (objects, marks))
        for number, (place, label) in enumerate(zip(places, marks.labels, strict=True)):
            inside = ((objects.boxes[:, :2] <= place) & (place <= objects.boxes[:, 2:])).all(axis=1)
            free = np.flatnonzero(inside & ~seen & (objects.labels == label))
            if len(free):
                seen[free[np.square(middles[free] - place).sum(axis=1).argmin()]] = right[number] = True
        matched.append(Matched(objects, marks, seen, right))
    return matched


def centre_score(matched: Sequence[Matched], classes: int) -> CentreScore:
    """Return F1: of each class and on average.

    Args:
        matched: the matches in N images.
        classes: number of classes.

    Raises:
        ValueError: there is no true object.
    """
    import numpy as np

    table = counts(matched, classes)
    if not table[:, :, 0].any():
        raise ValueError("no image has a box")
    by_class = f1_of(table.sum(axis=0))
    mean = float(np.nanmean(by_class))
    drawn = np.random.default_rng(0).multinomial(len(table), np.full(len(table), 1 / len(table)), RESAMPLES)
    low, high = np.nanquantile(_mean(f1_of(np.tensordot(drawn, table, 1))), [0.025, 0.975])
    listed = tuple(None if np.isnan(value) else float(value) for value in by_class)
    return CentreScore(Interval(mean, min(mean, float(low)), max(mean, float(high))), listed)


def centre_shares(matched: Sequence[Matched], classes: int) -> Floats:
    """Return each image's share in the mean F1; :func:`.average_precision.shares` does so for the mAP."""
    import numpy as np

    table = counts(matched, classes)
    images, total = len(table), table.sum(axis=0)
    whole, left = float(_mean(f1_of(total))), _mean(f1_of(total - table))
    values = images * whole - (images - 1) * np.where(np.isnan(left), whole, left)
    found: Floats = (values - values.mean() + whole).astype(np.float32)
    return found


def f1_of(table: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return F1 (..., C) of counts (..., C, 3), see :func:`.box_counts.counts`; NaN for a class without an object."""
    import numpy as np

    true, found, right = (table[..., place] for place in range(3))
    shares: NDArray[np.float64] = np.where(true, 2 * right / np.maximum(true + found, 1), np.nan)
    return shares


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean over the classes that have objects, NaN without one."""
    import numpy as np

    listed = np.isfinite(values)
    number = listed.sum(axis=-1)
    mean: NDArray[np.float64] = np.where(listed, values, 0).sum(axis=-1) / np.where(number, number, np.nan)
    return mean

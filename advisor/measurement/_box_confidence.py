"""Calibration of the scores of found boxes, and thresholds with a guarantee for detectors.

A score is calibrated if, of the boxes with that score, that share is right. The logits of all
scores get one slope and one offset, which changes neither the order of the boxes nor which of them
overlap: J. Platt, "Probabilistic Outputs for Support Vector Machines" (1999). Boxes of one image
are alike, so they count as fewer independent ones: L. Kish, "Survey Sampling" (1965), section 5.4.

The task of detection makes :class:`BoxAnswers` of a file's answers; labels of taggers are treated
the same way (``_label_thresholds.py``). Calibrated scores of boxes, and thresholds of labels, are
in cached files: if they change, raise the versions that ``docs/extend-stages.md`` lists ("Which
version to raise").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from advisor.core import BoxGuarantee, Guarantees, Interval
from advisor.measurement._box_matches import Matched
from advisor.measurement._calibration import (
    RESAMPLES,
    Flags,
    Floats,
    Labels,
    compute_calibration_error,
    draw_folds,
    interval_of,
)
from advisor.measurement._guarantees import find_reached, find_threshold

# Kinds of a guarantee: of the found boxes, and of the true ones.
PRECISION = "precision"
RECALL = "recall"
# Scores outside count as these, so that logits are finite.
LEAST_SCORE = 1e-4
MOST_SCORE = 1 - 1e-4
SPREADS = (0.7, 2.0)
"""Standard deviations of the logarithm of the slope and of the offset before anything is seen;
they decide only where boxes are few.
"""

LEAST_GAIN = 3.0
"""Least gain of the log-likelihood,
half of the 95 % quantile of chi-squared with two degrees of freedom.
"""


class ScoreCalibration(NamedTuple):
    """A calibrated score is the logistic function of ``slope`` times the logit
    of the score plus ``offset``.
    """

    slope: float = 1.0
    offset: float = 0.0

    @property
    def changes_scores(self) -> bool:
        """False of the calibration that leaves each score as it is."""
        return self != ScoreCalibration()

    def of(self, scores: Floats) -> Floats:
        """Return calibrated scores."""
        return _logistic(self.slope * _logits(scores) + self.offset)

    def undone(self, scores: Floats) -> Floats:
        """Return the scores of calibrated ones."""
        return _logistic((_logits(scores) - self.offset) / self.slope)


@dataclass(frozen=True, eq=False)
class BoxAnswers:
    """The M boxes that a detector found in N images.

    ``scores`` (M,) are their scores, ``right`` (M,) says which are right, and ``images`` (M,)
    numbers the image of each from 0. ``true`` (N,) is the number of true boxes of each image.
    """

    scores: Floats
    right: Flags
    images: Labels
    true: Labels

    @classmethod
    def of_matches(cls, matched: Sequence[Matched]) -> BoxAnswers:
        """Return the found boxes of images that were matched without a threshold."""
        sizes = [len(image.right) for image in matched]
        return cls(
            np.concatenate([np.zeros(0), *(image.found.scores for image in matched)]),
            np.concatenate([np.zeros(0, bool), *(image.right for image in matched)]),
            np.repeat(np.arange(len(matched)), sizes),
            np.array([len(image.seen) for image in matched], int),
        )

    @property
    def apart(self) -> float:
        """Independent boxes in one found box: 1 over the design effect, 1 + (m - 1) r.

        m is the mean number of boxes beside which a box is found, itself included, and r their
        correlation within an image, of a one-way analysis of variance.
        """
        count = np.bincount(self.images, minlength=len(self.true)).astype(float)
        has_boxes = count > 0
        boxes = count.sum()
        groups = int(has_boxes.sum())
        # With one box an image, nothing shows how alike the boxes of one image are.
        if groups < 2 or boxes <= groups:
            return 1.0
        hits = np.bincount(self.images, self.right, len(self.true))[has_boxes]
        count = count[has_boxes]
        mean = hits.sum() / boxes
        between = float((count * (hits / count - mean) ** 2).sum() / (groups - 1))
        within = float((hits - hits**2 / count).sum() / (boxes - groups))
        usual = float(boxes - (count**2).sum() / boxes) / (groups - 1)
        spread = between + (usual - 1) * within
        # Boxes of an image cannot be more than independent: a negative correlation is chance.
        alike = 0.0
        if spread > 0:
            alike = max(0.0, (between - within) / spread)
        mean_neighbours = float((count**2).sum() / boxes) - 1
        return 1 / (1 + mean_neighbours * alike)

    @property
    def of_true(self) -> tuple[Floats, Labels]:
        """The score with which each true box was found, 0 for one that was not,
        and the number of its image.
        """
        hits = np.bincount(self.images[self.right], minlength=len(self.true))
        missed = np.repeat(np.arange(len(self.true)), self.true - hits)
        scores = np.append(self.scores[self.right], np.zeros(len(missed)))
        return scores, np.append(self.images[self.right], missed)

    def select_images(self, images: Labels) -> BoxAnswers:
        """Return the boxes of some images, each as often as it is named."""
        order = np.argsort(self.images, kind="stable")
        ends = np.cumsum(np.bincount(self.images, minlength=len(self.true)))
        starts = np.append(0, ends[:-1])
        boxes_of_images = [order[starts[image] : ends[image]] for image in images]
        boxes = np.concatenate([np.zeros(0, int), *boxes_of_images])
        numbers = np.repeat(np.arange(len(images)), list(map(len, boxes_of_images)))
        return BoxAnswers(self.scores[boxes], self.right[boxes], numbers, self.true[images])

    def fit_calibration(self) -> ScoreCalibration:
        """Return slope and offset with the best likelihood;
        those that change nothing if the gain may be chance.
        """
        from scipy.optimize import minimize

        if not len(self.scores):
            return ScoreCalibration()
        logits = _logits(self.scores)
        signs = np.where(self.right, 1.0, -1.0)
        apart = self.apart

        def loss(values: Floats) -> float:
            calibrated = math.exp(values[0]) * logits + values[1]
            likelihood = float(np.logaddexp(0, -signs * calibrated).sum())
            prior = float(np.square(values / SPREADS).sum()) / 2
            return apart * likelihood + prior

        # The bounds keep the slope within 0.14 and 7.4:
        # beyond, all scores would be the same or 0 and 1.
        fit = minimize(loss, np.zeros(2), method="L-BFGS-B", bounds=((-2, 2), (-6, 6)))
        gained = loss(np.zeros(2)) - float(fit.fun)
        if gained > LEAST_GAIN:
            return ScoreCalibration(math.exp(fit.x[0]), float(fit.x[1]))
        return ScoreCalibration()

    def crossfit_scores(self) -> Floats:
        """Return calibrated scores (M,), those of an image by the boxes of other images."""
        scores = np.array(self.scores, float)
        for fold_images, others in draw_folds(len(self.true)):
            calibration = self.select_images(others).fit_calibration()
            in_fold = np.isin(self.images, fold_images)
            scores[in_fold] = calibration.of(self.scores[in_fold])
        return scores

    def calibration_error(self, scores: Floats) -> Interval:
        """Return the expected calibration error of scores (M,) with a 95 % interval
        by a bootstrap over the images.
        """
        draw = np.random.default_rng(0)
        scored = BoxAnswers(scores, self.right, self.images, self.true)
        rows = []
        for _ in range(RESAMPLES):
            rows.append(scored.select_images(draw.integers(0, len(self.true), len(self.true))))
        drawn = []
        for row in rows:
            if len(row.scores):
                drawn.append(compute_calibration_error(row.scores, row.right))
        return interval_of(compute_calibration_error(scores, self.right), np.array(drawn))

    def guarantee_threshold(
        self, guarantees: Guarantees, batch: float
    ) -> tuple[float, BoxGuarantee | None]:
        """Return the threshold that keeps what was asked for, with a probability of 95 %,
        and the guarantee.

        For a precision it is the lowest score from which on the wanted share of boxes is right,
        for a recall the highest one from which on the wanted share of true boxes is found. Not
        kept: no score does; the score is 0. None: nothing was asked for. ``batch``: see
        :mod:`advisor.measurement._guarantees`.
        """
        precision = guarantees.precision.plain
        recall = guarantees.recall.plain
        if precision is not None:
            lowest = find_threshold(self.scores, self.right, precision, batch, self.apart)
            return (lowest.score if lowest else 0.0), BoxGuarantee(
                PRECISION, precision, lowest is not None
            )
        if recall is None:
            return 0.0, None
        scores, numbers = self.of_true
        # How alike the boxes are depends on the threshold, and the threshold on that:
        # one round is enough to know it.
        first, _ = find_reached(scores, recall, batch)
        apart = BoxAnswers(scores, (scores > 0) & (scores >= first), numbers, self.true).apart
        score, guaranteed = find_reached(scores, recall, batch, apart)
        return score, BoxGuarantee(RECALL, recall, score > 0 and guaranteed >= recall)

    def complete_guarantee(self, score: float, chosen: BoxGuarantee | None) -> BoxGuarantee | None:
        """Return a guarantee with what these images show of it from a score on."""
        if chosen is None:
            return None
        # Boxes below the threshold are not shown by an app, so they count neither way.
        taken = self.scores >= score
        hits = int(self.right[taken].sum())
        # Precision is a share of the boxes that count, recall one of the objects.
        total = int(taken.sum() if chosen.of == PRECISION else self.true.sum())
        return replace(chosen, seen=Interval.wilson(hits, total) if total else None)


def _logits(scores: Floats) -> Floats:
    inside = np.clip(np.asarray(scores, float), LEAST_SCORE, MOST_SCORE)
    return np.asarray(np.log(inside / (1 - inside)))


def _logistic(logits: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-logits)))

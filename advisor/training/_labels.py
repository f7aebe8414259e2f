"""Find labels that are likely wrong, by a classifier that has not seen the image.

The check of a user's data (`engine/_data_check.py`) calls :meth:`Suspect.find_all` with the
features of one card; reports show the result, and `labels.json` keeps it.

A kernel ridge regression that was trained neither on an image nor on a copy of it predicts its
class. A share of the labels is taken to be drawn at random, by the frequency of the classes, and
the others to follow these predictions. The share and the scale of the predictions are those that
make the labels most likely, so hard images with the right label are not taken for wrong ones: they
make the predictions less certain. An image is named by the probability that its label is wrong
(the model of random label noise: D. Angluin and P. Laird, "Learning from noisy examples", Machine
Learning 2, 1988; its posterior by Bayes' rule).

The prediction of a ridge regression without some rows follows from the fit to all rows (Cook and
Weisberg, "Residuals and Influence in Regression", 1982). So one fit is enough, and it uses more
images than cross-validation. The kernel is spanned by landmarks (Williams and Seeger, NIPS 2000):
all images of a small set, a random draw of a large one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

from advisor.training._head.space import find_space

Floats = NDArray[np.float64]
Rows = NDArray[np.float32]
Value = TypeVar("Value", bound=np.floating)

# Time grows with images times their square: 20,000 images take half a minute on one core.
LANDMARKS = 3_000
# Penalty, and factor on squared distance / variance; results change little with both.
RIDGE = 0.2
NARROWNESS = 0.5
# The least probability to be wrong with which a label is named. Labels that are mixed up by people
# are alike, and the random ones of the model are not, so the true share among those named is
# larger: over half with 5 % of them wrong.
WRONG = 0.15
# Share of wrong labels before the images are seen, and the images that it weighs like: ten public
# sets have 3.3 % on average (Northcutt, Athalye and Mueller, "Pervasive label errors in test sets
# destabilize machine learning benchmarks", NeurIPS 2021).
USUAL_SHARE = 0.033
USUAL_IMAGES = 100

# Scales of the scores, and the number of them that are tried before the best one is refined.
_SCALES = (0.1, 100.0)
_TRIED_SCALES = 12
# Bounds of the share of wrong labels.
_LEAST_WRONG = 1e-4
_MOST_WRONG = 0.5
_JITTER = 1e-3
# Rows in a chunk.
_ROWS = 2048


@dataclass(frozen=True)
class Suspect:
    """An image whose label is likely wrong."""

    index: int  # of the image
    suggested: int  # the label that fits best
    given: float  # probability (0-1) of the label that it has
    better: float  # probability of the suggested one

    @staticmethod
    def find_all(
        features: Rows,
        labels: Sequence[int],
        checked: Sequence[int],
        alike: Sequence[Sequence[int]],
        seed: int,
        landmarks: int = LANDMARKS,
    ) -> tuple[Suspect, ...]:
        """Return the ``checked`` images whose labels are likely wrong, the least likely label
        first.

        Only these images are learnt from. ``features`` (N, D) and ``labels`` are those of all
        images, and ``alike`` are groups of indices of images that show the same or belong
        together. The rest is that of :func:`predict_left_out`.
        """
        # The images that are not checked may leave gaps between the labels.
        names, renumbered = np.unique([labels[index] for index in checked], return_inverse=True)
        numbers = renumbered.tolist()
        position = {index: number for number, index in enumerate(checked)}
        together = []
        for group in alike:
            checked_group = [position[index] for index in group if index in position]
            if len(checked_group) > 1:
                together.append(checked_group)
        chosen = features
        if len(checked) != len(features):
            chosen = features[np.asarray(checked)]
        predicted = predict_left_out(chosen, numbers, together, seed, landmarks)
        suspects = []
        for suspect in doubt_labels(numbers, predicted):
            index = checked[suspect.index]
            suspects.append(replace(suspect, index=index, suggested=int(names[suspect.suggested])))
        return tuple(suspects)


@dataclass(frozen=True, eq=False)
class LabelPredictions:
    """The class probabilities of images by classifiers that were not trained on them.

    Attributes:
        probabilities: float32 (N, C).
        wrong: share (0-1) of the labels that seems to be drawn at random.
    """

    probabilities: Rows
    wrong: float


def doubt_labels(labels: Sequence[int], predicted: LabelPredictions) -> tuple[Suspect, ...]:
    """Return the images whose labels are likely wrong, the least likely label first.

    Each class has an image.
    """
    targets = np.asarray(labels)
    probabilities = predicted.probabilities
    likely = _pick_labels(probabilities, targets).astype(np.float64)
    drawn = predicted.wrong * _share_by_class(targets)[targets]
    meant = (1 - predicted.wrong) * likely
    # A label that was drawn at random may still be the right one.
    wrong = drawn * (1 - likely) / (meant + drawn + np.finfo(float).tiny)
    best = probabilities.argmax(axis=1)
    named = (wrong > WRONG) & (best != targets)
    suspects = []
    for index in np.argsort(-wrong, kind="stable"):
        if named[index]:
            better = float(probabilities[index, best[index]])
            suspects.append(Suspect(int(index), int(best[index]), float(likely[index]), better))
    return tuple(suspects)


def predict_left_out(
    features: Rows,
    labels: Sequence[int],
    together: Sequence[Sequence[int]],
    seed: int,
    landmarks: int = LANDMARKS,
) -> LabelPredictions:
    """Return the class probabilities of each image, trained without it and its group.

    ``together`` are groups of indices that are left out together, such as copies of an image; an
    index is in one group at most. The seed draws the landmarks of a large set.
    """
    from scipy.special import softmax

    targets = np.asarray(labels)
    wanted = np.eye(int(targets.max()) + 1)[targets] - 1 / (targets.max() + 1)
    with threadpool_limits(limits=1):
        rows = find_space(features).enter(features)
        rows *= np.sqrt(NARROWNESS / max(float(rows.var(axis=0).sum()), 1e-9))
        regression = _fit_regression(rows, wanted, seed, landmarks)
        # Most images are in no group, and all of them together cost one product of matrices.
        scores = regression.leave_each_out()
        for group in map(list, together):
            scores[group] = regression.leave_out(group)
    scale, wrong = _fit_noise(scores, targets)
    return LabelPredictions(np.asarray(softmax(scale * scores, axis=1), np.float32), wrong)


@dataclass(frozen=True, eq=False)
class _Regression:
    """A ridge regression on a row's kernels with the landmarks.

    Its weights are ``inverse(normal) @ moments``.
    """

    rows: Rows  # float32 (N, D)
    wanted: Floats  # (N, C)
    places: NDArray[np.int64]  # of the landmarks among the rows
    normal: Floats  # (M, M)
    moments: Floats  # (M, C)
    inverse: Floats  # of ``normal``

    def leave_each_out(self) -> Floats:
        """Return the prediction for each row, trained without that row."""
        answers = np.empty_like(self.wanted)
        for part, kernel in _compute_kernels(self.rows, self.places):
            weighted = kernel @ self.inverse
            influence = np.einsum("nm,nm->n", weighted, kernel)
            missed = self.wanted[part] - weighted @ self.moments
            answers[part] = self.wanted[part] - missed / (1 - influence)[:, None]
        return answers

    def leave_out(self, group: list[int]) -> Floats:
        """Return the predictions for a group of rows, trained without the group."""
        wanted = self.wanted[group]
        if len(group) > len(self.places):
            return self._fit_without(group)
        kernel = _compute_kernel(self.rows, self.places, group)
        weighted = kernel @ self.inverse
        missed = wanted - weighted @ self.moments
        influence = weighted @ kernel.T
        return np.asarray(wanted - np.linalg.solve(np.eye(len(group)) - influence, missed))

    def _fit_without(self, group: list[int]) -> Floats:
        """Fit the rows outside a group again, which is cheaper for more rows than landmarks."""
        normal = self.normal.copy()
        moments = self.moments.copy()
        for part, kernel in _compute_kernels(self.rows, self.places, group):
            normal -= kernel.T @ kernel
            moments -= kernel.T @ self.wanted[part]
        weights = np.linalg.solve(normal, moments)
        kernels = _compute_kernels(self.rows, self.places, group)
        return np.concatenate([kernel @ weights for _part, kernel in kernels])


def _fit_regression(rows: Rows, wanted: Floats, seed: int, landmarks: int) -> _Regression:
    from scipy.linalg import inv

    places = np.sort(np.random.default_rng(seed).permutation(len(rows))[:landmarks])
    normal = RIDGE * (_compute_kernel(rows, places, places) + _JITTER * np.eye(len(places)))
    moments = np.zeros((len(places), wanted.shape[1]))
    for part, kernel in _compute_kernels(rows, places):
        normal += kernel.T @ kernel
        moments += kernel.T @ wanted[part]
    return _Regression(rows, wanted, places, normal, moments, inv(normal))


def _compute_kernels(
    rows: Rows, places: NDArray[np.int64], chosen: Sequence[int] | None = None
) -> Iterator[tuple[NDArray[np.int64], Floats]]:
    """Yield chunks of row indices, of all rows or of those chosen, with their kernels."""
    indices = np.arange(len(rows)) if chosen is None else np.asarray(chosen)
    for start in range(0, len(indices), _ROWS):
        part = indices[start : start + _ROWS]
        yield part, _compute_kernel(rows, places, part)


def _compute_kernel(
    rows: Rows, places: NDArray[np.int64], part: Sequence[int] | NDArray[np.int64]
) -> Floats:
    """Return exp(-squared distance) of a part of the rows to the landmarks.

    ``|a - b|^2`` is computed as ``a^2 - 2 ab + b^2``.
    """
    inside = rows[part].astype(np.float64)
    landmarks = rows[places].astype(np.float64)
    # In place: a kernel of 2,048 rows and 3,000 landmarks takes 50 MB.
    kernel = inside @ landmarks.T
    kernel *= 2
    kernel -= np.einsum("nd,nd->n", inside, inside)[:, None]
    kernel -= np.einsum("nd,nd->n", landmarks, landmarks)
    # Rounding may give a squared distance slightly below 0.
    np.minimum(kernel, 0, out=kernel)
    return np.asarray(np.exp(kernel, out=kernel))


def _pick_labels(values: NDArray[Value], labels: NDArray[np.int64]) -> NDArray[Value]:
    """Return the value (N,) that each row has for its label, of values (N, C)."""
    return values[np.arange(len(labels)), labels]


def _share_by_class(labels: NDArray[np.int64]) -> Floats:
    """Return the share (0-1) of the images that each class has."""
    return np.asarray(np.bincount(labels) / len(labels), np.float64)


def _fit_noise(scores: Floats, labels: NDArray[np.int64]) -> tuple[float, float]:
    """Return the factor on the scores and the share of random labels that fit the labels best.

    The factor alone is the temperature of Guo et al. (ICML 2017), which wrong labels
    make too small.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import logsumexp

    label_scores = _pick_labels(scores, labels)
    random = _share_by_class(labels)[labels]

    def fit_share(scale: float) -> tuple[float, float]:
        """Return the least surprise by a factor, and the share of random labels that gives it."""
        totals = logsumexp(scale * scores, axis=1)
        likely = np.exp(scale * label_scores - totals)

        def surprise(share: float) -> float:
            of_wrong = USUAL_SHARE * math.log(share)
            of_right = (1 - USUAL_SHARE) * math.log(1 - share)
            of_labels = np.log((1 - share) * likely + share * random).sum()
            return -float(of_labels) - USUAL_IMAGES * (of_wrong + of_right)

        best = minimize_scalar(surprise, bounds=(_LEAST_WRONG, _MOST_WRONG), method="bounded")
        return float(best.fun), float(best.x)

    def surprise_of(scale: float) -> float:
        return fit_share(scale)[0]

    # A small factor with few random labels may fit as well as a large one with many:
    # the best of several is refined.
    least, most = _SCALES
    tried = np.geomspace(least, most, _TRIED_SCALES)
    nearest = int(np.argmin(list(map(surprise_of, tried))))
    lower = tried[max(0, nearest - 1)]
    upper = tried[min(len(tried) - 1, nearest + 1)]
    best = minimize_scalar(surprise_of, bounds=(lower, upper), method="bounded")
    scale = float(best.x)
    return scale, fit_share(scale)[1]

"""Find labels that are likely wrong by confident learning (Northcutt, Jiang, Chuang, JAIR 2021) with cleanlab.

A kernel ridge regression that was trained neither on an image nor on a copy of it predicts its class. Cleanlab
estimates the number of wrong labels from these predictions and names the images whose label is least likely.

The prediction of a ridge regression without some rows follows from the fit to all rows (Cook and Weisberg, "Residuals
and Influence in Regression", 1982). So one fit is enough, and it uses more images than cross-validation. The kernel is
spanned by landmarks (Williams and Seeger, NIPS 2000): all images of a small set, a random draw of a large one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

from advisor.training._head.space import find_space

Floats = NDArray[np.float64]
Rows = NDArray[np.float32]

# Time grows with images times their square: 20,000 images take half a minute on one core.
LANDMARKS = 3_000
# Penalty, and factor on squared distance / variance; results change little with both.
RIDGE = 0.2
NARROWNESS = 0.5
# Factor on the most likely scale of the scores: wrong labels make that scale too small.
SHARPER = 1.5
# Only labels with a lower probability are named, as classifiers of small sets are often unsure.
DOUBTED = 0.05

_SCALES = (0.1, 100.0)
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


def find_suspects(
    features: Rows,
    labels: Sequence[int],
    checked: Sequence[int],
    alike: Sequence[Sequence[int]],
    seed: int,
    landmarks: int = LANDMARKS,
) -> tuple[Suspect, ...]:
    """Return those of the ``checked`` images whose labels are likely wrong, the least likely label first.

    Only these images are learnt from. ``features`` (N, D) and ``labels`` are those of all images, and ``alike`` are
    groups of indices of images that show the same or belong together. The rest is that of :func:`predict_left_out`.
    """
    # cleanlab expects labels from 0 without gaps, and the images that are not checked may leave some.
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
    probabilities = predict_left_out(chosen, numbers, together, seed, landmarks)
    suspects = []
    for suspect in doubt_labels(numbers, probabilities):
        index = checked[suspect.index]
        suspects.append(replace(suspect, index=index, suggested=int(names[suspect.suggested])))
    return tuple(suspects)


def doubt_labels(labels: Sequence[int], probabilities: Rows) -> tuple[Suspect, ...]:
    """Return the images whose labels are likely wrong, the least likely label first.

    ``probabilities`` (N, C) are of a classifier that was not trained on the image. Each class has an image.
    """
    from cleanlab.filter import find_label_issues

    given = np.asarray(labels)
    issues = find_label_issues(
        given, probabilities, filter_by="low_self_confidence", return_indices_ranked_by="self_confidence", n_jobs=1
    )
    suspects = []
    for index in map(int, issues):
        row = probabilities[index]
        label = given[index]
        if row.argmax() != label and row[label] < DOUBTED:
            suspects.append(Suspect(index, int(row.argmax()), float(row[label]), float(row.max())))
    return tuple(suspects)


def predict_left_out(
    features: Rows, labels: Sequence[int], together: Sequence[Sequence[int]], seed: int, landmarks: int = LANDMARKS
) -> Rows:
    """Return the class probabilities of each image, trained without it and its group: float32 (N, C).

    ``together`` are groups of indices that are left out together, such as copies of an image; an index is in one group
    at most. The seed draws the landmarks of a large set.
    """
    from scipy.special import softmax

    targets = np.asarray(labels)
    wanted = np.eye(int(targets.max()) + 1)[targets] - 1 / (targets.max() + 1)
    with threadpool_limits(limits=1):
        rows = find_space(features).enter(features)
        rows *= np.sqrt(NARROWNESS / max(float(rows.var(axis=0).sum()), 1e-9))
        regression = _fit(rows, wanted, seed, landmarks)
        # Most images are in no group, and all of them together cost one product of matrices.
        scores = regression.without_each()
        for group in map(list, together):
            scores[group] = regression.without(group)
    return np.asarray(softmax(SHARPER * _scale(scores, targets) * scores, axis=1), np.float32)


@dataclass(frozen=True, eq=False)
class _Regression:
    """A ridge regression: weights ``inverse(normal) @ moments`` of a row's kernels with the landmarks."""

    rows: Rows  # float32 (N, D)
    wanted: Floats  # (N, C)
    places: NDArray[np.int64]  # of the landmarks among the rows
    normal: Floats  # (M, M)
    moments: Floats  # (M, C)
    inverse: Floats  # of ``normal``

    def without_each(self) -> Floats:
        """Return the prediction for each row, trained without that row."""
        answers = np.empty_like(self.wanted)
        for part, kernel in _compute_kernels(self.rows, self.places):
            weighted = kernel @ self.inverse
            influence = np.einsum("nm,nm->n", weighted, kernel)
            missed = self.wanted[part] - weighted @ self.moments
            answers[part] = self.wanted[part] - missed / (1 - influence)[:, None]
        return answers

    def without(self, group: list[int]) -> Floats:
        """Return the predictions for a group of rows, trained without the group."""
        wanted = self.wanted[group]
        if len(group) > len(self.places):
            return self._fit_without(group)
        kernel = _compute_kernel(self.rows, self.places, group)
        weighted = kernel @ self.inverse
        missed = wanted - weighted @ self.moments
        return np.asarray(wanted - np.linalg.solve(np.eye(len(group)) - weighted @ kernel.T, missed))

    def _fit_without(self, group: list[int]) -> Floats:
        """Fit the rows outside the group again, which is cheaper for groups larger than the number of landmarks."""
        normal = self.normal.copy()
        moments = self.moments.copy()
        for part, kernel in _compute_kernels(self.rows, self.places, group):
            normal -= kernel.T @ kernel
            moments -= kernel.T @ self.wanted[part]
        weights = np.linalg.solve(normal, moments)
        return np.concatenate([kernel @ weights for _part, kernel in _compute_kernels(self.rows, self.places, group)])


def _fit(rows: Rows, wanted: Floats, seed: int, landmarks: int) -> _Regression:
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


def _compute_kernel(rows: Rows, places: NDArray[np.int64], part: Sequence[int] | NDArray[np.int64]) -> Floats:
    """Return exp(-squared distance) of a part of the rows to the landmarks, by ``|a - b|^2 = a^2 - 2 ab + b^2``."""
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


def _scale(scores: Floats, labels: NDArray[np.int64]) -> float:
    """Return the factor on the scores that makes the labels most likely (Guo et al., ICML 2017)."""
    from scipy.optimize import minimize_scalar
    from scipy.special import logsumexp

    label_scores = scores[np.arange(len(labels)), labels]

    def surprise(scale: float) -> float:
        return float(np.mean(logsumexp(scale * scores, axis=1) - scale * label_scores))

    return float(minimize_scalar(surprise, bounds=_SCALES, method="bounded").x)

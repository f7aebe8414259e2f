"""Calibrate a classifier's probabilities, and measure how well they agree with its answers.

A probability is calibrated if, of the answers with that probability, that share is right. Dividing
the logits by one number, the temperature, calibrates a network without changing its answers: C.
Guo et al., "On Calibration of Modern Neural Networks" (2017). ``sure`` (N,) is the score of each
answer, and ``right`` (N,) says whether it is right.

A stage of the search fits the temperature of a classifier (:func:`fit_temperature`) and folds it
into the head; ``_class_thresholds.py`` fits it again to judge a file. If equal scores give another
temperature, raise ``TEMPERATURE_VERSION`` of ``engine/_pipeline/stages/artefacts.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import Bin, Interval

Floats = NDArray[np.floating[Any]]

Labels = NDArray[np.integer[Any]]

Flags = NDArray[np.bool_]

BINS = 15
"""Bins of equal numbers of images: Guo et al. use 15."""

RESAMPLES = 400

FOLDS = 5

FLOOR = 1 / 512
"""Least probability that is told from zero: half a step of an int8 output, whose scale is
1/256.
"""

SPREAD = 1.0
"""Standard deviation of the logarithm of the temperature before anything is seen. It decides only
where images are few or all answers are right: there the likelihood alone would ask for a
temperature of zero.
"""

COOLEST = 0.2

HOTTEST = 5.0

LEAST_GAIN = 1.92
"""Least gain of the log-likelihood:
half of the 95 % quantile of chi-squared with one degree of freedom.
"""

ALIKE = 0.95
"""Least share of validation images with the same answer as the float file for its out-of-fold
answers to count for a compressed one. The int8 files of the study in decision 0076 had 0.965 to
0.985.
"""


@dataclass(frozen=True)
class Reliability:
    """Agreement of probabilities with answers.

    The expected calibration error (0-1) is the mean over images of the distance between the mean
    probability of the answers in a bin and the share of right ones, in :data:`BINS` bins of equal
    numbers of images, the least confident first. The Brier score (0-2) is the mean squared
    distance to the true class, 0 is best.
    """

    error: Interval
    brier: Interval
    bins: tuple[Bin, ...]


@dataclass(frozen=True)
class OutOfFold:
    """The answers of a float head to the images that it learnt, each by a head of other folds.

    Attributes:
        answers: their ``.npy``, float32 (N, C); a row of zeros where there is none.
        labels: the class of each image, (N,).
        floats: the ``.npy`` of what the head's own file answers to the validation part, float32
            (M, C).
        groups: the name of the group of each image, (N,); empty without groups.
    """

    answers: Path
    labels: Sequence[int]
    floats: Path
    groups: Sequence[str] = ()

    def beside(
        self, probabilities: Floats, labels: Labels, groups: Sequence[str] = ()
    ) -> tuple[Floats, Labels, Sequence[str]]:
        """Return these answers and those of a file to the validation part, (M, C),
        with their labels and groups.

        A file that answers otherwise than the head's own has those to the validation part alone.
        """
        answers = np.load(self.answers, allow_pickle=False)
        float_answers = np.load(self.floats, allow_pickle=False)
        same = float_answers.argmax(axis=1) == probabilities.argmax(axis=1)
        has_answer = answers.any(axis=1)
        # A file that answers otherwise has other logits,
        # so the float head's answers say nothing of its temperature.
        if same.mean() < ALIKE or not has_answer.any():
            return probabilities, labels, groups
        answered_labels = np.append(np.asarray(self.labels)[has_answer], labels)
        answered_groups = list(groups)
        if groups:
            answered_groups = [*np.asarray(self.groups)[has_answer].tolist(), *groups]
        return np.vstack([answers[has_answer], probabilities]), answered_labels, answered_groups


def fit_temperature(probabilities: Floats, labels: Labels) -> float:
    """Return the temperature with the best likelihood of the labels, between 0.2 and 5;
    1 if the gain may be chance.

    It may be chance if a likelihood-ratio test does not reject a temperature of 1 at 5 % (S.
    Wilks, "The large-sample distribution of the likelihood ratio", 1938). Probabilities (N, C)
    below :data:`FLOOR` count as that.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    logits = np.log(np.maximum(probabilities, FLOOR)).astype(float)

    def loss(log_temperature: float) -> float:
        rows = log_softmax(logits / math.exp(log_temperature), axis=1)
        likelihood = rows[np.arange(len(labels)), labels]
        prior = (log_temperature / SPREAD) ** 2 / 2
        return float(-likelihood.sum()) + prior

    fit = minimize_scalar(loss, bounds=(math.log(COOLEST), math.log(HOTTEST)), method="bounded")
    gain = loss(0.0) - loss(float(fit.x))
    if gain > LEAST_GAIN:
        return math.exp(float(fit.x))
    return 1.0


def apply_temperature(probabilities: Floats, degrees: float) -> Floats:
    """Return probabilities (N, C) as if the logits had been divided
    by the temperature ``degrees``.
    """
    from scipy.special import softmax

    # Softmax of the logarithm gives the same probabilities but for rounding;
    # a file without a temperature stays exact.
    if degrees == 1:
        return probabilities
    return np.asarray(softmax(np.log(np.maximum(probabilities, FLOOR**2)) / degrees, axis=1))


def draw_folds(images: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the places of the images of each fold, in a random order,
    and those of all other images.

    A single image has no fold: it leaves no other one to fit to.
    """
    if images < 2:
        return
    # With one seed, every file has the same images in a fold,
    # so that their figures can be compared.
    order = np.random.default_rng(0).permutation(images)
    for fold in range(min(FOLDS, images)):
        fold_images = order[fold::FOLDS]
        yield fold_images, np.setdiff1d(order, fold_images)


def crossfit_probabilities(probabilities: Floats, labels: Labels) -> Floats:
    """Return calibrated probabilities (N, C),
    each row by a temperature that was fitted to other images.

    The first fold takes every fifth image of a random order, and so on. Figures of calibration
    from these rows do not flatter the temperature that is fitted to all of them.
    """
    calibrated = np.array(probabilities, float)
    for fold_images, others in draw_folds(len(labels)):
        temperature = fit_temperature(probabilities[others], labels[others])
        calibrated[fold_images] = apply_temperature(probabilities[fold_images], temperature)
    return calibrated


def assess_reliability(probabilities: Floats, labels: Labels) -> Reliability:
    """Return how well probabilities (N, C) agree with the true labels (N,),
    with 95 % intervals over the images.
    """
    if not len(labels):
        raise ValueError("reliability: no image")
    sure = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    squares = np.square(probabilities - np.eye(probabilities.shape[1])[labels]).sum(axis=1)
    draws = np.random.default_rng(0).integers(0, len(labels), (RESAMPLES, len(labels)))
    means, shares, sizes = _bin_answers(sure[None], right[None])
    error = _compute_errors(means, shares, sizes)[0]
    drawn_errors = _compute_errors(*_bin_answers(sure[draws], right[draws]))
    return Reliability(
        error=interval_of(error, drawn_errors),
        brier=interval_of(squares.mean(), squares[draws].mean(axis=1)),
        bins=tuple(map(Bin, means[0].tolist(), shares[0].tolist(), sizes.tolist())),
    )


def compute_calibration_error(sure: Floats, right: Flags) -> float:
    """Return the expected calibration error, see :class:`Reliability`; 0 without an answer."""
    if len(sure):
        return float(_compute_errors(*_bin_answers(sure[None], right[None]))[0])
    return 0.0


def _compute_errors(means: Floats, shares: Floats, sizes: Labels) -> Floats:
    return np.asarray((np.abs(means - shares) * sizes).sum(axis=1) / sizes.sum())


def _bin_answers(sure: Floats, right: Flags) -> tuple[Floats, Floats, Labels]:
    """Return mean probability and share of right answers (R, B) of the bins of each row (R, N),
    and their sizes.
    """
    count = sure.shape[1]
    order = np.argsort(sure, axis=1, kind="stable")
    bins = min(BINS, count)
    starts = np.arange(bins) * count // bins
    sizes = np.diff(np.append(starts, count))
    sorted_sure = np.take_along_axis(sure, order, axis=1).astype(float)
    sorted_right = np.take_along_axis(right, order, axis=1).astype(float)
    means = np.add.reduceat(sorted_sure, starts, axis=1) / sizes
    shares = np.add.reduceat(sorted_right, starts, axis=1) / sizes
    return means, shares, sizes


def interval_of(value: float, drawn: Floats) -> Interval:
    """Return a figure with the spread of its resamples, whose mean is shifted to it:
    chance alone adds to an error.
    """
    low, high = np.quantile(drawn - drawn.mean() + value, [0.025, 0.975])
    return Interval(
        float(value), max(0.0, min(float(value), float(low))), max(float(value), float(high))
    )

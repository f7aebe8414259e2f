"""Calibration of a classifier's probabilities.

A probability is calibrated if, of the answers with that probability, that share is right. Dividing the logits by one
number, the temperature, calibrates a network without changing its answers: C. Guo et al., "On Calibration of Modern
Neural Networks" (2017).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.core.confidence_facts import Bin
from advisor.core.quantity import Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]
    Labels = NDArray[np.integer[Any]]
    Flags = NDArray[np.bool_]

BINS = 15
"""Bins of equal numbers of images: Guo et al. use 15."""

RESAMPLES = 400
FOLDS = 5

FLOOR = 1 / 512
"""Least probability that is told from zero: half a step of an int8 output, whose scale is 1/256."""

SPREAD = 1.0
"""Standard deviation of the logarithm of the temperature before anything is seen. It decides only where images are few
or all answers are right: there the likelihood alone would ask for a temperature of zero."""

COOLEST, HOTTEST = 0.2, 5.0

LEAST_GAIN = 1.92
"""Least gain of the log-likelihood: half of the 95 % quantile of chi-squared with one degree of freedom."""


@dataclass(frozen=True)
class Reliability:
    """Agreement of probabilities with answers.

    Attributes:
        error: expected calibration error (0-1): the mean over images of the distance between the mean probability of
            the answers in a bin and the share of right ones; in :data:`BINS` bins of equal numbers of images.
        brier: Brier score (0-2): the mean squared distance to the true class, 0 is best.
        bins: for a reliability diagram, the least confident first.
    """

    error: Interval
    brier: Interval
    bins: tuple[Bin, ...]


def temperature(probabilities: Floats, labels: Labels) -> float:
    """Return the temperature with the best likelihood of the labels, between 0.2 and 5; 1 if the gain may be chance.

    It may be chance if a likelihood-ratio test does not reject a temperature of 1 at 5 % (S. Wilks, "The large-sample
    distribution of the likelihood ratio", 1938).

    Args:
        probabilities: (N, C), by row; below :data:`FLOOR` they count as that.
        labels: (N,) true classes.
    """
    import numpy as np
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    logits = np.log(np.maximum(probabilities, FLOOR)).astype(float)

    def loss(log_temperature: float) -> float:
        rows = log_softmax(logits / math.exp(log_temperature), axis=1)
        return float(-rows[np.arange(len(labels)), labels].sum()) + (log_temperature / SPREAD) ** 2 / 2

    found = minimize_scalar(loss, bounds=(math.log(COOLEST), math.log(HOTTEST)), method="bounded")
    return math.exp(float(found.x)) if loss(0.0) - loss(float(found.x)) > LEAST_GAIN else 1.0


def tempered(probabilities: Floats, degrees: float) -> Floats:
    """Return probabilities (N, C) as if the logits had been divided by the temperature ``degrees``."""
    import numpy as np
    from scipy.special import softmax

    if degrees == 1:
        return probabilities
    rows: Floats = softmax(np.log(np.maximum(probabilities, FLOOR**2)) / degrees, axis=1)
    return rows


def crossfitted(probabilities: Floats, labels: Labels, seed: int = 0) -> Floats:
    """Return calibrated probabilities (N, C), each row by a temperature that was fitted to other images.

    The first fold takes every fifth image of a random order, and so on. Figures of calibration from these rows do not
    flatter the temperature that is fitted to all of them.
    """
    import numpy as np

    order, found = np.random.default_rng(seed).permutation(len(labels)), np.array(probabilities, float)
    for fold in range(min(FOLDS, len(labels)) if len(labels) > 1 else 0):
        out = order[fold::FOLDS]
        kept = np.setdiff1d(order, out)
        found[out] = tempered(probabilities[out], temperature(probabilities[kept], labels[kept]))
    return found


def reliability(probabilities: Floats, labels: Labels) -> Reliability:
    """Return how well probabilities (N, C) agree with the true labels (N,), with 95 % intervals over the images.

    Raises:
        ValueError: there is no image.
    """
    import numpy as np

    if not len(labels):
        raise ValueError("reliability: no image")
    sure, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    squares = np.square(probabilities - np.eye(probabilities.shape[1])[labels]).sum(axis=1)
    draws = np.random.default_rng(0).integers(0, len(labels), (RESAMPLES, len(labels)))
    means, shares, sizes = _binned(sure[None], right[None])
    drawn = _binned(sure[draws], right[draws])
    return Reliability(
        _interval(_error(means, shares, sizes)[0], _error(*drawn)),
        _interval(squares.mean(), squares[draws].mean(axis=1)),
        tuple(map(Bin, means[0].tolist(), shares[0].tolist(), sizes.tolist())),
    )


def _binned(sure: Floats, right: Flags) -> tuple[Floats, Floats, Labels]:
    """Return mean probability and share of right answers (R, B) of the bins of each row (R, N), and their sizes."""
    import numpy as np

    count = sure.shape[1]
    order, bins = np.argsort(sure, axis=1, kind="stable"), min(BINS, count)
    starts = np.arange(bins) * count // bins
    sizes = np.diff(np.append(starts, count))
    means, shares = (
        np.add.reduceat(np.take_along_axis(each, order, axis=1).astype(float), starts, axis=1) / sizes
        for each in (sure, right)
    )
    return means, shares, sizes


def _error(means: Floats, shares: Floats, sizes: Labels) -> Floats:
    import numpy as np

    error: Floats = (np.abs(means - shares) * sizes).sum(axis=1) / sizes.sum()
    return error


def _interval(value: float, drawn: Floats) -> Interval:
    """Return a figure with the spread of its resamples, whose mean is shifted to it: chance alone adds to an error."""
    import numpy as np

    low, high = np.quantile(drawn - drawn.mean() + value, [0.025, 0.975])
    return Interval(float(value), max(0.0, min(float(value), float(low))), max(float(value), float(high)))

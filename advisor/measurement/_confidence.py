"""Calibration of a classifier's probabilities, and thresholds whose guarantee holds with a given probability.

A probability is calibrated if, of the answers with that probability, that share is right. Dividing the logits by one
number, the temperature, calibrates a network without changing its answers: C. Guo et al., "On Calibration of Modern
Neural Networks" (2017).

A guarantee is about as many new images as ``batch`` says: their number over the number N of images seen. The share
among them varies by chance, too, so it is a beta-binomial variable. A ``batch`` of 0 stands for any number of new
images: then the guarantee is about the probability itself, and the bound is Clopper and Pearson's. ``LEVEL`` is the
probability with which a guarantee holds, and ``wanted`` the share (0-1) that is to be guaranteed. ``sure`` (N,) is the
score of each answer, and ``right`` (N,) says whether it is right.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import Bin, CoverageThreshold, Interval, Point, Reachable, RecallThreshold, Threshold

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

COOLEST = 0.2
HOTTEST = 5.0

LEAST_GAIN = 1.92
"""Least gain of the log-likelihood: half of the 95 % quantile of chi-squared with one degree of freedom."""

ALIKE = 0.95
"""Least share of validation images with the same answer as the float file for its out-of-fold answers to count for a
compressed one. The int8 files of the study in decision 0076 had 0.965 to 0.985."""

LEVEL = 0.95

# Sequences of find_threshold, at most.
MOST_SEQUENCES = 4
# Numbers of answers that find_threshold tries, at most; of more, some evenly placed ones.
MOST_ENDS = 2000
# Answers that are all right within which LEVEL is reached for each share below 99.6 %.
MOST_STARTS = 5000
# Probabilities of numbers of failures that are in memory at once, at most.
AT_ONCE = 1_000_000
# Points of a risk-coverage curve, at most.
POINTS = 40


@dataclass(frozen=True)
class Reliability:
    """Agreement of probabilities with answers.

    The expected calibration error (0-1) is the mean over images of the distance between the mean probability of the
    answers in a bin and the share of right ones, in :data:`BINS` bins of equal numbers of images, the least confident
    first. The Brier score (0-2) is the mean squared distance to the true class, 0 is best.
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
        floats: the ``.npy`` of what the head's own file answers to the validation part, float32 (M, C).
    """

    answers: Path
    labels: Sequence[int]
    floats: Path

    def beside(self, probabilities: Floats, labels: Labels) -> tuple[Floats, Labels]:
        """Return these answers and those of a file to the validation part, (M, C), with their labels.

        A file that answers otherwise than the head's own has those to the validation part alone.
        """
        answers = np.load(self.answers, allow_pickle=False)
        float_answers = np.load(self.floats, allow_pickle=False)
        same = float_answers.argmax(axis=1) == probabilities.argmax(axis=1)
        has_answer = answers.any(axis=1)
        # A file that answers otherwise has other logits, so the float head's answers say nothing of its temperature.
        if same.mean() < ALIKE or not has_answer.any():
            return probabilities, labels
        answered_labels = np.asarray(self.labels)[has_answer]
        return np.vstack([answers[has_answer], probabilities]), np.append(answered_labels, labels)


def fit_temperature(probabilities: Floats, labels: Labels) -> float:
    """Return the temperature with the best likelihood of the labels, between 0.2 and 5; 1 if the gain may be chance.

    It may be chance if a likelihood-ratio test does not reject a temperature of 1 at 5 % (S. Wilks, "The large-sample
    distribution of the likelihood ratio", 1938). Probabilities (N, C) below :data:`FLOOR` count as that.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    logits = np.log(np.maximum(probabilities, FLOOR)).astype(float)

    def loss(log_temperature: float) -> float:
        rows = log_softmax(logits / math.exp(log_temperature), axis=1)
        return float(-rows[np.arange(len(labels)), labels].sum()) + (log_temperature / SPREAD) ** 2 / 2

    fit = minimize_scalar(loss, bounds=(math.log(COOLEST), math.log(HOTTEST)), method="bounded")
    gain = loss(0.0) - loss(float(fit.x))
    if gain > LEAST_GAIN:
        return math.exp(float(fit.x))
    return 1.0


def apply_temperature(probabilities: Floats, degrees: float) -> Floats:
    """Return probabilities (N, C) as if the logits had been divided by the temperature ``degrees``."""
    from scipy.special import softmax

    # Softmax of the logarithm gives the same probabilities but for rounding; a file without a temperature stays exact.
    if degrees == 1:
        return probabilities
    return np.asarray(softmax(np.log(np.maximum(probabilities, FLOOR**2)) / degrees, axis=1))


def draw_folds(images: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the places of the images of each fold, in a random order, and those of all other images.

    A single image has no fold: it leaves no other one to fit to.
    """
    if images < 2:
        return
    # With one seed, every file has the same images in a fold, so that their figures can be compared.
    order = np.random.default_rng(0).permutation(images)
    for fold in range(min(FOLDS, images)):
        fold_images = order[fold::FOLDS]
        yield fold_images, np.setdiff1d(order, fold_images)


def crossfit_probabilities(probabilities: Floats, labels: Labels) -> Floats:
    """Return calibrated probabilities (N, C), each row by a temperature that was fitted to other images.

    The first fold takes every fifth image of a random order, and so on. Figures of calibration from these rows do not
    flatter the temperature that is fitted to all of them.
    """
    calibrated = np.array(probabilities, float)
    for fold_images, others in draw_folds(len(labels)):
        temperature = fit_temperature(probabilities[others], labels[others])
        calibrated[fold_images] = apply_temperature(probabilities[fold_images], temperature)
    return calibrated


def assess_reliability(probabilities: Floats, labels: Labels) -> Reliability:
    """Return how well probabilities (N, C) agree with the true labels (N,), with 95 % intervals over the images."""
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
    """Return mean probability and share of right answers (R, B) of the bins of each row (R, N), and their sizes."""
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
    """Return a figure with the spread of its resamples, whose mean is shifted to it: chance alone adds to an error."""
    low, high = np.quantile(drawn - drawn.mean() + value, [0.025, 0.975])
    return Interval(float(value), max(0.0, min(float(value), float(low))), max(float(value), float(high)))


def find_threshold(
    sure: Floats, right: Flags, wanted: float, batch: float = 0.0, apart: float = 1.0
) -> Threshold | None:
    """Return the lowest score from which on answers are right often enough, with the probability ``LEVEL``.

    A score passes if the wanted share of new answers from it on is right with that probability. Scores are tried from
    high to low until one fails, which keeps the probability for all of them together (fixed sequence; A. Angelopoulos
    et al., "Learn then Test", 2021). As the few surest answers may hold one mistake by chance, there are several such
    sequences: they begin with as many answers as pass if all are right, with twice as many, and so on, and share the
    probability of an error. None if no score passes. An answer counts as ``apart`` independent ones (0-1).
    """
    order, ends, hits = _rank_answers(sure, right)
    starts = []
    for start in _starts(wanted, int(len(order) * apart), batch):
        starts.append(math.ceil(start / apart))
    best = 0
    ends = ends[ends >= min(starts, default=len(order) + 1)]
    even_places = np.linspace(0, len(ends) - 1, min(MOST_ENDS, len(ends))).round().astype(int)
    ends = ends[np.unique(even_places)]
    # The sequences share the probability of an error.
    level = 1 - (1 - LEVEL) / max(1, len(starts))
    fails = _probability_of_share(hits[ends - 1] * apart, ends * apart, wanted, batch) < level
    # Each sequence ends at its first failure, however good later scores look: that keeps the probability of an error.
    for start in starts:
        failed = ends[fails & (ends >= start)].min(initial=len(order) + 1)
        best = max(best, int(ends[(ends >= start) & (ends < failed)].max(initial=0)))
    if not best:
        return None
    score = float(np.asarray(sure)[order[best - 1]])
    return at_score(_middle_below(score, sure), sure, right)


def find_reachable(sure: Floats, right: Flags, batch: float = 0.0) -> Reachable:
    """Return the largest share of right answers that a score can guarantee, to half a point; 0 for less than 0.5.

    It says what to ask for; asked for alone, it is a guarantee chosen by its data.
    """
    # In steps of half a percent: 100 of 200 is a share of 0.5.
    low = 99
    high = 200
    best = None
    while high - low > 1:
        middle = (low + high) // 2
        reached_threshold = find_threshold(sure, right, middle / 200, batch)
        if reached_threshold is None:
            high = middle
        else:
            low = middle
            best = reached_threshold
    if best:
        return Reachable(low / 200, best.coverage)
    return Reachable(0.0, 0.0)


def at_score(score: float, sure: Floats, right: Flags) -> Threshold:
    """Return precision and number of the answers from a score on."""
    taken = int((sure >= score).sum())
    hits = int(right[sure >= score].sum())
    return Threshold(score, _share(hits, taken), taken, len(sure))


def find_reached(scores: Floats, wanted: float, batch: float = 0.0, apart: float = 1.0) -> tuple[float, float]:
    """Return the highest score that a wanted share of new images reaches, and the share that is guaranteed.

    Of N scores, the share of new ones that reach the k-th largest is at least a Beta(k, N - k + 1) variable, whatever
    their distribution (S. Wilks, "Determination of sample sizes for setting tolerance limits", 1941). So k is the
    smallest number with which the wanted share is reached with the probability ``LEVEL``; nothing is tried on labels,
    and the guarantee is exact. With too few images for ``wanted``, it is the lowest score and what that guarantees;
    zeros without an image. A score counts as ``apart`` independent ones (0-1).
    """
    count = len(scores)
    if not count:
        return 0.0, 0.0
    new = np.array([_new(count * apart, batch)])

    def keeps(place: int) -> bool:
        first = np.array([(place + 1) * apart])
        second = np.array([(count - place) * apart])
        return bool(_chance(first, second, new, wanted)[0] >= LEVEL)

    # The probability rises with the place, so the smallest one is found by halving.
    place = min(bisect_left(range(count), True, key=keeps), count - 1)
    guaranteed = _find_guaranteed((place + 1) * apart, (count - place) * apart, int(new[0]))
    return _middle_below(float(np.sort(scores)[::-1][place]), scores), guaranteed


def find_covering(sure: Floats, right: Flags, wanted: float, batch: float = 0.0) -> CoverageThreshold:
    """Return the threshold from which on a wanted share of new images is answered, and the precision guaranteed there.

    The score depends on no label, so the precision of the answers from it on has a single bound. Each guarantee holds
    with the probability ``LEVEL``.
    """
    score, guaranteed = find_reached(sure, wanted, batch)
    at = at_score(score, sure, right)
    hits = 0
    if at.precision:
        hits = round(at.precision.value * at.images)
    parameters = _beta_of_precision(hits, at.images, batch)
    precision = 0.0
    if hits:
        precision = _find_guaranteed(*parameters, _new(at.images, batch))
    return CoverageThreshold(wanted, guaranteed, precision, at)


def find_recalling(column: Floats, members: Flags, wanted: float, batch: float = 0.0) -> RecallThreshold:
    """Return the probability of a class that a wanted share of its new images reaches.

    ``column`` (N,) is the probability of the class for each image, and ``members`` (N,) says which are of the class.
    """
    score, guaranteed = find_reached(column[members], wanted, batch)
    return at_recall(RecallThreshold(wanted, guaranteed, score, None, None, 0, 0), column, members)


def at_recall(chosen: RecallThreshold, column: Floats, members: Flags) -> RecallThreshold:
    """Return a threshold with its figures on other images; arguments as of :func:`find_recalling`."""
    flagged = column >= chosen.score
    members_flagged = int(members[flagged].sum())
    images = int(flagged.sum())
    recall = _share(members_flagged, int(members.sum()))
    precision = _share(members_flagged, images)
    return RecallThreshold(chosen.wanted, chosen.guaranteed, chosen.score, recall, precision, images, len(column))


def draw_curve(sure: Floats, right: Flags) -> tuple[Point, ...]:
    """Return the risk-coverage curve: right answers among the surest ones, for growing numbers of them.

    R. El-Yaniv and Y. Wiener, "On the foundations of noise-free selective classification" (2010). Answers with one
    score count together.
    """
    order, ends, hits = _rank_answers(sure, right)
    if not len(order):
        return ()
    steps = np.linspace(len(order) / POINTS, len(order), POINTS)
    taken = np.unique(ends[np.searchsorted(ends, np.floor(steps))])
    return tuple(Point(round(float(sure[order[end - 1]]), 4), int(end), int(hits[end - 1])) for end in taken)


def _rank_answers(sure: Floats, right: Flags) -> tuple[Labels, Labels, Labels]:
    """Return the order of the answers, the surest first; the numbers at which a score ends; right answers so far."""
    order = np.argsort(-sure, kind="stable")
    hits = np.cumsum(right[order], dtype=int)
    if not len(order):
        return order, np.zeros(0, int), hits
    # A threshold cannot part answers with one score.
    is_last_of_score = np.append(np.diff(sure[order]) < 0, True)
    return order, np.flatnonzero(is_last_of_score) + 1, hits


def _new(taken: float, batch: float) -> int:
    """Return the number of new images like ``taken`` seen ones, at least one; 0 for any number."""
    if batch:
        return max(1, round(taken * batch))
    return 0


def _beta_of_precision(hits: Any, taken: Any, batch: float) -> tuple[Any, Any]:
    """Return the parameters of the Beta variable that the share of right answers is, given ``hits`` of ``taken``.

    With Jeffreys' prior they are hits + 1/2 and misses + 1/2. For any number of new answers, Clopper and Pearson's hits
    and misses + 1 are taken.
    """
    half = 0.5 if batch else 0.0
    return hits + half, taken - hits + 1 - half


def _probability_of_share(hits: Floats | Labels, taken: Floats | Labels, wanted: float, batch: float) -> Floats:
    """Return the probability that a share of new answers is right, given ``hits`` of ``taken``."""
    new = np.array([_new(count, batch) for count in taken], int)
    return _chance(*_beta_of_precision(hits, taken, batch), new, wanted)


def _chance(first: Floats | Labels, second: Floats | Labels, new: Labels, wanted: float) -> Floats:
    """Return the probability that a share of new images succeeds, given that each does with a Beta variable.

    The first parameter is 0 for a variable that is 0. The numbers of new images are all 0 for any number.
    """
    from scipy.special import betaincc, betaln, gammaln

    if not len(new) or not new[0]:
        return np.asarray(np.where(first > 0, betaincc(np.maximum(first, 1e-9), second, wanted), 0.0))
    failures = np.arange(int((new - np.ceil(wanted * new - 1e-9)).max()) + 1)[None]

    def chances(rows: slice) -> Floats:
        count = new[rows, None].astype(float)
        alpha = np.maximum(first[rows], 1e-9)[:, None]
        beta = second[rows, None]
        left = np.maximum(count - failures, 0.0)
        # The beta-binomial distribution in logarithms: its factors are too large for floats.
        logs = gammaln(count + 1) - gammaln(failures + 1) - gammaln(left + 1) + betaln(left + alpha, failures + beta)
        allowed = failures <= count - np.ceil(wanted * count - 1e-9)
        return np.asarray(np.where(allowed, np.exp(logs - betaln(alpha, beta)), 0.0).sum(axis=1))

    step = max(1, AT_ONCE // failures.size)
    return np.concatenate([chances(slice(start, start + step)) for start in range(0, len(new), step)])


def _find_guaranteed(first: float, second: float, new: int) -> float:
    """Return the largest share of new images that succeeds with the probability ``LEVEL``; see :func:`_chance`."""
    # Importing scipy.stats takes a second.
    from scipy.special import betaincinv, betaln

    if not new:
        return float(betaincinv(first, second, 1 - LEVEL))
    failures = np.arange(new + 1)
    logs = betaln(failures + second, new - failures + first) - betaln(new - failures + 1, failures + 1)
    likely = np.exp(logs - betaln(second, first) - np.log(new + 1)).cumsum()
    return 1 - int(np.searchsorted(likely, LEVEL)) / new


def _middle_below(score: float, scores: Floats) -> float:
    """Return the middle between a score and the next lower one, so that rounding cannot move the score below it."""
    return (score + float(scores[scores < score].max(initial=0.0))) / 2


def _share(hits: int, taken: int) -> Interval | None:
    return Interval.wilson(hits, taken) if taken else None


def _starts(wanted: float, images: int, batch: float) -> list[int]:
    """Return the numbers of answers that sequences begin with; they depend on the number of images alone.

    From the first number on, all answers pass if all are right.
    """
    if not 0 < wanted < 1:
        raise ValueError(f"a share of right answers of {wanted} cannot be guaranteed")
    counts = np.arange(1, min(images, MOST_STARTS) + 1)
    likely = _probability_of_share(counts, counts, wanted, batch)
    # As many sequences as the images allow: each has to begin with enough right answers to pass.
    for sequences in range(MOST_SEQUENCES, 0, -1):
        fails = np.flatnonzero(likely < 1 - (1 - LEVEL) / sequences)
        least = int(fails.max(initial=-1)) + 2
        if least * 2 ** (sequences - 1) <= images:
            return [least * 2**place for place in range(sequences)]
    return []

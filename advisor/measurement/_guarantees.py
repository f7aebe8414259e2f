"""Thresholds of scores whose guarantee holds with a given probability.

A guarantee is a share (0-1), ``wanted``, that new images reach: of the answers from a score on
that are right, of the images that reach a score, or of a class's images that do. It holds with the
probability :data:`LEVEL`.

It is about as many new images as ``batch`` says: their number over the number N of images seen.
The share among them varies by chance, too, so it is a beta-binomial variable. A ``batch`` of 0
stands for any number of new images: then the guarantee is about the probability itself, and the
bound is Clopper and Pearson's. ``sure`` (N,) is the score of each answer, and ``right`` (N,) says
whether it is right.

``_class_thresholds.py`` (classifiers) and ``_box_confidence.py`` (boxes, and labels of taggers)
choose all thresholds with a guarantee here. Thresholds without one are chosen by F1, in
``_box_matches.py``, ``_label_thresholds.py`` and ``training/_detection/centres.py``. Thresholds of
taggers are in cached files: if they change, raise the versions that ``docs/extend-stages.md``
lists ("Which version to raise"). The others that are chosen here are chosen again at each run.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from typing import Any

import numpy as np

from advisor.core import CoverageThreshold, Interval, Point, Reachable, RecallThreshold, Threshold
from advisor.measurement._calibration import Flags, Floats, Labels

LEVEL = 0.95

# find_threshold tries scores in at most this many sequences.
# Each has its share of the probability of an error.
MOST_SEQUENCES = 4
# Scores that find_threshold tries, at most; of more, some evenly placed ones.
MOST_TRIED = 2000
# Answers that are all right within which LEVEL is reached for each share below 99.6 %.
MOST_STARTS = 5000
# Probabilities that are in memory at once, at most: 8 MB.
MOST_PROBABILITIES = 1_000_000
# Points of a risk-coverage curve, at most.
POINTS = 40


def find_threshold(
    sure: Floats,
    right: Flags,
    wanted: float,
    batch: float = 0.0,
    apart: float = 1.0,
) -> Threshold | None:
    """Return the lowest score from which on answers are right often enough,
    with the probability ``LEVEL``.

    A score passes if the wanted share of new answers from it on is right with that probability.
    Scores are tried from high to low until one fails, which keeps the probability for all of them
    together (fixed sequence; A. Angelopoulos et al., "Learn then Test", 2021). As the few surest
    answers may hold one mistake by chance, there are several such sequences: they begin with as
    many answers as pass if all are right, with twice as many, and so on, and share the probability
    of an error. None if no score passes. An answer counts as ``apart`` independent ones (0-1).
    """
    order, ends, hits = _rank_answers(sure, right)
    independent = int(len(order) * apart)
    starts = [math.ceil(start / apart) for start in _list_starts(wanted, independent, batch)]
    most_answers = 0
    ends = ends[ends >= min(starts, default=len(order) + 1)]
    tried = min(MOST_TRIED, len(ends))
    even_places = np.linspace(0, len(ends) - 1, tried).round()
    ends = ends[np.unique(even_places.astype(int))]
    # The sequences share the probability of an error.
    level = 1 - (1 - LEVEL) / max(1, len(starts))
    fails = _probability_of_share(hits[ends - 1] * apart, ends * apart, wanted, batch) < level
    # Each sequence ends at its first failure, however good later scores look:
    # that keeps the probability of an error.
    for start in starts:
        is_later = ends >= start
        failed = ends[fails & is_later].min(initial=len(order) + 1)
        passed = ends[is_later & (ends < failed)]
        most_of_start = int(passed.max(initial=0))
        most_answers = max(most_answers, most_of_start)
    if not most_answers:
        return None
    score = float(np.asarray(sure)[order[most_answers - 1]])
    return at_score(_middle_below(score, sure), sure, right, apart)


def find_reachable(
    sure: Floats, right: Flags, batch: float = 0.0, apart: float = 1.0
) -> Reachable:
    """Return the largest share of right answers that a score can guarantee, to half a point;
    0 for less than 0.5.

    It says what to ask for; asked for alone, it is a guarantee chosen by its data. An answer
    counts as ``apart`` independent ones (0-1).
    """
    # In steps of half a percent: 100 of 200 is a share of 0.5.
    low = 99
    high = 200
    best = None
    while high - low > 1:
        middle = (low + high) // 2
        reached_threshold = find_threshold(sure, right, middle / 200, batch, apart)
        if reached_threshold is None:
            high = middle
        else:
            low = middle
            best = reached_threshold
    if best:
        return Reachable(low / 200, best.coverage)
    return Reachable(0.0, 0.0)


def at_score(score: float, sure: Floats, right: Flags, apart: float = 1.0) -> Threshold:
    """Return precision and number of the answers from a score on; for the interval of the
    precision, an answer counts as ``apart`` independent ones (0-1).
    """
    taken = int((sure >= score).sum())
    hits = int(right[sure >= score].sum())
    return Threshold(score, _estimate_share(hits, taken, apart), taken, len(sure))


def find_reached(
    scores: Floats, wanted: float, batch: float = 0.0, apart: float = 1.0
) -> tuple[float, float]:
    """Return the highest score that a wanted share of new images reaches,
    and the share that is guaranteed.

    Of N scores, the share of new ones that reach the k-th largest is at least a Beta(k, N - k + 1)
    variable, whatever their distribution (S. Wilks, "Determination of sample sizes for setting
    tolerance limits", 1941). So k is the smallest number with which the wanted share is reached
    with the probability ``LEVEL``; nothing is tried on labels, and the guarantee is exact. With
    too few images for ``wanted``, it is the lowest score and what that guarantees; zeros without
    an image. A score counts as ``apart`` independent ones (0-1).
    """
    count = len(scores)
    if not count:
        return 0.0, 0.0
    new = np.array([_count_new_images(count * apart, batch)])

    def keeps(place: int) -> bool:
        first = np.array([(place + 1) * apart])
        second = np.array([(count - place) * apart])
        return bool(_probability_of_success(first, second, new, wanted)[0] >= LEVEL)

    # The probability rises with the place, so the smallest one is found by halving.
    place = min(bisect_left(range(count), True, key=keeps), count - 1)
    guaranteed = _find_guaranteed((place + 1) * apart, (count - place) * apart, int(new[0]))
    return _middle_below(float(np.sort(scores)[::-1][place]), scores), guaranteed


def find_covering(
    sure: Floats, right: Flags, wanted: float, batch: float = 0.0, apart: float = 1.0
) -> CoverageThreshold:
    """Return the threshold from which on a wanted share of new images is answered,
    and the precision guaranteed there.

    The score depends on no label, so the precision of the answers from it on has a single bound.
    Each guarantee holds with the probability ``LEVEL``. An answer counts as ``apart`` independent
    ones (0-1).
    """
    score, guaranteed = find_reached(sure, wanted, batch, apart)
    at = at_score(score, sure, right, apart)
    hits = 0
    if at.precision:
        hits = round(at.precision.value * at.images)
    parameters = _beta_of_precision(hits * apart, at.images * apart, batch)
    precision = 0.0
    if hits:
        precision = _find_guaranteed(*parameters, _count_new_images(at.images * apart, batch))
    return CoverageThreshold(wanted, guaranteed, precision, at)


def find_recalling(
    column: Floats, members: Flags, wanted: float, batch: float = 0.0, apart: float = 1.0
) -> RecallThreshold:
    """Return the probability of a class that a wanted share of its new images reaches.

    ``column`` (N,) is the probability of the class for each image,
    and ``members`` (N,) says which are of the class. An image counts as ``apart`` independent ones
    (0-1).
    """
    score, guaranteed = find_reached(column[members], wanted, batch, apart)
    chosen = RecallThreshold(wanted, guaranteed, score, None, None, 0, 0)
    return at_recall(chosen, column, members, apart)


def at_recall(
    chosen: RecallThreshold, column: Floats, members: Flags, apart: float = 1.0
) -> RecallThreshold:
    """Return a threshold with its figures on other images, see :func:`find_recalling`."""
    flagged = column >= chosen.score
    members_flagged = int(members[flagged].sum())
    images = int(flagged.sum())
    recall = _estimate_share(members_flagged, int(members.sum()), apart)
    precision = _estimate_share(members_flagged, images, apart)
    return RecallThreshold(
        chosen.wanted, chosen.guaranteed, chosen.score, recall, precision, images, len(column)
    )


def draw_curve(sure: Floats, right: Flags) -> tuple[Point, ...]:
    """Return the risk-coverage curve:
    right answers among the surest ones, for growing numbers of them.

    R. El-Yaniv and Y. Wiener, "On the foundations of noise-free selective classification" (2010).
    Answers with one score count together.
    """
    order, ends, hits = _rank_answers(sure, right)
    if not len(order):
        return ()
    steps = np.linspace(len(order) / POINTS, len(order), POINTS)
    taken = np.unique(ends[np.searchsorted(ends, np.floor(steps))])
    points = []
    for end in taken.tolist():
        score = float(sure[order[end - 1]])
        points.append(Point(round(score, 4), end, int(hits[end - 1])))
    return tuple(points)


def _rank_answers(sure: Floats, right: Flags) -> tuple[Labels, Labels, Labels]:
    """Return the order of the answers, the surest first; the numbers at which a score ends;
    right answers so far.
    """
    order = np.argsort(-sure, kind="stable")
    hits = np.cumsum(right[order], dtype=int)
    if not len(order):
        return order, np.zeros(0, int), hits
    # A threshold cannot part answers with one score.
    is_last_of_score = np.append(np.diff(sure[order]) < 0, True)
    return order, np.flatnonzero(is_last_of_score) + 1, hits


def _count_new_images(taken: float, batch: float) -> int:
    """Return the number of new images like ``taken`` seen ones, at least one; 0 for any number."""
    if batch:
        return max(1, round(taken * batch))
    return 0


def _beta_of_precision(hits: Any, taken: Any, batch: float) -> tuple[Any, Any]:
    """Return the parameters of the Beta variable that the share of right answers is,
    given ``hits`` of ``taken``.

    With Jeffreys' prior they are hits + 1/2 and misses + 1/2. For any number of new answers,
    Clopper and Pearson's hits and misses + 1 are taken.
    """
    half = 0.5 if batch else 0.0
    return hits + half, taken - hits + 1 - half


def _probability_of_share(
    hits: Floats | Labels, taken: Floats | Labels, wanted: float, batch: float
) -> Floats:
    """Return the probability that a share of new answers is right, given ``hits`` of ``taken``."""
    new = np.array([_count_new_images(count, batch) for count in taken], int)
    return _probability_of_success(*_beta_of_precision(hits, taken, batch), new, wanted)


def _probability_of_success(
    first: Floats | Labels, second: Floats | Labels, new: Labels, wanted: float
) -> Floats:
    """Return the probability that a share of new images succeeds,
    given that each does with a Beta variable.

    The first parameter is 0 for a variable that is 0.
    The numbers of new images are all 0 for any number.
    """
    from scipy.special import betaincc, betaln, gammaln

    if not len(new) or not new[0]:
        likely = betaincc(np.maximum(first, 1e-9), second, wanted)
        return np.asarray(np.where(first > 0, likely, 0.0))
    # The rounding of a product must not ask for one success more.
    most_failures = new - np.ceil(wanted * new - 1e-9)
    failures = np.arange(int(most_failures.max()) + 1)[None]

    def chances(rows: slice) -> Floats:
        count = new[rows, None].astype(float)
        alpha = np.maximum(first[rows], 1e-9)[:, None]
        beta = second[rows, None]
        left = np.maximum(count - failures, 0.0)
        # The beta-binomial distribution in logarithms: its factors are too large for floats.
        ways = gammaln(count + 1) - gammaln(failures + 1) - gammaln(left + 1)
        logs = ways + betaln(left + alpha, failures + beta)
        allowed = failures <= count - np.ceil(wanted * count - 1e-9)
        likely = np.exp(logs - betaln(alpha, beta))
        return np.asarray(np.where(allowed, likely, 0.0).sum(axis=1))

    step = max(1, MOST_PROBABILITIES // failures.size)
    parts = []
    for start in range(0, len(new), step):
        parts.append(chances(slice(start, start + step)))
    return np.concatenate(parts)


def _find_guaranteed(first: float, second: float, new: int) -> float:
    """Return the largest share of new images that succeeds with the probability ``LEVEL``.

    The parameters are those of :func:`_probability_of_success`.
    """
    # Importing scipy.stats takes a second.
    from scipy.special import betaincinv, betaln

    if not new:
        return float(betaincinv(first, second, 1 - LEVEL))
    failures = np.arange(new + 1)
    successes = new - failures
    logs = betaln(failures + second, successes + first) - betaln(successes + 1, failures + 1)
    at_most = np.exp(logs - betaln(second, first) - np.log(new + 1)).cumsum()
    most_failures = int(np.searchsorted(at_most, LEVEL))
    return 1 - most_failures / new


def _middle_below(score: float, scores: Floats) -> float:
    """Return the middle between a score and the next lower one,
    so that rounding cannot move the score below it.
    """
    return (score + float(scores[scores < score].max(initial=0.0))) / 2


def _estimate_share(hits: int, taken: int, apart: float) -> Interval | None:
    """Return a share with Wilson's interval of so many independent answers; None of none."""
    if not taken:
        return None
    ends = Interval.wilson(hits * apart, taken * apart)
    share = hits / taken
    # Rounding must not leave the share outside of its interval.
    return Interval(share, min(share, ends.low), max(share, ends.high))


@lru_cache(maxsize=64)
def _list_starts(wanted: float, images: int, batch: float) -> tuple[int, ...]:
    """Return the numbers of answers that sequences begin with;
    they depend on the number of images alone, so they are kept for the next scores.

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
            return tuple(least * 2**place for place in range(sequences))
    return ()

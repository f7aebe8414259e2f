"""Thresholds on a classifier's scores whose promise holds for new images with a given probability."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from advisor.core.confidence_facts import CoverageThreshold, Point, Reachable, RecallThreshold, Threshold
from advisor.core.statistics import Interval, wilson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]
    Whole = NDArray[np.integer[Any]]
    Flags = NDArray[np.bool_]

LEVEL = 0.95
"""Probability with which a promise holds for new images."""

MOST_SEQUENCES = 4
"""Sequences of :func:`threshold`, at most."""

POINTS = 40
"""Points of a risk-coverage curve, at most."""


def threshold(sure: Floats, right: Flags, wanted: float, level: float = LEVEL) -> Threshold | None:
    """Return the lowest score from which on answers are right often enough, with the probability ``level``.

    A score passes if the lower end of Clopper and Pearson's interval of the precision (one-sided) is at least
    ``wanted``. Scores are tried from high to low until one fails, which keeps the probability for all of them together
    (fixed sequence; A. Angelopoulos et al., "Learn then Test", 2021). As the few surest answers may hold one mistake by
    chance, there are several such sequences: they begin with as many answers as pass if all are right, with twice as
    many, and so on, and share the probability of an error.

    Args:
        sure: (N,) score of each answer.
        right: (N,) whether it is right.
        wanted: share (0-1) of right answers.
        level: probability that the precision of new images is at least that.

    Returns:
        None if no score passes.
    """
    import numpy as np

    order, ends, hits = _ranked(sure, right)
    starts, best = _starts(wanted, len(order), level), 0
    for start in starts:
        taken = ends[ends >= start]
        passes = _at_least(hits[taken - 1], taken, (1 - level) / len(starts)) >= wanted
        passed = taken[: passes.argmin() if not passes.all() else len(passes)]
        best = max(best, int(passed.max(initial=0)))
    if not best:
        return None
    return at_score(_below(float(np.asarray(sure)[order[best - 1]]), sure), sure, right)


def reachable(sure: Floats, right: Flags, level: float = LEVEL) -> Reachable:
    """Return the largest share of right answers that a score can promise, to half a point; 0 for less than 0.5.

    Arguments as of :func:`threshold`. It says what to ask for; asked for by itself it is a promise chosen by its data.
    """
    low, high, found = 99, 200, None
    while high - low > 1:
        middle = (low + high) // 2
        one = threshold(sure, right, middle / 200, level)
        low, high, found = (low, middle, found) if one is None else (middle, high, one)
    return Reachable(low / 200, found.coverage) if found else Reachable(0.0, 0.0)


def at_score(score: float, sure: Floats, right: Flags) -> Threshold:
    """Return precision and number of the answers from a score on; arguments as of :func:`threshold`."""
    taken, hits = int((sure >= score).sum()), int(right[sure >= score].sum())
    return Threshold(score, _share(hits, taken), taken, len(sure))


def reached(scores: Floats, wanted: float, level: float = LEVEL) -> tuple[float, float]:
    """Return the highest score that a wanted share of new images reaches, and the share that is promised.

    Of N scores, the share of new ones that reach the k-th largest is at least a Beta(k, N - k + 1) variable, whatever
    their distribution (S. Wilks, "Determination of sample sizes for setting tolerance limits", 1941). Its quantile is
    the lower end of Clopper and Pearson's interval for k of N. So k is the smallest number whose quantile is at least
    ``wanted``; nothing is tried on labels, and the promise is exact.

    Args:
        scores: (N,).
        wanted: share (0-1) of new images.
        level: probability that the share of new images is at least that.

    Returns:
        With too few images for ``wanted``, the lowest score and what it promises; zeros without an image.
    """
    import numpy as np

    count = len(scores)
    if not count:
        return 0.0, 0.0
    places = np.arange(1, count + 1)
    shares = _at_least(places, np.full(count, count), 1 - level)
    place = min(int((shares < wanted).sum()), count - 1)
    return _below(float(np.sort(scores)[::-1][place]), scores), float(shares[place])


def covering(sure: Floats, right: Flags, wanted: float, level: float = LEVEL) -> CoverageThreshold:
    """Return the threshold from which on a wanted share of new images is answered, and the precision promised there.

    The score depends on no label, so the precision of the answers from it on has a single Clopper-Pearson bound. Each
    of both promises holds with the probability ``level``. Arguments as of :func:`threshold`.
    """
    import numpy as np

    score, promised = reached(sure, wanted, level)
    at = at_score(score, sure, right)
    hits = round(at.precision.value * at.images) if at.precision else 0
    precision = float(_at_least(np.array([hits]), np.array([at.images]), 1 - level)[0]) if hits else 0.0
    return CoverageThreshold(wanted, promised, precision, at)


def recalling(column: Floats, members: Flags, wanted: float, level: float = LEVEL) -> RecallThreshold:
    """Return the probability of a class that a wanted share of its new images reaches.

    Args:
        column: (N,) probability of the class for each image.
        members: (N,) whether the image is of the class.
        wanted: share (0-1) of the images of the class.
        level: probability that the recall of new images is at least that.
    """
    score, promised = reached(column[members], wanted, level)
    return at_recall(RecallThreshold(wanted, promised, score, None, None, 0, 0), column, members)


def at_recall(chosen: RecallThreshold, column: Floats, members: Flags) -> RecallThreshold:
    """Return a threshold with its figures on other images; arguments as of :func:`recalling`."""
    flagged = column >= chosen.score
    found, images = int(members[flagged].sum()), int(flagged.sum())
    recall, precision = _share(found, int(members.sum())), _share(found, images)
    return RecallThreshold(chosen.wanted, chosen.promised, chosen.score, recall, precision, images, len(column))


def curve(sure: Floats, right: Flags) -> tuple[Point, ...]:
    """Return the risk-coverage curve: right answers among the surest ones, for growing numbers of them.

    R. El-Yaniv and Y. Wiener, "On the foundations of noise-free selective classification" (2010). Arguments as of
    :func:`threshold`. Answers with one score count together.
    """
    import numpy as np

    order, ends, hits = _ranked(sure, right)
    if not len(order):
        return ()
    steps = np.linspace(len(order) / POINTS, len(order), POINTS)
    taken = np.unique(ends[np.searchsorted(ends, np.floor(steps))])
    return tuple(Point(round(float(sure[order[end - 1]]), 4), int(end), int(hits[end - 1])) for end in taken)


def _ranked(sure: Floats, right: Flags) -> tuple[Whole, Whole, Whole]:
    """Return the order of the answers, the surest first; the numbers at which a score ends; right answers so far."""
    import numpy as np

    order = np.argsort(-sure, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(sure[order]) < 0, True)) + 1 if len(order) else np.zeros(0, int)
    return order, ends, np.cumsum(right[order])


def _at_least(hits: Whole, taken: Whole, risk: float) -> Floats:
    """Return the lower ends of Clopper and Pearson's one-sided intervals of ``hits`` of ``taken``."""
    import numpy as np
    from scipy.stats import beta

    ends: Floats = np.nan_to_num(beta.ppf(risk, hits, taken - hits + 1))
    return ends


def _below(score: float, scores: Floats) -> float:
    """Return the middle between a score and the next lower one, so that rounding cannot move the score below it."""
    return (score + float(scores[scores < score].max(initial=0.0))) / 2


def _share(hits: int, taken: int) -> Interval | None:
    return wilson(hits, taken) if taken else None


def _starts(wanted: float, images: int, level: float) -> list[int]:
    """Return the numbers of answers that sequences begin with; they depend on the number of images alone."""
    if not 0 < wanted < 1:
        raise ValueError(f"a share of right answers of {wanted} cannot be promised")
    for sequences in range(MOST_SEQUENCES, 0, -1):
        least = math.ceil(math.log((1 - level) / sequences) / math.log(wanted))
        if least * 2 ** (sequences - 1) <= images:
            return [least * 2**place for place in range(sequences)]
    return []

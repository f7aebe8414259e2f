"""Thresholds on a classifier's scores whose guarantee holds for new images with a given probability.

A guarantee is about as many new images as ``batch`` says: their number over the number of images seen. The share among
them varies by chance, too, so it is a beta-binomial variable. A ``batch`` of 0 stands for any number of new images:
then the guarantee is about the probability itself, and the bound is Clopper and Pearson's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from advisor.core.confidence_facts import CoverageThreshold, Point, Reachable, RecallThreshold, Threshold
from advisor.core.quantity import Interval, wilson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]
    Whole = NDArray[np.integer[Any]]
    Flags = NDArray[np.bool_]

LEVEL = 0.95
"""Probability with which a guarantee holds for new images."""

MOST_SEQUENCES = 4
"""Sequences of :func:`threshold`, at most."""

POINTS = 40
"""Points of a risk-coverage curve, at most."""


def threshold(sure: Floats, right: Flags, wanted: float, level: float = LEVEL, batch: float = 0.0) -> Threshold | None:
    """Return the lowest score from which on answers are right often enough, with the probability ``level``.

    A score passes if the wanted share of new answers from it on is right with that probability. Scores are tried from
    high to low until one fails, which keeps the probability for all of them together (fixed sequence; A. Angelopoulos
    et al., "Learn then Test", 2021). As the few surest answers may hold one mistake by chance, there are several such
    sequences: they begin with as many answers as pass if all are right, with twice as many, and so on, and share the
    probability of an error.

    Args:
        sure: (N,) score of each answer.
        right: (N,) whether it is right.
        wanted: share (0-1) of right answers.
        level: probability that the precision of new images is at least that.
        batch: new images over the N images; 0 for any number.

    Returns:
        None if no score passes.
    """
    import numpy as np

    order, ends, hits = _ranked(sure, right)
    starts, best = _starts(wanted, len(order), level, batch), 0
    for start in starts:
        taken = ends[ends >= start]
        passes = _passes(hits[taken - 1], taken, wanted, (1 - level) / len(starts), batch)
        passed = taken[: passes.argmin() if not passes.all() else len(passes)]
        best = max(best, int(passed.max(initial=0)))
    if not best:
        return None
    return at_score(_below(float(np.asarray(sure)[order[best - 1]]), sure), sure, right)


def reachable(sure: Floats, right: Flags, level: float = LEVEL, batch: float = 0.0) -> Reachable:
    """Return the largest share of right answers that a score can guarantee, to half a point; 0 for less than 0.5.

    Arguments as of :func:`threshold`. It says what to ask for; asked for alone, it is a guarantee chosen by its data.
    """
    low, high, found = 99, 200, None
    while high - low > 1:
        middle = (low + high) // 2
        one = threshold(sure, right, middle / 200, level, batch)
        low, high, found = (low, middle, found) if one is None else (middle, high, one)
    return Reachable(low / 200, found.coverage) if found else Reachable(0.0, 0.0)


def at_score(score: float, sure: Floats, right: Flags) -> Threshold:
    """Return precision and number of the answers from a score on; arguments as of :func:`threshold`."""
    taken, hits = int((sure >= score).sum()), int(right[sure >= score].sum())
    return Threshold(score, _share(hits, taken), taken, len(sure))


def reached(scores: Floats, wanted: float, level: float = LEVEL, batch: float = 0.0) -> tuple[float, float]:
    """Return the highest score that a wanted share of new images reaches, and the share that is guaranteed.

    Of N scores, the share of new ones that reach the k-th largest is at least a Beta(k, N - k + 1) variable, whatever
    their distribution (S. Wilks, "Determination of sample sizes for setting tolerance limits", 1941). So k is the
    smallest number with which the wanted share is reached with the probability ``level``; nothing is tried on labels,
    and the guarantee is exact.

    Args:
        scores: (N,).
        wanted: share (0-1) of new images.
        level: probability that the share of new images is at least that.
        batch: new images over the N images; 0 for any number.

    Returns:
        With too few images for ``wanted``, the lowest score and what it guarantees; zeros without an image.
    """
    import numpy as np

    count = len(scores)
    if not count:
        return 0.0, 0.0
    new, places = _new(count, batch), np.arange(1, count + 1)
    kept = _chance(places, count - places + 1, np.full(count, new), wanted) >= level
    place = int(kept.argmax()) if kept.any() else count - 1
    guaranteed = _guaranteed(place + 1, count - place, new, level)
    return _below(float(np.sort(scores)[::-1][place]), scores), guaranteed


def covering(sure: Floats, right: Flags, wanted: float, level: float = LEVEL, batch: float = 0.0) -> CoverageThreshold:
    """Return the threshold from which on a wanted share of new images is answered, and the precision guaranteed there.

    The score depends on no label, so the precision of the answers from it on has a single bound. Each guarantee holds
    with the probability ``level``. Arguments as of :func:`threshold`.
    """
    score, guaranteed = reached(sure, wanted, level, batch)
    at = at_score(score, sure, right)
    hits = round(at.precision.value * at.images) if at.precision else 0
    precision = _precision(hits, at.images, level, batch) if hits else 0.0
    return CoverageThreshold(wanted, guaranteed, precision, at)


def recalling(
    column: Floats, members: Flags, wanted: float, level: float = LEVEL, batch: float = 0.0
) -> RecallThreshold:
    """Return the probability of a class that a wanted share of its new images reaches.

    Args:
        column: (N,) probability of the class for each image.
        members: (N,) whether the image is of the class.
        wanted: share (0-1) of the images of the class.
        level: probability that the recall of new images is at least that.
        batch: new images over the N images; 0 for any number.
    """
    score, guaranteed = reached(column[members], wanted, level, batch)
    return at_recall(RecallThreshold(wanted, guaranteed, score, None, None, 0, 0), column, members)


def at_recall(chosen: RecallThreshold, column: Floats, members: Flags) -> RecallThreshold:
    """Return a threshold with its figures on other images; arguments as of :func:`recalling`."""
    flagged = column >= chosen.score
    found, images = int(members[flagged].sum()), int(flagged.sum())
    recall, precision = _share(found, int(members.sum())), _share(found, images)
    return RecallThreshold(chosen.wanted, chosen.guaranteed, chosen.score, recall, precision, images, len(column))


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


def _new(taken: int, batch: float) -> int:
    """Return the number of new images like ``taken`` seen ones, at least one; 0 for any number."""
    return max(1, round(taken * batch)) if batch else 0


def _passes(hits: Whole, taken: Whole, wanted: float, risk: float, batch: float) -> Flags:
    """Return whether a share of new answers is right, given ``hits`` of ``taken``, but for a ``risk``.

    The share of right answers is a Beta(hits + 1/2, misses + 1/2) variable by Jeffreys' prior; for any number of new
    answers, Clopper and Pearson's Beta(hits, misses + 1) is taken.
    """
    import numpy as np

    new = np.array([_new(count, batch) for count in taken], int)
    half = 0.5 if batch else 0.0
    passes: Flags = _chance(hits + half, taken - hits + 1 - half, new, wanted) >= 1 - risk
    return passes


def _precision(hits: int, taken: int, level: float, batch: float) -> float:
    """Return the share of new answers that is right with the probability ``level``; see :func:`_passes`."""
    half = 0.5 if batch else 0.0
    return _guaranteed(hits + half, taken - hits + 1 - half, _new(taken, batch), level)


def _chance(first: Floats | Whole, second: Floats | Whole, new: Whole, wanted: float) -> Floats:
    """Return the probability that a share of new images succeeds, given that each does with a Beta variable.

    Args:
        first: first parameters of the variables, (N,); 0 for a variable that is 0.
        second: second parameters.
        new: numbers of new images; all 0 for any number.
        wanted: share (0-1).
    """
    import numpy as np
    from scipy.special import betaln, gammaln
    from scipy.stats import beta

    if not len(new) or not new[0]:
        found: Floats = np.where(first > 0, beta.sf(wanted, np.maximum(first, 1e-9), second), 0.0)
        return found
    failures = np.arange(int((new - np.ceil(wanted * new - 1e-9)).max()) + 1)[None]
    count, one, other = new[:, None].astype(float), np.maximum(first, 1e-9)[:, None], second[:, None]
    left = np.maximum(count - failures, 0.0)
    logs = gammaln(count + 1) - gammaln(failures + 1) - gammaln(left + 1) + betaln(left + one, failures + other)
    allowed = failures <= count - np.ceil(wanted * count - 1e-9)
    chances: Floats = np.where(allowed, np.exp(logs - betaln(one, other)), 0.0).sum(axis=1)
    return chances


def _guaranteed(first: float, second: float, new: int, level: float) -> float:
    """Return the largest share of new images that succeeds with the probability ``level``; see :func:`_chance`."""
    from scipy.stats import beta, betabinom

    if not new:
        return float(beta.ppf(1 - level, first, second))
    return 1 - float(betabinom.ppf(level, new, second, first)) / new


def _below(score: float, scores: Floats) -> float:
    """Return the middle between a score and the next lower one, so that rounding cannot move the score below it."""
    return (score + float(scores[scores < score].max(initial=0.0))) / 2


def _share(hits: int, taken: int) -> Interval | None:
    return wilson(hits, taken) if taken else None


def _starts(wanted: float, images: int, level: float, batch: float) -> list[int]:
    """Return the numbers of answers that sequences begin with; they depend on the number of images alone.

    From the first number on, all answers pass if all are right.
    """
    import numpy as np

    if not 0 < wanted < 1:
        raise ValueError(f"a share of right answers of {wanted} cannot be guaranteed")
    counts = np.arange(1, images + 1)
    for sequences in range(MOST_SEQUENCES, 0, -1):
        fails = np.flatnonzero(~_passes(counts, counts, wanted, (1 - level) / sequences, batch))
        least = int(fails.max(initial=-1)) + 2
        if least * 2 ** (sequences - 1) <= images:
            return [least * 2**place for place in range(sequences)]
    return []

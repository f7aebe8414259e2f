"""Fit a head to the features that a quantized backbone gives.

A stage of the search (`adjusting_jobs.py`) calls one of two functions for an int8 classifier:
:func:`refit_head`, which needs labels, or :func:`match_logits`, which needs none. Each compares
its head with the one that the file has, and the better one is written into the file. If equal
features give another head after a change, raise ``version`` of the stage (`stages/adjusting.py`).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

from advisor.core import HeadFacts
from advisor.training._head.folds import assign_folds, divide_groups
from advisor.training._head.trials import FIRST_LOOK, FOLDS, Trial, path_to

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

STRENGTHS = (10.0, 1.0, 0.1)
"""Ridge penalties that are tried, in units of the number of images times the mean variance of a
feature.
"""


def match_logits(
    rows: Floats, wanted: Floats, weights: Floats, bias: Floats
) -> tuple[Floats, Floats] | None:
    """Change a head so that its logits on quantized features are those of the float file.

    None stands for the head as it is. ``rows`` (N, F) are features of the quantized file,
    ``wanted`` (N, C) logits of the float file on the same images. The change is a ridge
    regression of what the head misses. The penalty is the one with the least Kullback-Leibler
    divergence from the float probabilities on images that it was not fitted to; so it also is
    compared with no change.
    """
    # Too few images to fit and to judge; the head of the float file stays.
    if len(rows) < 2 * FOLDS:
        return None
    with threadpool_limits(limits=1):
        logits = rows @ weights + bias
        missed = (wanted - logits).astype(np.float64)
        mean = rows.mean(axis=0, dtype=np.float64)
        centred = rows - mean
        spread = max(float(centred.var(axis=0).mean()), 1e-12)
        # In the space of the images, which is smaller than that of the features.
        likeness = centred @ centred.T
        fold = np.arange(len(rows)) % FOLDS
        losses = dict.fromkeys(STRENGTHS, 0.0)
        for number in range(FOLDS):
            seen = fold != number
            unseen = fold == number
            for strength in STRENGTHS:
                factors, offset = _solve_ridge(
                    likeness[np.ix_(seen, seen)], missed[seen], strength * spread
                )
                change = likeness[np.ix_(unseen, seen)] @ factors + offset
                divergences = compute_divergence(wanted[unseen], logits[unseen] + change)
                losses[strength] += float(divergences.sum())
        best = min(losses, key=lambda strength: losses[strength])
        # Judged on images that were not fitted to, no change may be the best one.
        if losses[best] >= float(compute_divergence(wanted, logits).sum()):
            return None
        factors, offset = _solve_ridge(likeness, missed, best * spread)
        change = centred.T @ factors
    new_bias = bias + offset - mean @ change
    return (weights + change).astype(np.float32), new_bias.astype(np.float32)


def refit_head(
    rows: Floats,
    features: Floats,
    labels: Sequence[int],
    classes: int,
    facts: HeadFacts,
    last: int,
    seed: int,
    groups: Sequence[int] = (),
) -> tuple[Floats, Floats] | None:
    """Fit the chosen kind of head to a quantized backbone's features.

    None stands for the head of the float features. ``rows`` (N, F) are features of the quantized
    file, and ``features`` (N, F) those of the float file on the same images of a training part, of
    which the first ``last`` are those of the last layer. Both kinds of heads are fitted to some
    folds, and answer ``rows`` of the others: the one with the lower cross entropy is better.
    """
    targets = np.asarray(labels, dtype=np.int64)
    fold = assign_folds(targets, FOLDS, seed, divide_groups(targets, groups))
    path = path_to(facts.regularization)
    held = range(FIRST_LOOK)
    with threadpool_limits(limits=1):
        quantized = Trial.of(rows, targets, classes, (), last, facts.kind)
        floats = Trial.of(features, targets, classes, (), last, facts.kind)
        refit = quantized.cross_validate(fold, path, held)[-1]
        # The float head may read the features of the last layer alone.
        rows_read = rows[:, : floats.space.basis.shape[0]]
        joined = floats.cross_validate(fold, path, held, rows_read)[-1]
        if refit.loss <= joined.loss:
            return quantized.fit_strength(facts.regularization)
        return None


def _solve_ridge(likeness: Doubles, missed: Doubles, penalty: float) -> tuple[Doubles, Doubles]:
    """Return the factors of the images in a ridge regression of centred values, and their mean."""
    offset = missed.mean(axis=0)
    ridge = likeness + penalty * len(likeness) * np.eye(len(likeness))
    return np.linalg.solve(ridge, missed - offset), offset


def compute_divergence(wanted: Floats | Doubles, logits: Floats | Doubles) -> Doubles:
    """Return the Kullback-Leibler divergence of probabilities from the wanted ones, (N,).

    Both are given by their logits.
    """
    from scipy.special import log_softmax

    wanted_logs = log_softmax(wanted.astype(np.float64), axis=1)
    given_logs = log_softmax(logits.astype(np.float64), axis=1)
    return np.asarray((np.exp(wanted_logs) * (wanted_logs - given_logs)).sum(axis=1))

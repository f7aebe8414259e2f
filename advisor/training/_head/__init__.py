"""Fit the linear head of a classifier on the features of its backbone.

A stage of each search calls :func:`train_head`, which chooses kind and penalty by
cross-validation, and :func:`fit_head` for the head that ships. Read `trials.py` next (heads of one
kind), then `space.py`, `folds.py` and `quantized.py`. If equal features give another head after a
change, raise ``HEAD_VERSION``: it is a part of the keys of cached heads. Facts about the choice
are stored with a run (:class:`.HeadFacts`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

from advisor.core import HeadFacts, StageError
from advisor.training._head.folds import assign_folds, divide_groups
from advisor.training._head.trials import (
    ALL_LEVELS,
    COSINE,
    FIRST_LOOK,
    FOLDS,
    GRID,
    LAST_LAYER,
    NEAREST_MEAN,
    STRONGER,
    WEAKER,
    OutOfFoldAnswers,
    Trial,
    choose_strongest,
)

# Raised when equal features give another head.
HEAD_VERSION = 8
# Images that choose a head, at most, unless FEW_IMAGES of each class are more; all images fit it.
CHOSEN_ON = 8000
# Below this number of images in a class, the nearest-mean head is tried too.
FEW_IMAGES = 10
LEAST_GAIN = 0.025
"""Share of images by which a head on all levels must beat the one on the last layer. Levels hold
light and texture of the images: heads on all levels gained 3 to 6 points on images like these,
lost 2 to 4 points in a new visit of a shop if they had learnt one, and cost latency and bytes.
"""
# The same in standard errors of the difference, whole groups drawn.
SURE = 2.0


Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Head:
    """A linear classifier: ``softmax(features @ weights + bias)`` on the backbone's features."""

    weights: NDArray[np.float32]  # float32, shape (F, C)
    bias: NDArray[np.float32]  # float32, shape (C,)
    facts: HeadFacts  # how it was chosen. Its accuracy is slightly too high, as it chose the head.
    # float32 (N, C): probabilities of the images, each by a head of this kind that was fitted to
    # other folds; zeros for an image in no fold. None of a head that was read from a file.
    answers: NDArray[np.float32] | None = None


def train_head(
    features: Floats,
    labels: Sequence[int],
    classes: int,
    seed: int,
    views: Sequence[Floats] = (),
    groups: Sequence[int] = (),
    last: int = 0,
) -> Head:
    """Fit the plainest of the good heads, by cross-validation that holds whole groups out.

    The kinds are logistic regression on the last layer, on its features of length 1 (cosine) and
    on all levels, and, if a class has fewer than ``FEW_IMAGES`` images, nearest mean on the last
    layer. The fit runs in a space of :mod:`advisor.training._head.space` and is folded back into
    weights and bias.

    ``features`` are (N, F) of the training part, of which the first ``last`` are those of the last
    layer; 0 for a head on all. ``views`` are features of changed copies of the same images, which
    stay in the fold of their image. Images of one number in ``groups`` belong together. Raises
    StageError if a class has no image, or the shapes do not match.
    """
    targets = np.asarray(labels, dtype=np.int64)
    _require_matching_shapes(features, targets, classes, views)
    drawn = _draw_evenly(targets, max(CHOSEN_ON, FEW_IMAGES * classes))
    drawn_groups = groups
    if len(groups):
        drawn_groups = [groups[place] for place in drawn.tolist()]
    drawn_groups = divide_groups(targets[drawn], drawn_groups)
    fold = assign_folds(targets[drawn], FOLDS, seed, drawn_groups)
    with threadpool_limits(limits=1):
        drawn_views = [view[drawn] for view in views]
        trial = partial(Trial.of, features[drawn], targets[drawn], classes, drawn_views, last)
        best = _choose_kind(trial, last, features.shape[1], fold, drawn_groups)
        final = best.trial
        # Chosen on some of the images, and then fitted to all of them.
        if len(drawn) < len(targets):
            final = Trial.of(features, targets, classes, views, last, best.trial.kind)
        weights, bias = final.fit_strength(best.strength)
    answers = np.zeros((len(targets), classes), np.float32)
    answers[drawn] = best.probabilities
    facts = HeadFacts(
        kind=best.trial.kind if best.strength else NEAREST_MEAN,
        regularization=best.strength,
        at_grid_end=best.strength in (STRONGER[0], WEAKER[-1]),
        cv_accuracy=float(best.right.mean()),
        cv_images=len(drawn),
    )
    return Head(weights, bias, facts, answers)


def _draw_evenly(targets: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return the places of ``most`` images, each class with its share and at least one.

    All are returned if there are fewer.
    """
    order = np.argsort(targets, kind="stable")
    if len(order) <= most:
        return np.arange(len(order))
    _, starts = np.unique(targets[order], return_index=True)
    first_of_classes = order[starts]
    evenly = order[np.arange(most) * len(order) // most]
    return np.union1d(first_of_classes, evenly)


def fit_head(
    features: Floats,
    labels: Sequence[int],
    classes: int,
    regularization: float,
    views: Sequence[Floats] = (),
    kind: str = ALL_LEVELS,
    last: int = 0,
) -> tuple[Floats, Floats]:
    """Fit a head of known kind and ``C`` (0 for nearest mean).

    :func:`train_head` chose them on fewer images. Other arguments and errors as of
    :func:`train_head`. Returns weights (F, C), 0 for features that the head does not read,
    and bias (C,).
    """
    targets = np.asarray(labels, dtype=np.int64)
    _require_matching_shapes(features, targets, classes, views)
    with threadpool_limits(limits=1):
        return Trial.of(features, targets, classes, views, last, kind).fit_strength(regularization)


def _choose_kind(
    trial: Callable[[str], Trial],
    last: int,
    width: int,
    fold: NDArray[np.int64],
    groups: Sequence[int],
) -> OutOfFoldAnswers:
    """Return the out-of-fold answers of the chosen kind and penalty.

    After the first folds, the less accurate of last layer and cosine is dropped, and all levels if
    they gain less than half of :data:`LEAST_GAIN`.
    """
    plain = trial(LAST_LAYER if last else ALL_LEVELS)
    if last:
        first_looks = []
        for kind in (plain, trial(COSINE)):
            first_looks.append(kind.cross_validate(fold, GRID, range(FIRST_LOOK)))
        first = max(first_looks, key=lambda look: choose_strongest(look).merit())
        best = first[0].trial.find_best(fold, first)
    else:
        best = plain.find_best(fold)
    if int(np.bincount(plain.targets).min()) < FEW_IMAGES:
        best = max(best, *plain.cross_validate(fold, (0.0,)), key=OutOfFoldAnswers.merit)
    # A network with one level has nothing to compare.
    if not last or last == width:
        return best
    all_levels = trial(ALL_LEVELS)
    answered = fold < FIRST_LOOK
    first = all_levels.cross_validate(fold, GRID, range(FIRST_LOOK))
    gain = choose_strongest(first).right[answered].mean() - best.right[answered].mean()
    if gain < LEAST_GAIN / 2:
        return best
    best_of_levels = all_levels.find_best(fold, first)
    return best_of_levels if _is_clearly_better(best_of_levels.right, best.right, groups) else best


def _is_clearly_better(
    new: NDArray[np.bool_], old: NDArray[np.bool_], groups: Sequence[int]
) -> bool:
    """Return whether right answers are more frequent by :data:`LEAST_GAIN` and :data:`SURE`.

    Groups count as whole draws.
    """
    gains = new.astype(float) - old.astype(float)
    if len(groups):
        _, group = np.unique(np.asarray(groups), return_inverse=True)
        # Images of one group are alike, so their gains are summed: only sums are independent.
        residuals = np.bincount(group, gains - gains.mean())
    else:
        residuals = gains - gains.mean()
    error = float(np.sqrt(np.square(residuals).sum())) / len(gains)
    return bool(gains.mean() >= max(LEAST_GAIN, SURE * error))


def _require_matching_shapes(
    features: NDArray[np.float32],
    targets: NDArray[np.int64],
    classes: int,
    views: Sequence[NDArray[np.float32]],
) -> None:
    views_fit = all(view.shape == features.shape for view in views)
    if features.ndim != 2 or len(features) != len(targets) or not views_fit:
        shapes = [features.shape, *(view.shape for view in views)]
        raise StageError(f"features {shapes} and {len(targets)} labels do not fit together")
    counts = np.bincount(targets, minlength=classes)
    if len(counts) > classes or classes < 2 or not counts.all():
        raise StageError(
            f"a head for {classes} classes needs images of each of at least two, got"
            f" {counts.tolist()}"
        )

"""The head: a linear classifier on the backbone's features, its regularisation chosen on the training part alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.core.errors import StageError
from advisor.training.head.fits import fit
from advisor.training.head.logistic import ROUGHLY
from advisor.training.head.space import find_space

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERSION = 3
"""Raised whenever equal features would give another head."""

FOLDS = 5
GRID = (0.001, 0.003, 0.01, 0.03, 0.1)
"""Inverse strengths of the L2 penalty on standardised features, as scikit-learn's ``C``."""
FEW_IMAGES = 10
NEAREST_MEAN = "nearest_mean"
LOGISTIC = "logistic"


@dataclass(frozen=True, eq=False)
class Head:
    """A linear classifier: ``softmax(features @ weights + bias)`` on the features as the backbone gives them.

    Attributes:
        weights: float32, shape (F, C).
        bias: float32, shape (C,).
        kind: ``logistic`` or ``nearest_mean``.
        regularization: the chosen ``C`` (larger is weaker), 0 for ``nearest_mean``.
        validation_accuracy: share (0-1) of training images classified rightly by a head that had not seen them. Of
            the grid the best is reported, which flatters it slightly; the hold-out is the verdict.
        validation_probabilities: float32, shape (N, C): those out-of-fold predictions, for the data check and for
            comparing candidates before the hold-out is touched.
    """

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    kind: str
    regularization: float
    validation_accuracy: float
    validation_probabilities: NDArray[np.float32]

    def probabilities(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Classify features of shape (N, F); float32, shape (N, C)."""
        return softmax(features @ self.weights + self.bias)


def train_head(
    features: NDArray[np.float32],
    labels: Sequence[int],
    classes: int,
    seed: int,
    views: Sequence[NDArray[np.float32]] = (),
) -> Head:
    """Fit a multinomial logistic regression whose penalty is chosen by stratified cross-validation.

    The fit runs on standardised features in the space of :mod:`advisor.training.head.space`, found from the features
    alone, and is folded back into weights and bias. Where a class has fewer than ``FEW_IMAGES`` images a nearest-mean
    head competes too: it has no more to learn than the means.

    Args:
        features: float32, shape (N, F): the training part.
        labels: N class indices below ``classes``.
        classes: number of classes; each must occur.
        seed: for the folds.
        views: features (N, F) of the same images seen otherwise (flipped, cropped), learnt from but never validated
            on; an image's views stay in its fold.

    Raises:
        StageError: a class without an image, or arrays that do not fit together.
    """
    import numpy as np
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

    targets = np.asarray(labels, dtype=np.int64)
    _require_fitting(features, targets, classes, views)
    with threadpool_limits(limits=1):
        space = find_space(features)
        inside, others = space.enter(features), [space.enter(view) for view in views]
        candidates = dict(_cross_validated(inside, targets, classes, seed, others))
        best = max(candidates, key=lambda strength: _merit(candidates[strength], targets))
        weights, bias = space.leave(*fit(inside, targets, classes, others, (best,))[best])
    return Head(
        weights=weights,
        bias=bias,
        kind=NEAREST_MEAN if best == 0 else LOGISTIC,
        regularization=best,
        validation_accuracy=float((candidates[best].argmax(axis=1) == targets).mean()),
        validation_probabilities=candidates[best],
    )


def fit_head(
    features: NDArray[np.float32],
    labels: Sequence[int],
    classes: int,
    regularization: float,
    views: Sequence[NDArray[np.float32]] = (),
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Fit a head whose penalty is known, such as one that :func:`train_head` chose on fewer images.

    Args:
        features: float32, shape (N, F).
        labels: N class indices below ``classes``.
        classes: number of classes; each must occur.
        regularization: ``C``, 0 for nearest mean.
        views: as of :func:`train_head`.

    Returns:
        weights, float32 (F, C), and bias, float32 (C,).

    Raises:
        StageError: as :func:`train_head`.
    """
    import numpy as np
    from threadpoolctl import threadpool_limits

    targets = np.asarray(labels, dtype=np.int64)
    _require_fitting(features, targets, classes, views)
    with threadpool_limits(limits=1):
        space = find_space(features)
        others = [space.enter(view) for view in views]
        fitted = fit(space.enter(features), targets, classes, others, (regularization,))
        return space.leave(*fitted[regularization])


def softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Row-wise softmax of logits (N, C), float32."""
    import numpy as np

    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    result: NDArray[np.float32] = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)
    return result


def folds(labels: NDArray[np.int64], count: int, seed: int) -> NDArray[np.int64]:
    """Deal each class's images out to ``count`` folds as evenly as can be; return the fold of each image.

    Unlike scikit-learn's, a class may have fewer images than there are folds.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    fold = np.empty(len(labels), dtype=np.int64)
    start = 0
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        fold[members] = (np.arange(len(members)) + start) % count
        start += len(members)
    return fold


def _merit(probabilities: NDArray[np.float32], targets: NDArray[np.int64]) -> tuple[float, float]:
    """Accuracy first, likelihood among equals."""
    import numpy as np

    right = probabilities.argmax(axis=1) == targets
    likelihood = np.log(np.maximum(probabilities[np.arange(len(targets)), targets], 1e-7))
    return round(float(right.mean()), 6), float(likelihood.mean())


def _cross_validated(
    features: NDArray[np.float32],
    targets: NDArray[np.int64],
    classes: int,
    seed: int,
    views: Sequence[NDArray[np.float32]],
) -> Iterator[tuple[float, NDArray[np.float32]]]:
    """Yield each candidate strength with its out-of-fold probabilities (N, C)."""
    import numpy as np

    few = int(np.bincount(targets, minlength=classes).min()) < FEW_IMAGES
    strengths = (0.0, *GRID) if few else GRID
    found = {strength: np.zeros((len(targets), classes), np.float32) for strength in strengths}
    fold = folds(targets, min(FOLDS, len(targets)), seed)
    for number in np.unique(fold):
        seen, unseen = fold != number, fold == number
        fitted = fit(features[seen], targets[seen], classes, [view[seen] for view in views], strengths, ROUGHLY)
        for strength, (weights, bias) in fitted.items():
            found[strength][unseen] = softmax(features[unseen] @ weights + bias)
    yield from found.items()


def _require_fitting(
    features: NDArray[np.float32],
    targets: NDArray[np.int64],
    classes: int,
    views: Sequence[NDArray[np.float32]],
) -> None:
    import numpy as np

    if features.ndim != 2 or len(features) != len(targets) or any(view.shape != features.shape for view in views):
        shapes = [features.shape, *(view.shape for view in views)]
        raise StageError(f"features {shapes} and {len(targets)} labels do not fit together")
    counts = np.bincount(targets, minlength=classes)
    if len(counts) > classes or classes < 2 or not counts.all():
        raise StageError(f"a head for {classes} classes needs images of each of at least two, got {counts.tolist()}")

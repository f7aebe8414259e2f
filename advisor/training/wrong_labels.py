"""Labels that are likely wrong, by confident learning (Northcutt, Jiang, Chuang, JAIR 2021) as cleanlab does it.

Every picture is judged by classifiers that have seen neither it nor a copy of it. How many labels are wrong is
estimated from all those judgements; the pictures least likely to have the label that they have are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.training.space import find_space

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FOLDS = 5
PENALTY = 0.002
"""Inverse strength of the L2 penalty: stronger than that of a head that ships and trusts what is doubted here."""

KERNEL_PICTURES = 5_000
"""Up to so many a kernel classifier judges, which errs less: its cost grows with the cube, its memory with the square.
More are judged by a linear one."""

DRAWS = 2
"""Times that a small set is dealt out to folds: the mean of two judgements is surer than one."""

DOUBTED = 0.1
"""Only labels less likely than this are named: small sets make unsure classifiers, and doubt is no evidence."""

_COMPONENTS = 128
_SHARPNESS = 6.0
"""From the kernel classifier's scores, which are near 0 and 1, to probabilities."""


@dataclass(frozen=True)
class Suspect:
    """A picture whose label is likely wrong.

    Attributes:
        index: of the picture.
        suggested: the label that fits best.
        given: probability (0-1) of the label that it has.
        better: probability of the suggested one.
    """

    index: int
    suggested: int
    given: float
    better: float


def suspects(labels: Sequence[int], probabilities: NDArray[np.float32]) -> tuple[Suspect, ...]:
    """Return the pictures whose labels are likely wrong, the surest first.

    Args:
        labels: N class indices; each of the classes has a picture.
        probabilities: (N, C), out of fold.
    """
    import numpy as np
    from cleanlab.filter import find_label_issues

    given = np.asarray(labels)
    found = find_label_issues(
        given, probabilities, filter_by="low_self_confidence", return_indices_ranked_by="self_confidence", n_jobs=1
    )
    rows = ((int(index), probabilities[index]) for index in found)
    return tuple(
        Suspect(index, int(row.argmax()), float(row[given[index]]), float(row.max()))
        for index, row in rows
        if row.argmax() != given[index] and row[given[index]] < DOUBTED
    )


def out_of_fold(
    features: NDArray[np.float32], labels: Sequence[int], together: Sequence[Sequence[int]], seed: int
) -> NDArray[np.float32]:
    """Return the probability of each class for each picture, by classifiers that have not seen it: float32 (N, C).

    Args:
        features: float32 (N, F).
        labels: N class indices, without gaps.
        together: groups of indices that stay in one fold: a copy with a wrong label would vouch for itself.
        seed: for the folds.
    """
    import numpy as np
    from sklearn.model_selection import StratifiedGroupKFold
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

    targets = np.asarray(labels)
    groups = np.arange(len(targets))
    for group in together:
        groups[list(group)] = groups[group[0]]
    folds = max(2, min(FOLDS, int(np.bincount(targets).min())))
    small = len(targets) <= KERNEL_PICTURES
    if not small:  # several thousand features of 100,000 pictures would not fit the memory twice
        features = find_space(features).enter(features)
    result = np.zeros((len(targets), int(targets.max()) + 1), np.float32)
    draws = range(seed, seed + (DRAWS if small else 1))
    with threadpool_limits(limits=1):
        for draw in draws:
            parts = StratifiedGroupKFold(folds, shuffle=True, random_state=draw).split(features, targets, groups)
            for seen, unseen in parts:
                known, unknown = _standardised(features[seen], features[unseen])
                judge = _kernel if small else _linear
                result[unseen] += judge(known, targets[seen], unknown, result.shape[1]) / len(draws)
    return result


def _standardised(known: Any, unknown: Any) -> tuple[Any, Any]:
    from sklearn.preprocessing import StandardScaler

    scale = StandardScaler(copy=False).fit(known)
    return scale.transform(known), scale.transform(unknown)


def _linear(known: Any, labels: Any, unknown: Any, classes: int) -> NDArray[np.float32]:
    import warnings

    import numpy as np
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=PENALTY, max_iter=60, tol=1e-2).fit(known, labels)
    result = np.zeros((len(unknown), classes), np.float32)
    result[:, model.classes_] = model.predict_proba(unknown)
    return result


def _kernel(known: Any, labels: Any, unknown: Any, classes: int) -> NDArray[np.float32]:
    """Ridge regression of one-hot labels with a Gaussian kernel as wide as the features' spread."""
    import numpy as np
    from sklearn.decomposition import PCA
    from sklearn.kernel_ridge import KernelRidge

    axes = PCA(min(_COMPONENTS, *known.shape), random_state=0).fit(known)
    known, unknown = axes.transform(known), axes.transform(unknown)
    wanted = np.eye(classes)[labels] - 1 / classes
    model = KernelRidge(alpha=1.0, kernel="rbf", gamma=1 / known.var(axis=0).sum()).fit(known, wanted)
    powers = np.exp(_SHARPNESS * model.predict(unknown))
    result: NDArray[np.float32] = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)
    return result

"""Thresholds of labels that keep a share on new images: what is asked of each label, and what a threshold keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import BoxGuarantee, Guarantees, Shares
from advisor.measurement import BoxAnswers, guarantee_threshold, units_of

Truth = NDArray[np.int8]
Scores = NDArray[np.floating[Any]]

# The logit of a threshold is finite.
FARTHEST = 1e-9
# Share of the new images that a guarantee is computed for: their share then varies more. Scores of the heads of folds
# are not quite those of the head that ships: for all images, 93.7 % of the recalls were kept in place of 95.
FEWER = 0.5


def list_wishes(asked: Guarantees, classes: Sequence[str]) -> tuple[Guarantees, ...]:
    """Return what is asked of each label, each as a share for all answers.

    A label has one threshold, which keeps one share: one that is asked by the label's name comes before the others.
    """
    wishes = []
    for name in classes:
        named = name in asked.precision.by_class or name in asked.recall.by_class
        precision, recall = (
            shares.by_class.get(name) if named else shares.plain for shares in (asked.precision, asked.recall)
        )
        wishes.append(Guarantees(Shares(precision), Shares(recall)))
    return tuple(wishes)


def answers_of_label(truth: Truth, scores: Scores, groups: Sequence[int]) -> BoxAnswers:
    """Return the images of which a label is known, (N,), as answers: an image counts as a box, and a group as an image.

    Images of one group are alike, as boxes of one image are.
    """
    known = truth >= 0
    units = units_of(groups, len(truth))
    right = truth == 1
    true = np.bincount(units[right], minlength=int(units.max(initial=-1)) + 1)
    return BoxAnswers(scores[known].astype(float), right[known], units[known], true)


def keep_shares(
    truth: Truth, scores: Scores, groups: Sequence[int], wishes: Sequence[Guarantees], batch: float
) -> tuple[dict[int, float], tuple[BoxGuarantee | None, ...]]:
    """Return the thresholds that keep what is asked, by label, and the guarantee of each label; None for no wish.

    ``scores`` (N, C) are of heads that have not learnt the image. ``batch`` is the number of new images over N.
    """
    thresholds = {}
    guarantees = []
    for label, wish in enumerate(wishes):
        score, guarantee = guarantee_threshold(
            answers_of_label(truth[:, label], scores[:, label], groups), wish, FEWER * batch
        )
        if guarantee and guarantee.kept:
            thresholds[label] = min(max(score, FARTHEST), 1 - FARTHEST)
        guarantees.append(guarantee)
    return thresholds, tuple(guarantees)

"""Thresholds of labels: those with the best F1,
and those that keep a share on new images as the user asks.

The fit of a tagger's head calls :func:`choose_thresholds` and folds the result into the head, so
that every label counts from 0.5 on in the file that ships. A stage does the same for fine-tuned
networks and users' own files (``tasks/tagging/_thresholds.py``), and the task asks again when it
judges. If equal scores give other thresholds, raise ``VERSION`` of ``tasks/tagging/_stages.py``
and ``version`` of that stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.core import BoxGuarantee, Guarantees, ImageUnits, Shares
from advisor.measurement._box_confidence import BoxAnswers

Truth = NDArray[np.int8]
Scores = NDArray[np.floating[Any]]
Floats = NDArray[np.float32]

# Images of either kind that are added when scores are calibrated, as in Platt (1999).
SMOOTHED = 1.0
LEAST_SLOPE = 0.1
# The logit of a threshold is finite.
FARTHEST = 1e-9
# Share of the new images that a guarantee is computed for: their share then varies more. Scores of
# the heads of folds are not quite those of the head that ships: for all images, 93.7 % of the
# recalls were kept in place of 95.
FEWER = 0.5


class ChosenThresholds(NamedTuple):
    """A slope and a shift (C,) that make 0 the threshold of each label's logits,
    and the guarantees of these.
    """

    slope: Floats
    shift: Floats
    guarantees: tuple[BoxGuarantee | None, ...]  # None for no wish

    @property
    def scores(self) -> list[float]:
        """The threshold of each label's scores as they were."""
        return list(map(float, 1 / (1 + np.exp(self.shift / self.slope))))


def logits_of(scores: Scores) -> Scores:
    """Return the logits of scores from 0 to 1."""
    from scipy.special import logit

    return np.asarray(logit(np.clip(scores.astype(np.float64), FARTHEST, 1 - FARTHEST)))


def list_wishes(asked: Guarantees, classes: Sequence[str]) -> tuple[Guarantees, ...]:
    """Return what is asked of each label, each as a share for all answers.

    A label has one threshold, which keeps one share:
    one that is asked by the label's name comes before the others.
    """
    wishes = []
    for name in classes:
        named = name in asked.precision.by_class or name in asked.recall.by_class
        precision = asked.precision.by_class.get(name) if named else asked.precision.plain
        recall = asked.recall.by_class.get(name) if named else asked.recall.plain
        wishes.append(Guarantees(Shares(precision), Shares(recall)))
    return tuple(wishes)


def answers_of_label(truth: Truth, scores: Scores, groups: Sequence[int]) -> BoxAnswers:
    """Return the images of which a label is known, (N,), as answers:
    an image counts as a box, and a group as an image.

    Images of one group are alike, as boxes of one image are.
    """
    known = truth >= 0
    units = ImageUnits.of(groups, len(truth)).numbers
    right = truth == 1
    true = np.bincount(units[right], minlength=int(units.max(initial=-1)) + 1)
    return BoxAnswers(scores[known].astype(float), right[known], units[known], true)


def keep_shares(
    truth: Truth,
    scores: Scores,
    groups: Sequence[int],
    wishes: Sequence[Guarantees],
    batch: float,
) -> tuple[dict[int, float], tuple[BoxGuarantee | None, ...]]:
    """Return the thresholds that keep what is asked, by label, and the guarantee of each label;
    None for no wish.

    ``scores`` (N, C) are of heads that have not learnt the image.
    ``batch`` is the number of new images over N.
    """
    thresholds = {}
    guarantees = []
    for label, wish in enumerate(wishes):
        answers = answers_of_label(truth[:, label], scores[:, label], groups)
        score, guarantee = answers.guarantee_threshold(wish, FEWER * batch)
        if guarantee and guarantee.kept:
            thresholds[label] = min(max(score, FARTHEST), 1 - FARTHEST)
        guarantees.append(guarantee)
    return thresholds, tuple(guarantees)


def choose_thresholds(
    logits: Scores,
    truth: Truth,
    groups: Sequence[int],
    wishes: Sequence[Guarantees],
    batch: float,
) -> ChosenThresholds:
    """Choose the threshold of each label:
    the one that keeps what is asked, else the one with the best F1.

    ``logits`` (N, C) are of images that were not learnt. ``wishes`` are what is asked of each
    label; empty if nothing is asked. ``batch`` is the number of new images over N.
    """
    from scipy.special import expit, logit

    slope, shift = calibrate_logits(logits, truth)
    scores = expit(logits.astype(np.float64) * slope + shift)
    thresholds, guarantees = keep_shares(truth, scores, groups, wishes, batch)
    for label, threshold in thresholds.items():
        shift[label] -= float(logit(threshold))
    return ChosenThresholds(slope, shift, guarantees)


def calibrate_logits(logits: Scores, truth: Truth) -> tuple[Floats, Floats]:
    """Return the slope and the shift of each label's logits, (C,),
    after which 0 is the threshold with the best F1.

    The slope and a first shift make them log odds (J. Platt, "Probabilistic Outputs for Support
    Vector Machines", 1999). The F1 is the expected one: of probabilities it varies less than that
    of a few counted images.
    """
    from scipy.special import expit, logit

    slopes = np.ones(truth.shape[1], np.float32)
    shifts = np.zeros(truth.shape[1], np.float32)
    for label in range(truth.shape[1]):
        known = truth[:, label] >= 0
        values = logits[known, label].astype(np.float64)
        slope, shift = _fit_platt(values, truth[known, label] == 1)
        probabilities = np.sort(expit(slope * values + shift))[::-1]
        hits = np.cumsum(probabilities)
        f1 = 2 * hits / (np.arange(1, len(hits) + 1) + hits[-1])
        best = int(f1.argmax())
        # Half of the best F1 is the threshold that reaches it (Z. Lipton et al., "Optimal
        # Thresholding of Classifiers to Maximize F1 Measure", 2014). Cut off, because the logit of
        # 0 is infinite.
        threshold = min(max(float(f1[best]) / 2, 1e-4), 1 - 1e-4)
        slopes[label] = slope
        shifts[label] = shift - float(logit(threshold))
    return slopes, shifts


def _fit_platt(values: NDArray[np.float64], there: NDArray[np.bool_]) -> tuple[float, float]:
    """Return slope and shift that make log odds of the logits of one label."""
    from scipy.optimize import minimize

    count = int(there.sum())
    high = (count + SMOOTHED) / (count + 2 * SMOOTHED)
    low = SMOOTHED / (len(there) - count + 2 * SMOOTHED)
    wanted = np.where(there, high, low)

    def loss(place: NDArray[np.float64]) -> float:
        # As a power the slope stays positive:
        # a negative one would reverse the order of the images.
        scaled = np.exp(place[0]) * values + place[1]
        return float((np.logaddexp(0.0, scaled) - wanted * scaled).mean())

    log_slope, shift = minimize(loss, np.zeros(2), method="L-BFGS-B").x
    return max(float(np.exp(log_slope)), LEAST_SLOPE), float(shift)

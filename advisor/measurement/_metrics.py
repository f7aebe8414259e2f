"""Metrics of a classifier's answers: each with a 95 % interval, and with each image's share in it.

The mean of the shares is the metric, so that two files are compared image by image whatever the
metric is. Metrics that are no mean over the images are linearised: a share is the metric plus the
image's influence on it (the delta method; F. Hampel, "The influence curve and its role in robust
estimation", JASA 69, 1974).

The search scores every classifier with :func:`score_classifier`. The names of the metrics are keys
of stored evaluations.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import DEVIATIONS, LEAST_GROUP_IMAGES, ImageUnits, Interval, Metric
from advisor.measurement._box_matches import f1_of
from advisor.measurement._calibration import FLOOR, crossfit_probabilities

Floats = NDArray[np.floating[Any]]
Labels = NDArray[np.integer[Any]]

FIRST_CLASSES = 5  # Classes that :attr:`.Metric.TOP5` looks at


@dataclass(frozen=True, eq=False)
class Judged:
    """Answers of a classifier to N images with known classes, of which there is at least one.

    Of the probabilities (N, C), the first of the most probable classes is the answer;
    ``calibrated`` are those with the temperature, None where ``probabilities`` have it. ``groups``
    names the group of each image, and intervals count the images of a group together, see
    :class:`.ImageUnits`; empty without groups. ``costs`` (K, C) are those of each answer (columns)
    to an image of each of the K classes (rows), 0 for the right one.
    """

    probabilities: Floats
    labels: Labels
    calibrated: Floats | None = None
    groups: Sequence[str] = ()
    costs: Floats | None = None

    @property
    def units(self) -> ImageUnits:
        """The groups of the images."""
        return ImageUnits.of(self.groups, len(self.labels))


@dataclass(frozen=True, eq=False)
class Score:
    """A metric of some answers: at most 1, higher is better, with a 95 % interval.

    The mean of each image's share (N,) is the figure. ``note`` says what the figure belongs to,
    where the metric does not. ``images`` is the number of images that the figure is of; None for
    all N.
    """

    figure: Interval
    shares: Floats
    note: str = ""
    images: int | None = None


def score_classifier(
    rows: Floats,
    labels: Labels,
    groups: Sequence[str] = (),
    costs: Floats | None = None,
    names: Collection[str] = (),
    *,
    calibrate: bool = False,
) -> dict[str, Score]:
    """Return those of some metrics that the images allow, by name; without names those of all.

    ``rows`` are the probabilities of a file, (N, C or more); a user's own file may have further
    columns, for answers that are no class. The others are those of :class:`Judged`. With
    ``calibrate``, each image's probabilities get the temperature that others have; only the log
    loss needs it.
    """
    calibrated = None
    if calibrate and (Metric.LOG_LOSS in names or not names):
        calibrated = crossfit_probabilities(rows, labels)
    if costs is not None and rows.shape[1] > len(costs):
        # An answer that is no class costs as much as the worst one.
        further = np.repeat(costs.max(axis=1, keepdims=True), rows.shape[1] - len(costs), axis=1)
        costs = np.hstack([costs, further])
    return score_all(Judged(rows, labels, calibrated, groups, costs), names)


def score_all(judged: Judged, names: Iterable[str] = ()) -> dict[str, Score]:
    """Return those of some metrics that the images allow, by name; without names those of all."""
    by_name = {name: map_scores()[name](judged) for name in names or map_scores()}
    return {name: score for name, score in by_name.items() if score is not None}


def compute_top1(judged: Judged) -> Score:
    """Return the share of right answers, with Wilson's interval."""
    return _of_flags(_answers_of(judged) == judged.labels, judged.groups)


def compute_top5(judged: Judged) -> Score | None:
    """Return the share of images whose class is among the five most probable;
    None for five classes or fewer.

    Of equally probable classes the first ones count, as for the answer.
    """
    if judged.probabilities.shape[1] <= FIRST_CLASSES:
        return None
    best = np.argsort(-judged.probabilities, axis=1, kind="stable")[:, :FIRST_CLASSES]
    return _of_flags((best == judged.labels[:, None]).any(axis=1), judged.groups)


def mean_recall(judged: Judged) -> Score:
    """Return the mean recall of the classes that have images."""
    right = _answers_of(judged) == judged.labels
    labels = judged.labels
    classes = judged.probabilities.shape[1]
    sizes = np.bincount(labels, minlength=classes)
    recall = np.bincount(labels, right, classes) / np.maximum(sizes, 1)
    has_images = sizes > 0
    value = float(recall[has_images].mean())
    # The influence of an image: its class's recall changes by (right - recall) / size.
    shares = value + len(labels) / (has_images.sum() * sizes[labels]) * (right - recall[labels])
    effective_images = _count_effective_images(sizes[has_images])
    return Score(_of_share(value, shares, effective_images, judged), shares)


def macro_f1(judged: Judged) -> Score:
    """Return the mean F1 of the classes that have images."""
    answers = _answers_of(judged)
    labels = judged.labels
    classes = judged.probabilities.shape[1]
    right = answers == labels
    # Columns as of count_boxes: true, answered, right.
    columns = [
        np.bincount(numbers, minlength=classes) for numbers in (labels, answers, labels[right])
    ]
    table = np.stack(columns, axis=1)
    by_class = f1_of(table)
    sizes = table[:, 0]
    has_images = sizes > 0
    value = float(by_class[has_images].mean())
    f1 = np.where(has_images, by_class, 0.0)
    # The influence on the F1 of a class is (2 right - F1 (is of the class + answered so)) / (share
    # true + share found).
    weights = len(labels) / np.maximum(sizes + table[:, 1], 1)
    scale = np.where(has_images, weights, 0.0) / has_images.sum()
    shares = value + scale[labels] * (2 * right - f1[labels]) - scale[answers] * f1[answers]
    effective_images = _count_effective_images(sizes[has_images])
    return Score(_of_share(value, shares, effective_images, judged), shares)


def mean_probability(judged: Judged) -> Score:
    """Return the geometric mean of the probability of the true class: exp(-log loss).

    Probabilities are at least :data:`advisor.measurement._calibration.FLOOR`,
    so that int8 and float outputs are alike.
    """
    rows = judged.probabilities if judged.calibrated is None else judged.calibrated
    logs = np.log(np.clip(rows[np.arange(len(rows)), judged.labels].astype(float), FLOOR, 1.0))
    mean = float(logs.mean())
    half = DEVIATIONS * judged.units.error_of_mean(logs)
    # The interval is that of the mean logarithm, which is nearly normal;
    # no probability is above 1.
    value, low, high = (math.exp(min(0.0, log)) for log in (mean, mean - half, mean + half))
    return Score(Interval(value, low, high), value * (1 + logs - mean))


def cost_saved(judged: Judged) -> Score | None:
    """Return 1 - mean cost / mean cost of the cheapest constant answer;
    None without costs, or if that one is free.

    It is 1 minus the normalised expected cost of L. Ferrer, "Analysis and Comparison of
    Classification Metrics" (2022). It is below 0 where always giving one answer is cheaper. The
    interval counts one more mistake of mean cost, or answers that are all right would be a
    certainty: see :mod:`advisor.core._posterior`.
    """
    if judged.costs is None:
        return None
    costs = judged.costs[judged.labels, _answers_of(judged)]
    # What each answer to an image would cost, (N, C), and what the cheapest constant answer costs.
    costs_of_answers = judged.costs[judged.labels]
    constant_costs = costs_of_answers[:, costs_of_answers.mean(axis=0).argmin()]
    base = float(constant_costs.mean())
    # Nothing can be saved where one answer costs nothing.
    if base <= 0:
        return None
    value = 1 - float(costs.mean()) / base
    shares = value - (costs - (1 - value) * constant_costs) / base
    # The right answer costs 0, so the mean over the others is the cost of a mistake.
    mistake = float(costs_of_answers.sum(axis=1).mean()) / max(len(judged.costs) - 1, 1) / base
    variance = judged.units.error_of_mean(shares) ** 2 * len(shares)
    half = DEVIATIONS * math.sqrt((variance + mistake**2 / len(shares)) / (len(shares) + 1))
    return Score(Interval(value, value - half, min(1.0, value + half)), shares)


def worst_group(judged: Judged) -> Score | None:
    """Return the lowest top-1 of the groups with enough images; None for fewer than two of them.

    Of equal groups, the largest one counts.
    """
    right = _answers_of(judged) == judged.labels
    groups = np.asarray(judged.groups)
    names, sizes = np.unique(groups, return_counts=True)
    compared = names[sizes >= LEAST_GROUP_IMAGES]
    if len(compared) < 2:
        return None
    # The name decides between groups of one size, so that the answer is always the same.
    worst = min(
        compared, key=lambda name: (right[groups == name].mean(), -(groups == name).sum(), name)
    )
    inside = groups == worst
    score = _of_flags(right[inside], ())
    value = score.figure.value
    size = int(inside.sum())
    # Images of the other groups have no influence on the lowest group.
    shares = value + inside * len(right) / size * (right - value)
    note = f"group '{worst}' ({size} images), the lowest of {len(compared)} groups"
    return Score(score.figure, shares, note, size)


@cache
def map_scores() -> Mapping[str, Callable[[Judged], Score | None]]:
    """Return the function of each metric."""
    return {
        Metric.TOP1: compute_top1,
        Metric.BALANCED_ACCURACY: mean_recall,
        Metric.MACRO_F1: macro_f1,
        Metric.TOP5: compute_top5,
        Metric.LOG_LOSS: mean_probability,
        Metric.COST_SAVED: cost_saved,
        Metric.WORST_GROUP: worst_group,
    }


def _answers_of(judged: Judged) -> Labels:
    return np.asarray(judged.probabilities.argmax(axis=1))


def _of_flags(right: NDArray[np.bool_], groups: Sequence[str]) -> Score:
    flags = right.astype(float)
    return Score(Interval.share_of(flags, groups), flags)


def _count_effective_images(sizes: Labels) -> float:
    """Return how many images of equal weight are worth images of classes that weigh the same,
    by the classes' sizes.

    Source: L. Kish, "Survey Sampling" (1965):
    the squared sum of the weights over the sum of their squares.
    """
    return float(len(sizes) ** 2 / (1 / sizes).sum())


def _of_share(value: float, shares: Floats, effective_images: float, judged: Judged) -> Interval:
    """Return Wilson's interval of a share that so many images of equal weight would have.

    The number is the smaller one of ``effective_images``, of which those of a group count as
    fewer, and of what the spread of the shares tells.
    """
    units = judged.units
    error = units.error_of_mean(shares)
    right = (_answers_of(judged) == judged.labels).astype(float)
    trials = effective_images * (units.count_independent(right) / len(right))
    if error > 0 and 0 < value < 1:
        # The variance of a share is p (1 - p) / n:
        # solved for n, the number of images that the spread is worth.
        trials = min(effective_images, value * (1 - value) / error**2)
    wilson_interval = Interval.wilson(min(trials, value * trials), trials)
    return Interval(value, min(value, wilson_interval.low), max(value, wilson_interval.high))

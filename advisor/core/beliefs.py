"""Accuracy and drop given validation and hold-out together, and the probability that a limit is met."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

from advisor.core.evaluation import Evaluation
from advisor.core.quantity import Provenance, Quantity
from advisor.core.statistics import DEVIATIONS

VALIDATION_WEIGHT = 0.5
"""Weight of a validation image beside a hold-out image. Validation selected the candidate, so it flatters it, and its
file had learnt from fewer images. A weight below 1 is a power prior: J. G. Ibrahim and M.-H. Chen, "Power prior
distributions for regression models", Statistical Science 15 (2000)."""

TYPICAL_DROP_POINTS = 2.0
"""Standard deviation, around 0, of what compression recipes lose, before any image is seen. The recipes of
``benchmarks/results/compression.csv`` lose -1.4 to 3.0 points, those with one scale for all channels up to 9."""


@dataclass(frozen=True)
class Belief:
    """A figure as a normal distribution, in the figure's unit; a deviation of 0 is a figure without uncertainty."""

    mean: float
    deviation: float = 0.0

    def below(self, limit: float) -> float:
        """Return the probability (0-1) that the figure is at most ``limit``."""
        if self.deviation == 0:
            return float(self.mean <= limit)
        return NormalDist(self.mean, self.deviation).cdf(limit)


def accuracy_belief(evaluation: Evaluation) -> Belief | None:
    """Return top-1 in % from validation and, where it is known, from the hold-out; None where none is known."""
    robust = evaluation.capture.plain is not None  # then accuracy is the one under capture conditions
    judged = evaluation.capture.holdout if robust else evaluation.holdout_accuracy
    return _pooled(evaluation.accuracy, judged)


def drop_belief(evaluation: Evaluation) -> Belief | None:
    """Return the lost points from validation and, where it is known, from the hold-out; None where none is known.

    A measured drop is drawn towards 0 by what recipes usually lose: three images of 296 are little evidence.
    """
    pooled = _pooled(evaluation.drop, evaluation.holdout_drop)
    if pooled is None or pooled.deviation == 0:
        return pooled
    share = TYPICAL_DROP_POINTS**2 / (TYPICAL_DROP_POINTS**2 + pooled.deviation**2)
    return Belief(share * pooled.mean, math.sqrt(share) * pooled.deviation)


def without_holdout(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation without its figures on the hold-out, for what must not look at them."""
    capture = replace(evaluation.capture, holdout=None)
    return replace(evaluation, holdout_accuracy=None, holdout_drop=None, capture=capture)


def _pooled(validation: Quantity | None, holdout: Quantity | None) -> Belief | None:
    """Return the mean over the images of both parts, and its standard error."""
    if validation is None:
        return None
    parts = [(validation, VALIDATION_WEIGHT if holdout else 1.0), *([(holdout, 1.0)] if holdout else [])]
    weights = [weight * (part.n or 1) for part, weight in parts]
    total = sum(weights)
    mean = sum(weight * part.value for weight, (part, _) in zip(weights, parts, strict=True)) / total
    variance = sum(
        weight * (part.n or 1) * _deviation(part) ** 2 for weight, (part, _) in zip(weights, parts, strict=True)
    )
    return Belief(mean, math.sqrt(variance) / total)


def _deviation(quantity: Quantity) -> float:
    if quantity.provenance is not Provenance.MEASURED or quantity.low is None or quantity.high is None:
        return 0.0
    return (quantity.high - quantity.low) / (2 * DEVIATIONS)

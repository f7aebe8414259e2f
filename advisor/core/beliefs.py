"""Accuracy and drop given validation and hold-out together, and the probability that a limit is met."""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

from advisor.core.evaluation import Evaluation
from advisor.core.metrics import TOP1
from advisor.core.quantity import DEVIATIONS, Provenance, Quantity

VALIDATION_WEIGHT = 0.5
"""Weight of a validation image beside a hold-out image. Validation selected the candidate, so it flatters it, and its
file had learnt from fewer images. A weight below 1 is a power prior: J. G. Ibrahim and M.-H. Chen, "Power prior
distributions for regression models", Statistical Science 15 (2000)."""

TYPICAL_DROPS = ((0.84, 2.0), (0.16, 20.0))
"""Losses of compression recipes in points, before any image is seen: shares of normal distributions around 0 and their
standard deviations. Of the 45 forms in ``benchmarks/results/compression.csv``, 38 lose -1.6 to 3.8 points. The other 7
lose 5.5 to 43.9 points, 21 in the root mean square."""


@dataclass(frozen=True)
class Belief:
    """A figure as a mixture of normal distributions.

    Attributes:
        parts: share, mean and standard deviation of each distribution; a deviation of 0 stands for no uncertainty.
    """

    parts: tuple[tuple[float, float, float], ...]

    @property
    def mean(self) -> float:
        """The expected figure."""
        return sum(share * mean for share, mean, _ in self.parts)

    @property
    def certain(self) -> bool:
        """True if the figure has no uncertainty."""
        return all(deviation == 0 for *_, deviation in self.parts)

    def below(self, limit: float) -> float:
        """Return the probability (0-1) that the figure is at most ``limit``."""
        if self.certain:
            return float(self.mean <= limit)
        return sum(share * NormalDist(mean, deviation).cdf(limit) for share, mean, deviation in self.parts)


def accuracy_belief(evaluation: Evaluation) -> Belief | None:
    """Return the accuracy in % from validation and, where it is known, from the hold-out; None where none is known."""
    robust = evaluation.capture.plain is not None  # then accuracy is the one under capture conditions
    judged = evaluation.capture.holdout if robust else evaluation.holdout_accuracy
    return _pooled(evaluation.accuracy, judged)


def metric_belief(evaluation: Evaluation, metric: str) -> Belief | None:
    """Return a metric in % from validation and, where it is known, from the hold-out; None where none is known.

    Args:
        evaluation: of a classifier.
        metric: one of :data:`advisor.core.metrics.METRICS`.
    """
    return _pooled(*metric_on_parts(evaluation, metric))


def metric_on_parts(evaluation: Evaluation, metric: str) -> tuple[Quantity | None, Quantity | None]:
    """Return a metric in % on validation and on the hold-out; None where it is not known."""
    holdout = evaluation.holdout_answers
    return evaluation.answers.metrics.get(metric), holdout.metrics.get(metric) if holdout else None


def top1_on_parts(evaluation: Evaluation) -> tuple[Quantity | None, Quantity | None]:
    """Return top-1 in % on plain images of validation and on the hold-out, whatever metric decides.

    Of detectors it is their own figure. None where it is not known.
    """
    plain, judged = metric_on_parts(evaluation, TOP1)
    return plain or evaluation.capture.plain or evaluation.accuracy, judged or evaluation.holdout_accuracy


def drop_belief(evaluation: Evaluation) -> Belief | None:
    """Return the lost points from validation and, where it is known, from the hold-out; None where none is known.

    A measured drop is drawn towards 0 by what recipes usually lose: three images of 296 are little evidence. A drop
    that recipes do not usually have is hardly drawn. The posterior of a mixture of normal priors is such a mixture too:
    A. Gelman et al., "Bayesian Data Analysis", 3rd edition (2013), section 2.4.
    """
    pooled = _pooled(evaluation.drop, evaluation.holdout_drop)
    if pooled is None or pooled.certain:
        return pooled
    ((_, lost, error),) = pooled.parts
    fits = [share * NormalDist(0, math.hypot(typical, error)).pdf(lost) for share, typical in TYPICAL_DROPS]
    kept = [typical**2 / (typical**2 + error**2) for _, typical in TYPICAL_DROPS]
    return Belief(
        tuple((fit / sum(fits), part * lost, math.sqrt(part) * error) for fit, part in zip(fits, kept, strict=True))
    )


def without_holdout(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation without its figures on the hold-out, for what must not look at them."""
    capture = replace(evaluation.capture, holdout=None)
    return replace(evaluation, holdout_accuracy=None, holdout_drop=None, holdout_answers=None, capture=capture)


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
    return Belief(((1.0, mean, math.sqrt(variance) / total),))


def _deviation(quantity: Quantity) -> float:
    if quantity.provenance is not Provenance.MEASURED or quantity.low is None or quantity.high is None:
        return 0.0
    return (quantity.high - quantity.low) / (2 * DEVIATIONS)

"""Figures that follow from others: the accuracy of both parts of the images together, and in new
conditions.

``_limits.py`` judges limits of accuracy and drop by a :class:`Belief`, so that three images do not
break a limit. The engine adds the figure in new conditions to each evaluation that it scores.
"""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

from advisor.core._evaluation import Evaluation
from advisor.core._evaluation_facts import NewConditions
from advisor.core._quantity import Provenance, Quantity
from advisor.core._training import recipe_of

VALIDATION_WEIGHT = 0.5
"""Weight of a validation image beside a hold-out image. Validation selected the candidate, so it
flatters it, and its file had learnt from fewer images. A weight below 1 is a power prior: J. G.
Ibrahim and M.-H. Chen, "Power prior distributions for regression models", Statistical Science 15
(2000).
"""

TYPICAL_DROPS = ((0.84, 2.0), (0.16, 20.0))
"""Losses of compression recipes in points, before any image is seen: shares of normal
distributions around 0 and their standard deviations. Of the 45 forms in
``benchmarks/results/compression.csv``, 38 lose -1.6 to 3.8 points. The other 7 lose 5.5 to 43.9
points, 21 in the root mean square.
"""

OWN_HOLDOUT = "the hold-out of your own split, run in LiteRT"

LEVEL = 0.95
LEAST = 1e-3
"""Accuracies are kept at this distance from 0 and 1, where log odds are infinite."""


@dataclass(frozen=True)
class Belief:
    """A figure as a mixture of normal distributions."""

    #: share, mean and standard deviation of each distribution;
    #: a deviation of 0 stands for no uncertainty.
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
        return sum(
            share * NormalDist(mean, deviation).cdf(limit) for share, mean, deviation in self.parts
        )


def accuracy_belief(evaluation: Evaluation) -> Belief | None:
    """Return the accuracy in % from validation and, where it is known, from the hold-out;
    None where none is known.
    """
    # Then accuracy is the one under capture conditions.
    robust = evaluation.capture.plain is not None
    judged = evaluation.capture.holdout if robust else evaluation.holdout_accuracy
    return _pool_parts(evaluation.accuracy, judged)


def metric_belief(evaluation: Evaluation, metric: str) -> Belief | None:
    """Return a metric in % from validation and, where it is known, from the hold-out;
    None where none is known.
    """
    return _pool_parts(*evaluation.metric_on_parts(metric))


def metric_drop_belief(evaluation: Evaluation, metric: str) -> Belief | None:
    """Return the points of a metric that are lost on validation; None where they are not known.

    They are not drawn towards 0: small objects are lost unnoticed where the accuracy hardly falls.
    """
    return _pool_parts(evaluation.answers.metric_drops.get(metric), None)


def drop_belief(evaluation: Evaluation) -> Belief | None:
    """Return the lost points from validation and, where it is known, from the hold-out;
    None where none is known.

    A measured drop is drawn towards 0 by what recipes usually lose: three images of 296 are little
    evidence. A drop that recipes do not usually have is hardly drawn. The posterior of a mixture
    of normal priors is such a mixture too: A. Gelman et al., "Bayesian Data Analysis", 3rd edition
    (2013), section 2.4.
    """
    pooled = _pool_parts(evaluation.drop, evaluation.holdout_drop)
    # Without an error there is no doubt that a prior could weigh.
    if pooled is None or pooled.certain:
        return pooled
    ((_, lost, error),) = pooled.parts
    fits = []
    for share, typical in TYPICAL_DROPS:
        fits.append(share * NormalDist(0, math.hypot(typical, error)).pdf(lost))
    weights = [typical**2 / (typical**2 + error**2) for _, typical in TYPICAL_DROPS]
    return Belief(
        tuple(
            (fit / sum(fits), part * lost, math.sqrt(part) * error)
            for fit, part in zip(fits, weights, strict=True)
        )
    )


def _pool_parts(validation: Quantity | None, holdout: Quantity | None) -> Belief | None:
    """Return the mean over the images of both parts, and its standard error."""
    if validation is None:
        return None
    if holdout is None:
        parts = [(validation, 1.0)]
    else:
        parts = [(validation, VALIDATION_WEIGHT), (holdout, 1.0)]
    total = 0.0
    weighted_sum = 0.0
    variance = 0.0
    for part, weight_of_image in parts:
        weight = weight_of_image * (part.n or 1)
        total += weight
        weighted_sum += weight * part.value
        variance += weight * (part.n or 1) * (part.standard_error or 0.0) ** 2
    return Belief(((1.0, weighted_sum / total, math.sqrt(variance) / total),))


def with_new_conditions(evaluation: Evaluation, own_holdout: bool = False) -> Evaluation:
    """Return the evaluation with its top-1 in new conditions:
    of an ``own_holdout`` its figure, else an estimate.

    Images without groups of one occasion are no evidence of another one: then there is no figure.
    """
    facts = evaluation.expectation
    plain, judged = evaluation.top1_on_parts
    if own_holdout:
        return replace(
            evaluation, new_conditions=replace(judged, source=OWN_HOLDOUT) if judged else None
        )
    # Images of one occasion cannot show what another one costs:
    # no figure is better than one that looks known.
    if facts is None or plain is None or not facts.grouped:
        return evaluation
    finetuned = recipe_of(evaluation.configuration.training).tunes_backbone
    estimate = in_new_conditions(plain, facts, finetuned)
    # Validation may flatter a candidate.
    if judged and judged.value < estimate.value:
        low = estimate.value if estimate.low is None else estimate.low
        estimate = replace(estimate, value=judged.value, low=min(low, judged.value))
    return replace(evaluation, new_conditions=estimate)


def in_new_conditions(plain: Quantity, facts: NewConditions, finetuned: bool = False) -> Quantity:
    """Return the estimated top-1 in % on images of another occasion.

    The plain figure, on validation, is multiplied by the share of right answers that is kept.
    Three things make the interval, in log odds: the range of that share, the differences between
    occasions, and the interval of the plain figure. The share of the head on frozen features
    stands for a network that was ``finetuned``.
    """
    share = plain.value / 100
    part = facts.kept
    visits = NormalDist().inv_cdf(0.5 + LEVEL / 2) * facts.sd
    below, above = (
        abs(plain.value - (plain.value if end is None else end)) / 100
        for end in (plain.low, plain.high)
    )
    middle = _to_log_odds(share * part)
    down = math.hypot(
        middle - _to_log_odds(share * facts.kept_low),
        middle - _to_log_odds(share * part - math.hypot(part * below, visits)),
    )
    up = math.hypot(
        _to_log_odds(share * facts.kept_high) - middle,
        _to_log_odds(share * part + math.hypot(part * above, visits)) - middle,
    )
    value = 100 * share * part
    ends = 100 * _from_log_odds(middle - down), 100 * _from_log_odds(middle + up)
    return Quantity(
        value,
        "%",
        Provenance.ESTIMATED,
        min(value, ends[0]),
        max(value, ends[1]),
        LEVEL,
        facts.images,
        _describe_source(facts, finetuned),
    )


def _describe_source(facts: NewConditions, finetuned: bool) -> str:
    whose = "of the head on the frozen network" if finetuned else "of the head"
    return (
        f"{100 * facts.kept:.0f} % of the right answers {whose} stay right if the whole cluster of"
        f" similar images is left out of training ({facts.clusters} clusters of {facts.images}"
        " images)"
    )


def _to_log_odds(share: float) -> float:
    inside = min(1 - LEAST, max(LEAST, share))
    return math.log(inside / (1 - inside))


def _from_log_odds(log_odds: float) -> float:
    # A share of 0 or 1 was cut to a finite number on the way in, and has to come back as itself.
    certain = _to_log_odds(1.0) - 1e-9
    if abs(log_odds) >= certain:
        return float(log_odds > 0)
    return 1 / (1 + math.exp(-log_odds))

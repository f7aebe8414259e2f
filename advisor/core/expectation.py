"""The accuracy to expect in new conditions: on images of another visit, camera or day."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

from advisor.core.beliefs import top1_on_parts
from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import NewConditions
from advisor.core.quantity import Provenance, Quantity
from advisor.core.training import recipe_of

OWN_HOLDOUT = "the hold-out of your own split, run in LiteRT"

LEVEL = 0.95
LEAST = 1e-3
"""Accuracies are kept at this distance from 0 and 1, where log odds are infinite."""


def with_new_conditions(evaluation: Evaluation, own_holdout: bool = False) -> Evaluation:
    """Return the evaluation with its top-1 in new conditions, if it can be estimated; of detectors, their figure.

    Args:
        evaluation: a candidate with its measured accuracies.
        own_holdout: the user's own split names the hold-out, which then is the figure itself.
    """
    facts = evaluation.expectation
    plain, judged = top1_on_parts(evaluation)
    if own_holdout:
        return replace(evaluation, new_conditions=replace(judged, source=OWN_HOLDOUT) if judged else None)
    if facts is None or plain is None:
        return evaluation
    if judged and not facts.grouped:
        plain = judged
    finetuned = recipe_of(evaluation.configuration.training).tunes_backbone
    return replace(evaluation, new_conditions=_at_most(in_new_conditions(plain, facts, finetuned), judged))


def in_new_conditions(plain: Quantity, facts: NewConditions, finetuned: bool = False) -> Quantity:
    """Return the estimated top-1 in % on images of another occasion.

    The plain figure is multiplied by the share of right answers that is kept. Three things make the interval,
    in log odds: the range of that share, the differences between occasions, and the interval of the plain figure.

    Args:
        plain: the top-1 in % on validation, which the share belongs to; without groups, the hold-out does as well.
        facts: of the card's features.
        finetuned: the network itself was trained, so the share of the head on frozen features stands for it.
    """
    share, kept = plain.value / 100, facts.kept
    visits = NormalDist().inv_cdf(0.5 + LEVEL / 2) * facts.sd
    below, above = (abs(plain.value - (plain.value if end is None else end)) / 100 for end in (plain.low, plain.high))
    middle = _log_odds(share * kept)
    down = math.hypot(
        middle - _log_odds(share * facts.kept_low), middle - _log_odds(share * kept - math.hypot(kept * below, visits))
    )
    up = math.hypot(
        _log_odds(share * facts.kept_high) - middle, _log_odds(share * kept + math.hypot(kept * above, visits)) - middle
    )
    value = 100 * share * kept
    ends = 100 * _share(middle - down), 100 * _share(middle + up)
    return Quantity(
        value, "%", Provenance.ESTIMATED, min(value, ends[0]), max(value, ends[1]), LEVEL, facts.images,
        _source(facts, finetuned),
    )  # fmt: skip


def _at_most(estimate: Quantity, judged: Quantity | None) -> Quantity:
    """Return the estimate, or the figure of the hold-out if that is lower: validation may flatter a candidate."""
    if judged is None or estimate.value <= judged.value:
        return estimate
    low = estimate.value if estimate.low is None else estimate.low
    return replace(estimate, value=judged.value, low=min(low, judged.value))


def _source(facts: NewConditions, finetuned: bool) -> str:
    if not facts.grouped:
        return (
            f"the {facts.images} images show no groups of one visit, so the figure on images like these is the only "
            "evidence; conditions that no image shows are not covered"
        )
    whose = "of the head on the frozen network" if finetuned else "of the head"
    return (
        f"{100 * facts.kept:.0f} % of the right answers {whose} stay right if the whole cluster of similar images is "
        f"left out of training ({facts.clusters} clusters of {facts.images} images)"
    )


def _log_odds(share: float) -> float:
    inside = min(1 - LEAST, max(LEAST, share))
    return math.log(inside / (1 - inside))


def _share(log_odds: float) -> float:
    certain = _log_odds(1.0) - 1e-9
    return float(log_odds > 0) if abs(log_odds) >= certain else 1 / (1 + math.exp(-log_odds))

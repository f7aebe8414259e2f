"""The search space as the sampler's table: what is known of each configuration before it is evaluated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from advisor.catalog.cards import Card
from advisor.core.evaluation import Configuration
from advisor.engine.pipeline.cost import rough_ms, rough_size
from advisor.engine.scheduling.cost_estimates import CostEstimate, CostEstimates
from advisor.engine.scheduling.trial_record import parameters
from advisor.engine.space.plan import Plan
from advisor.engine.space.priors import prior_accuracy

if TYPE_CHECKING:
    from advisor.engine.scheduling.sampler import Candidate

TRAINING_GAIN: Mapping[str, float] = {"finetune_top": 2.0, "finetune_all": 3.0}
"""Points that the prior expects of a training over the head alone; the run's own results correct it."""


def candidate_table(plan: Plan, estimates: CostEstimates) -> list[Candidate]:
    """Return a candidate for each configuration, in the order of ``plan.configurations()``.

    The prior is the published accuracy. Latency, size and seconds come from the estimates, or from a rough model for
    cards of which nothing was measured.
    """
    from advisor.engine.scheduling.sampler import Candidate

    cards = {card.name: card for card in plan.cards}
    known = {name: estimates.of(name) for name in estimates.measured_cards}
    costs = {
        (card.name, variant): _cost_s(plan, card, variant) for card in plan.cards for variant in plan.workload.variants
    }
    table = []
    for each in plan.configurations():
        card = cards[each.card]
        cost_s = costs[each.card, (each.training, each.compression)]
        estimate = known[each.card][each] if each.card in known else _rough(card, each, cost_s)
        prior = prior_accuracy(card, each.compression) + TRAINING_GAIN.get(each.training, 0.0)
        table.append(Candidate(parameters(each), prior, estimate.known, _features(card, each), estimate.cost_s))
    return table


def _cost_s(plan: Plan, card: Card, variant: tuple[str, str]) -> float:
    """Return the seconds of one thread count: an artefact is made once for all of them."""
    return plan.costs.variant_s(card, variant) / len(plan.threads)


def _rough(card: Card, configuration: Configuration, cost_s: float) -> CostEstimate:
    recipe, threads = configuration.compression, configuration.target.threads
    return CostEstimate(rough_ms(card, recipe, threads), rough_size(card, recipe), cost_s)


def _features(card: Card, configuration: Configuration) -> dict[str, float | str]:
    return {
        "card": card.name,
        "family": card.family,
        "training": configuration.training,
        "recipe": configuration.compression,
        "input": float(card.input_size),
        "log_params": math.log(max(card.params, 1)),
        "log_macs": math.log(max(card.macs, 1)),
    }

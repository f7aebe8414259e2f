"""The search space as the sampler's table: what is known of each configuration before it is evaluated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from advisor.catalog.cards import Card
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

    known = {name: estimates.of(name) for name in estimates.measured_cards}
    artefacts = {(card.name, *variant): _artefact(plan, card, *variant) for card, variant in _variants(plan)}
    table = []
    for each in plan.configurations():
        artefact = artefacts[each.card, each.training, each.compression]
        estimate = known[each.card][each] if each.card in known else artefact.rough(each.target.threads)
        table.append(Candidate(parameters(each), artefact.prior, estimate.known, artefact.features, estimate.cost_s))
    return table


@dataclass(frozen=True)
class _Artefact:
    """What the thread counts of one artefact have in common.

    Attributes:
        card: the model card.
        compression: compression recipe.
        prior: expected accuracy in %.
        features: what the accuracy may depend on.
        cost_s: seconds of one thread count; the artefact is made once for all of them.
    """

    card: Card
    compression: str
    prior: float
    features: Mapping[str, float | str]
    cost_s: float

    def rough(self, threads: int) -> CostEstimate:
        """Return the estimate for so many threads before anything of the card was measured."""
        latency_ms = rough_ms(self.card, self.compression, threads)
        return CostEstimate(latency_ms, rough_size(self.card, self.compression), self.cost_s)


def _variants(plan: Plan) -> Iterator[tuple[Card, tuple[str, str]]]:
    return product(plan.cards, plan.workload.variants)


def _artefact(plan: Plan, card: Card, training: str, compression: str) -> _Artefact:
    prior = prior_accuracy(card, compression) + TRAINING_GAIN.get(training, 0.0)
    cost_s = plan.costs.variant_s(card, (training, compression)) / len(plan.threads)
    return _Artefact(card, compression, prior, _features(card, training, compression), cost_s)


def _features(card: Card, training: str, compression: str) -> dict[str, float | str]:
    return {
        "card": card.name,
        "family": card.family,
        "training": training,
        "recipe": compression,
        "input": float(card.input_size),
        "log_params": math.log(max(card.params, 1)),
        "log_macs": math.log(max(card.macs, 1)),
    }

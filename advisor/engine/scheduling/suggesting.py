"""The sampler of a study: what it knows of every candidate, what may start now, and what was measured meanwhile."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from advisor.catalog.cards import Card
from advisor.core.evaluation import Evaluation
from advisor.core.names import ADVISOR, GP, NSGA2, RANDOM, TPE
from advisor.core.training import recipe_of
from advisor.engine.scheduling.cost_estimates import CostEstimates, parameters
from advisor.engine.scheduling.halving import CardTraining, HasCapacity, SuccessiveHalving
from advisor.engine.space.plan import Plan, prior_accuracy

if TYPE_CHECKING:
    from optuna import Study
    from optuna.samplers import BaseSampler

    from advisor.engine.scheduling.sampler import AdvisorSampler, Candidate

UPDATE_SHARE = 0.02
"""The sampler scores its whole table again after an update. So updates wait until so large a share of the results is
new: 2 % of all results."""


class Suggester:
    """One of Optuna's own samplers, which knows nothing of the search space and has no expectation.

    Attributes:
        sampler: suggests the trials' parameters.
        suggests_runnable: it never suggests what may not start now.
    """

    suggests_runnable = False

    def __init__(self, sampler: BaseSampler) -> None:
        self.sampler = sampler

    def add(self, evaluation: Evaluation) -> None:
        """Note a result."""

    def prepare(self, has_capacity: HasCapacity) -> None:
        """Tell the sampler what may start now."""

    def expected_gain(self, study: Study, seconds: float) -> float:
        """Return what ``seconds`` more are expected to add, as a share of the front's hypervolume.

        Infinite if the sampler has no expectation.
        """
        return float("inf")


class AdvisorSuggester(Suggester):
    """The advisor's sampler, with what is known of every candidate."""

    suggests_runnable = True
    sampler: AdvisorSampler

    def __init__(self, plan: Plan, halving: SuccessiveHalving, seed: int, done: Iterable[Evaluation]) -> None:
        from advisor.engine.scheduling.sampler import AdvisorSampler, Objective

        self._halving, self._estimates = halving, CostEstimates(plan)
        self._changed: dict[str, None] = {}
        self._results = 0
        for evaluation in done:
            self.add(evaluation)
        self._changed.clear()
        self._rows: dict[CardTraining, list[int]] = {}
        for row, configuration in enumerate(plan.configurations()):
            self._rows.setdefault(CardTraining.of(configuration), []).append(row)
        objectives = (
            Objective("accuracy", "maximize"),
            Objective("latency", "minimize", log=True),
            Objective("size", "minimize", log=True),
        )
        super().__init__(AdvisorSampler(candidate_table(plan, self._estimates), objectives, seed=seed))

    def add(self, evaluation: Evaluation) -> None:
        """Note a result and which card's estimates it changes."""
        card = self._estimates.add(evaluation)
        self._results += 1
        if card is not None:
            self._changed[card] = None

    def prepare(self, has_capacity: HasCapacity) -> None:
        """Block the candidates that may not start now, and update the estimates."""
        import numpy as np

        blocked = np.ones(sum(map(len, self._rows.values())), bool)
        for unit in self._halving.runnable(has_capacity):
            blocked[self._rows[unit]] = False
        self.sampler.block(blocked)
        self._update()

    def expected_gain(self, study: Study, seconds: float) -> float:
        """Return what ``seconds`` more are expected to add, as a share of the front's hypervolume."""
        self._update()
        return self.sampler.expected_gain(study, seconds)

    def _update(self) -> None:
        """Replace rough figures by measured ones, for every configuration of the cards that changed."""
        if len(self._changed) <= UPDATE_SHARE * self._results:
            return
        for card in self._changed:
            for configuration, estimate in self._estimates.of(card).items():
                self.sampler.update_known(parameters(configuration), estimate.known, estimate.cost_s)
        self._changed.clear()


def make_suggester(
    name: str, plan: Plan, halving: SuccessiveHalving, seed: int, done: Iterable[Evaluation]
) -> Suggester:
    """Return the sampler called ``name``, one of :data:`advisor.core.names.SAMPLERS`."""
    if name == ADVISOR:
        return AdvisorSuggester(plan, halving, seed, done)
    from optuna import samplers

    classes = {
        TPE: samplers.TPESampler,
        NSGA2: samplers.NSGAIISampler,
        GP: samplers.GPSampler,
        RANDOM: samplers.RandomSampler,
    }
    return Suggester(classes[name](seed=seed))


def candidate_table(plan: Plan, estimates: CostEstimates) -> list[Candidate]:
    """Return a candidate for each configuration, in the order of ``plan.configurations()``.

    The prior is the published accuracy. Latency, size and seconds come from the estimates.
    """
    from advisor.engine.scheduling.sampler import Candidate

    estimates_of = {card.name: estimates.of(card.name) for card in plan.cards}
    table = []
    for each in plan.configurations():
        card, estimate = plan.cards_by_name[each.card], estimates_of[each.card][each]
        prior = prior_accuracy(card, each.compression) + recipe_of(each.training).points
        features = _features(card, each.training, each.compression)
        table.append(Candidate(parameters(each), prior, estimate.known, features, estimate.cost_s))
    return table


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

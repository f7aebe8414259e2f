"""Estimate latency, size and remaining seconds of configurations by finished evaluations of the same card."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from advisor.catalog.cards import Card
from advisor.core.budget import Budget
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.core.expectation import without_holdout
from advisor.core.training import recipe_of
from advisor.engine.pipeline.cost import rough_ms, rough_size
from advisor.engine.space.plan import Plan

if TYPE_CHECKING:
    from optuna.distributions import CategoricalDistribution
    from optuna.trial import FrozenTrial, TrialState


NOTHING_LEFT_S = 0.05
"""Seconds that another thread count of a measured artefact takes: all are timed in one go."""

FLOATS = ("float32", "float16")
"""Forms that answer as the float file does."""


@dataclass(frozen=True)
class CostEstimate:
    """Expected latency in ms and size in bytes of one configuration, and the seconds of evaluating it."""

    latency_ms: float
    size_bytes: float
    cost_s: float

    @property
    def known(self) -> dict[str, float]:
        """The figures by the names of the study's objectives."""
        return {"latency": self.latency_ms, "size": self.size_bytes}


@dataclass
class _Measured:
    """Measurements of one card. Latency and size hardly depend on its training.

    Attributes:
        latency_ms: by compression recipe and thread count.
        size_bytes: by compression recipe.
        done: trainings and compression recipes that were evaluated.
    """

    latency_ms: dict[tuple[str, int], float] = field(default_factory=dict)
    size_bytes: dict[str, float] = field(default_factory=dict)
    done: set[tuple[str, str]] = field(default_factory=set)


class CostEstimates:
    """Collects what was measured and corrects the rough figures of the same card by it.

    The other forms of a card are expected to be off by as much as those that were measured (geometric mean). This is
    closer than MACs and parameters can be: the head has replaced the published classifier, and the machine is known.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._measured: dict[str, _Measured] = {}

    def add(self, evaluation: Evaluation) -> str | None:
        """Add an evaluation; return the card whose estimates changed, None if none did."""
        configuration = evaluation.configuration
        if evaluation.status is not Status.OK or evaluation.latency is None or evaluation.size is None:
            return None
        measured = self._measured.setdefault(configuration.card, _Measured())
        measured.latency_ms[configuration.compression, configuration.target.threads] = evaluation.latency.value
        measured.size_bytes[configuration.compression] = evaluation.size.value
        measured.done.add((configuration.training, configuration.compression))
        return configuration.card

    def of(self, name: str) -> Mapping[Configuration, CostEstimate]:
        """Return the estimates of every configuration of a card; rough ones if nothing of it was measured."""
        card, measured, plan = self._plan.cards_by_name[name], self._measured.get(name, _Measured()), self._plan
        slower = _mean_ratio((ms, rough_ms(card, *point)) for point, ms in measured.latency_ms.items())
        larger = _mean_ratio((size, rough_size(card, recipe)) for recipe, size in measured.size_bytes.items())
        ratios = {recipe: _latency_ratio(card, measured, recipe, slower) for recipe in plan.forms}
        sizes = {recipe: measured.size_bytes.get(recipe, larger * rough_size(card, recipe)) for recipe in plan.forms}
        costs = {variant: self._cost_s(card, measured, *variant) for variant in plan.workload.variants_of(card)}

        found = {}
        for each in plan.configurations():
            if each.card == name:
                recipe, threads = each.compression, each.target.threads
                ms = measured.latency_ms.get((recipe, threads), ratios[recipe] * rough_ms(card, recipe, threads))
                found[each] = CostEstimate(ms, sizes[recipe], costs[each.training, recipe])
        return found

    def _cost_s(self, card: Card, measured: _Measured, training: str, recipe: str) -> float:
        """Return the seconds that are left: all thread counts are timed in one go, all recipes share a training."""
        plan = self._plan
        if not measured.done:
            return plan.costs.variant_s(card, (training, recipe)) / len(plan.threads)
        if (training, recipe) in measured.done:
            return NOTHING_LEFT_S
        costs = plan.costs.of_card(card)
        own = costs.own_s[training, recipe] / len(plan.threads)
        trained = any(training == done for done, _ in measured.done)
        return own if trained else own + costs.trained_s[training] / len(plan.recipes) / len(plan.threads)


def also_shown(evaluation: Evaluation, recipes: Collection[str]) -> list[tuple[Configuration, float]]:
    """Return other forms whose accuracy in % an evaluation has shown too.

    Every form is compared with the float32 one on the same images, so the accuracy of that one is known as well.
    float16 rounds weights to 11 bits, which changed at most one answer in 500 (``benchmarks/results/compression.md``).
    """
    accuracy, drop = evaluation.accuracy, evaluation.drop
    if evaluation.status is not Status.OK or accuracy is None or drop is None or evaluation.card_facts.as_it_is:
        return []
    value = accuracy.value + drop.value
    own = evaluation.configuration.compression
    forms = [name for name in FLOATS if name in recipes and name != own]
    return [(replace(evaluation.configuration, compression=name), value) for name in forms]


def _latency_ratio(card: Card, measured: _Measured, recipe: str, otherwise: float) -> float:
    """Return measured over rough latency of a recipe, from its other thread counts as far as they were measured."""
    same = [(ms, rough_ms(card, *point)) for point, ms in measured.latency_ms.items() if point[0] == recipe]
    return _mean_ratio(same) if same else otherwise


def _mean_ratio(pairs: Iterable[tuple[float, float]]) -> float:
    ratios = [math.log(measured / rough) for measured, rough in pairs if measured > 0]
    return math.exp(sum(ratios) / len(ratios)) if ratios else 1.0


METRICS = ("accuracy", "latency", "size")
PARAMETERS = frozenset(("card", "training", "compression", "threads"))

LARGEST = 1e12
"""Stands for an excess without end: a study's constraints must be finite."""


def parameters(configuration: Configuration) -> dict[str, str | int]:
    """Return what the study varies."""
    return {
        "card": configuration.card,
        "training": configuration.training,
        "compression": configuration.compression,
        "threads": configuration.target.threads,
    }


def configuration_of(plan: Plan, params: Mapping[str, Any]) -> Configuration:
    """Return the configuration of a trial's parameters."""
    return plan.configuration(params["card"], params["compression"], params["threads"], params["training"])


def distributions(plan: Plan) -> dict[str, CategoricalDistribution]:
    """Return the values that each parameter takes."""
    from optuna.distributions import CategoricalDistribution

    return {
        "card": CategoricalDistribution([card.name for card in plan.cards]),
        "training": CategoricalDistribution(list(plan.trainings)),
        "compression": CategoricalDistribution(list(plan.forms)),
        "threads": CategoricalDistribution(list(plan.threads)),
    }


def values(evaluation: Evaluation) -> list[float] | None:
    """Return the objectives' values, None if the evaluation lacks one."""
    quantities = (evaluation.accuracy, evaluation.latency, evaluation.size)
    found = [quantity.value for quantity in quantities if quantity is not None]
    return found if evaluation.status is Status.OK and len(found) == len(METRICS) else None


def constraints(evaluation: Evaluation, budget: Budget) -> dict[str, float]:
    """Return by how much each limit is exceeded, below zero if it is met."""
    return {limit: min(excess, LARGEST) for limit, excess in budget.excesses(without_holdout(evaluation)).items()}


def attributes(evaluation: Evaluation, recipes: Collection[str]) -> dict[str, object]:
    """Return the trial's attributes: status, reason, what it showed of other forms, and whether it only teaches."""
    from advisor.engine.scheduling.sampler import ALSO, TEACHES_ONLY

    found: dict[str, object] = {"status": evaluation.status.value}
    if evaluation.reason:
        found["reason"] = evaluation.reason
    if shown := also_shown(evaluation, recipes):
        found[ALSO] = [[parameters(each), value] for each, value in shown]
    if recipe_of(evaluation.configuration.training).first_look:
        found[TEACHES_ONLY] = True
    return found


def state(evaluation: Evaluation) -> TrialState:
    """Return the state of a trial after its evaluation."""
    from optuna.trial import TrialState

    if values(evaluation) is not None:
        return TrialState.COMPLETE
    return TrialState.FAIL if evaluation.status is Status.FAILED else TrialState.PRUNED


def finished_trial(evaluation: Evaluation, plan: Plan, budget: Budget) -> FrozenTrial:
    """Return an evaluation as a finished trial."""
    from optuna.trial import create_trial

    found = values(evaluation)
    return create_trial(
        state=state(evaluation),
        values=found,
        params={**parameters(evaluation.configuration)},
        distributions={**distributions(plan)},
        user_attrs=attributes(evaluation, plan.recipes),
        constraints=constraints(evaluation, budget) if found else None,
    )

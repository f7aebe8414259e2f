"""An evaluation as a trial of the study: parameters, values, constraints and attributes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from advisor.core.beliefs import without_holdout
from advisor.core.budget import Budget
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.core.training import recipe_of
from advisor.engine.scheduling.cost_estimates import also_shown
from advisor.engine.space.plan import Plan

if TYPE_CHECKING:
    from optuna.distributions import CategoricalDistribution
    from optuna.trial import FrozenTrial, TrialState

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

"""An evaluation as a trial of the study has it: parameters, values, constraints and what it says beside them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from advisor.core.budget import Budget
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.core.training import HEAD_SUBSET
from advisor.engine.scheduling.cost_estimates import also_shown
from advisor.engine.space.plan import Plan

METRICS = ("accuracy", "latency", "size")
PARAMETERS = frozenset(("card", "training", "compression", "threads"))

LARGEST = 1e12
"""Stands for a limit that is broken without end: what a study takes as a constraint is finite."""


def parameters(configuration: Configuration) -> dict[str, Any]:
    """Return what the study varies."""
    return {
        "card": configuration.card,
        "training": configuration.training,
        "compression": configuration.compression,
        "threads": configuration.target.threads,
    }


def distributions(plan: Plan) -> dict[str, Any]:
    """Return the values that each parameter takes."""
    from optuna.distributions import CategoricalDistribution

    return {
        "card": CategoricalDistribution([card.name for card in plan.cards]),
        "training": CategoricalDistribution(list(plan.trainings)),
        "compression": CategoricalDistribution(list(plan.recipes)),
        "threads": CategoricalDistribution(list(plan.threads)),
    }


def values(evaluation: Evaluation) -> list[float] | None:
    """Return the objectives' values, None where the evaluation lacks one."""
    quantities = (evaluation.accuracy, evaluation.latency, evaluation.size)
    found = [quantity.value for quantity in quantities if quantity is not None]
    return found if evaluation.status is Status.OK and len(found) == len(METRICS) else None


def constraints(evaluation: Evaluation, budget: Budget) -> dict[str, float]:
    """Return by how much each limit is exceeded, below zero where it is met."""
    return {limit: min(excess, LARGEST) for limit, excess in budget.excesses(evaluation).items()}


def attributes(evaluation: Evaluation, recipes: Collection[str]) -> dict[str, Any]:
    """Return what a trial says beside its values: its end, what it showed of other forms, and that it is no answer."""
    from advisor.engine.scheduling.sampler import ALSO, TEACHES_ONLY

    found: dict[str, Any] = {"status": evaluation.status.value}
    if evaluation.reason:
        found["reason"] = evaluation.reason
    if shown := also_shown(evaluation, recipes):
        found[ALSO] = [[parameters(each), value] for each, value in shown]
    if evaluation.configuration.training == HEAD_SUBSET:
        found[TEACHES_ONLY] = True
    return found


def state(evaluation: Evaluation) -> Any:
    """Return the state that the evaluation leaves its trial in."""
    from optuna.trial import TrialState

    if values(evaluation) is not None:
        return TrialState.COMPLETE
    return TrialState.FAIL if evaluation.status is Status.FAILED else TrialState.PRUNED

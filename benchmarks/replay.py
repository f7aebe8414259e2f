"""A search of the product whose evaluations are looked up. All that it decides is the product's own code."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from advisor.core.budget import Budget
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.core.quantity import Provenance, Quantity, wilson
from advisor.engine.scheduling.halving import CardTraining
from advisor.engine.scheduling.promotion import STAGE, FrontBound
from advisor.engine.scheduling.scheduler import Scheduler
from advisor.engine.scheduling.study import Study
from advisor.engine.scheduling.suggesting import parameters
from benchmarks.cost_table import CORES, VALIDATION, Problem, Row

ADVISOR, GP = "advisor", "gp"
METHODS = (ADVISOR, "random", "tpe", "nsga2", GP)


class _GPStudy(Study):
    """A study whose Gaussian process is given the list of what may be begun."""

    def __init__(self, problem: Problem, seed: int) -> None:
        from benchmarks.listed_gp import ListedGP

        super().__init__(storage(), "replay", problem.plan, Budget(), "random", seed, done=())
        self._study.sampler = ListedGP(self.listed, seed)

    def listed(self) -> list[Mapping[str, Any]]:
        """Return the parameters of what may be begun."""
        return [
            parameters(each) for each in self.halving.not_started if self.halving.is_runnable(CardTraining.of(each))
        ]


def searched(problem: Problem, method: str, seed: int) -> Iterator[Row]:
    """Yield rows in the order in which a search by this method evaluates them."""
    study, bound = _study(problem, method, seed), FrontBound(Budget())
    scheduler = Scheduler(study, bound, problem.plan, problem.plan.size, CORES)
    while (configuration := scheduler.next(())) is not None or scheduler.deferred:
        if configuration is None:
            results = [_skipped(each, reason, STAGE) for each, reason in scheduler.reject_deferred()]
        elif (row := problem.row(configuration)) is None:
            results = [_skipped(configuration, "the table has no such training of it", "train")]
        else:
            yield row
            results = [evaluation(problem, configuration, row)]
        for each in results:
            study.tell(each)
        bound.add(results)


def _skipped(configuration: Configuration, reason: str, stage: str) -> Evaluation:
    return Evaluation(configuration, Status.SKIPPED, reason=reason, stage=stage)


def _study(problem: Problem, method: str, seed: int) -> Study:
    if method == GP:
        return _GPStudy(problem, seed)
    return Study(storage(), "replay", problem.plan, Budget(), method, seed, done=())


def storage() -> Any:
    """Return a study's storage in memory."""
    from optuna.storages import InMemoryStorage

    return InMemoryStorage()


def evaluation(problem: Problem, configuration: Configuration, row: Row) -> Evaluation:
    """Return what a search would have been told of a configuration."""

    def measured(value: float, unit: str) -> Quantity:
        return Quantity(value, unit, Provenance.MEASURED)

    floating = problem.row(replace(configuration, compression="float32")) or row
    shown = wilson(round(VALIDATION * row.accuracy / 100), VALIDATION)
    return Evaluation(
        configuration,
        Status.OK,
        accuracy=replace(measured(row.accuracy, "%"), low=100 * shown.low, high=100 * shown.high, n=VALIDATION),
        drop=measured(floating.accuracy - row.accuracy, "points"),
        latency=measured(row.latency_ms, "ms"),
        latency_p90=measured(row.latency_ms, "ms"),
        size=measured(row.bytes, "bytes"),
    )

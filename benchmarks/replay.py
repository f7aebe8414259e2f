"""A search of the product whose evaluations are looked up. All that it decides is the product's own code."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from advisor.core import BALANCED, Configuration, Evaluation, Interval, Limits, Provenance, Quantity, Status
from advisor.engine import StageName
from advisor.engine._scheduling.belief import FormStep
from advisor.engine._scheduling.next_steps import SearchRule
from advisor.engine._scheduling.scheduler import Scheduler
from advisor.engine._scheduling.study import Study
from advisor.engine._scheduling.suggesting import Admits, parameters
from advisor.engine._space.plan import Plan
from benchmarks.cost_table import VALIDATION, Problem, Row

ADVISOR, FORMER, GP = "advisor", "former", "gp"
METHODS = (ADVISOR, FORMER, "random", "tpe", "nsga2", GP)
"""What is compared. ``former`` are the kept figures of the scheduler before decision 0095; it is not run any more."""


class _GPStudy(Study):
    """A study whose Gaussian process is given the list of what may be begun."""

    def __init__(self, plan: Plan, seed: int) -> None:
        from benchmarks.listed_gp import ListedGP

        super().__init__(storage(), "replay", plan, Limits(), "random", seed, done=())
        self._study.sampler = ListedGP(self.listed, seed)

    def ask(self, admits: Admits = lambda _: True) -> Configuration | None:
        """Return the next configuration; the sampler chooses among those admitted."""
        self._admits = admits
        return super().ask(admits)

    def listed(self) -> list[Mapping[str, Any]]:
        """Return the parameters of what may be begun."""
        return [parameters(each) for each in self.not_started if self._admits(each)]


def searched(problem: Problem, method: str, seed: int, least: float = 0.0) -> Iterator[Row]:
    """Yield rows in the order in which a search by this method evaluates them, one step after another.

    ``least``: points that a CPU hour must gain; 0 to evaluate everything, as for a user who wants the whole table.
    """
    plan = problem.plan
    study = _GPStudy(plan, seed) if method == GP else Study(storage(), "replay", plan, Limits(), method, seed, done=())
    rule = SearchRule(plan, BALANCED, Limits(), least)
    scheduler = Scheduler(study, rule, plan.size, 1, method == ADVISOR and least > 0)
    while chosen := scheduler.next(()):
        for configuration in chosen:
            row = problem.row(configuration)
            if row is not None:
                yield row
                rule.prices.finished.update(rule.prices.stages(FormStep.of(configuration)))
            found = _skipped(configuration) if row is None else evaluation(problem, configuration, row)
            study.tell(found)
            rule.condition_on(found)


def _skipped(configuration: Configuration) -> Evaluation:
    reason = "the table has no such training of it"
    return Evaluation(configuration, Status.SKIPPED, reason=reason, stage=StageName.PROMOTION)


def storage() -> Any:
    """Return a study's storage in memory."""
    from optuna.storages import InMemoryStorage

    return InMemoryStorage()


def evaluation(problem: Problem, configuration: Configuration, row: Row) -> Evaluation:
    """Return what a search would have been told of a configuration."""

    def measured(value: float, unit: str) -> Quantity:
        return Quantity(value, unit, Provenance.MEASURED)

    floating = problem.row(replace(configuration, compression="float32")) or row
    shown = Interval.wilson(round(VALIDATION * row.accuracy / 100), VALIDATION)
    return Evaluation(
        configuration,
        Status.OK,
        accuracy=replace(measured(row.accuracy, "%"), low=100 * shown.low, high=100 * shown.high, n=VALIDATION),
        drop=measured(floating.accuracy - row.accuracy, "points"),
        latency=measured(row.latency_ms, "ms"),
        latency_p90=measured(row.latency_ms, "ms"),
        size=measured(row.bytes, "bytes"),
    )

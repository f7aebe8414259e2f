"""The Optuna study of a run: what to try next is asked from it, what came of it is told to it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from advisor.core.budget import Budget
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.search.plan import Plan

if TYPE_CHECKING:
    import optuna

DIRECTIONS: tuple[Literal["maximize", "minimize"], ...] = ("maximize", "minimize", "minimize")
METRICS = ("accuracy", "latency", "size")
PATIENCE = 20
"""How many repeats in a row a sampler that does not know what is taken may suggest before it is helped along."""


class Study:
    """Several objectives (accuracy up, latency down, size down) with the budget as constraints, kept in a journal.

    Args:
        journal: the study's file; an existing one is taken up again.
        plan: the search space.
        budget: its limits become the trials' constraints.
        sampler: ``advisor``, ``tpe``, ``nsga2`` or ``random``.
        seed: of the sampler.
        done: configurations that have been evaluated.
    """

    def __init__(
        self, journal: Path, plan: Plan, budget: Budget, sampler: str, seed: int, done: Iterable[Configuration]
    ) -> None:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._plan, self._budget = plan, budget
        self._left = dict.fromkeys(configuration for configuration in plan.configurations())
        for configuration in done:
            self._left.pop(configuration, None)
        self._sampler = _sampler(sampler, plan, seed)
        self._study = optuna.create_study(
            study_name="advisor",
            storage=JournalStorage(JournalFileBackend(str(journal))),
            sampler=self._sampler,
            directions=DIRECTIONS,
            load_if_exists=True,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._study.set_metric_names(list(METRICS))
        self._trials: dict[Configuration, optuna.Trial] = {}
        self._forget_interrupted()

    def ask(self) -> Configuration | None:
        """Return the next configuration to evaluate, None when all have been handed out."""
        repeats = 0
        while self._left:
            if repeats == PATIENCE:
                self._enqueue(next(iter(self._left)))
            trial = self._study.ask(self._distributions())
            parameters = trial.params
            configuration = self._plan.configuration(
                parameters["card"], parameters["compression"], parameters["threads"]
            )
            if configuration in self._left:
                del self._left[configuration]
                self._trials[configuration] = trial
                return configuration
            self._study.tell(trial, state=_state("PRUNED"))
            repeats += 1
        return None

    def tell(self, evaluation: Evaluation) -> None:
        """Report what came of a configuration that was asked for."""
        trial = self._trials.pop(evaluation.configuration)
        quantities = (evaluation.accuracy, evaluation.latency, evaluation.size)
        values = [quantity.value for quantity in quantities if quantity is not None]
        trial.set_user_attr("status", evaluation.status.value)
        if evaluation.reason:
            trial.set_user_attr("reason", evaluation.reason)
        if evaluation.status is not Status.OK or len(values) < len(METRICS):
            self._study.tell(trial, state=_state("FAIL" if evaluation.status is Status.FAILED else "PRUNED"))
            return
        for limit, excess in self._budget.excesses(evaluation).items():
            trial.set_constraint(limit, min(excess, 1e12))
        self._study.tell(trial, values)

    def _distributions(self) -> dict[str, Any]:
        from optuna.distributions import CategoricalDistribution

        plan = self._plan
        return {
            "card": CategoricalDistribution([card.name for card in plan.cards]),
            "compression": CategoricalDistribution(list(plan.recipes)),
            "threads": CategoricalDistribution(list(plan.threads)),
        }

    def _enqueue(self, configuration: Configuration) -> None:
        self._study.enqueue_trial(
            {
                "card": configuration.card,
                "compression": configuration.compression,
                "threads": configuration.target.threads,
            }
        )

    def _forget_interrupted(self) -> None:
        """Fail the trials that an earlier process left running, and ask for their configurations again."""
        from optuna.trial import TrialState

        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            self._study.tell(trial.number, state=TrialState.FAIL)
        taken = {
            self._plan.configuration(**trial.params)
            for trial in self._study.get_trials(deepcopy=False)
            if set(trial.params) == {"card", "compression", "threads"}
        }
        for configuration in self._left:
            if configuration in taken:
                self._enqueue(configuration)


def _sampler(name: str, plan: Plan, seed: int) -> optuna.samplers.BaseSampler:
    from optuna import samplers

    if name == "tpe":
        return samplers.TPESampler(seed=seed)
    if name == "nsga2":
        return samplers.NSGAIISampler(seed=seed)
    if name == "random":
        return samplers.RandomSampler(seed=seed)
    from advisor.search.sampler import AdvisorSampler, Objective

    objectives = (
        Objective("accuracy", "maximize"),
        Objective("latency", "minimize", log=True),
        Objective("size", "minimize", log=True),
    )
    return AdvisorSampler(plan.candidates(), objectives, seed=seed)


def _state(name: str) -> Any:
    from optuna.trial import TrialState

    return TrialState[name]

"""The Optuna study of a run: it suggests configurations and takes their results.

Every search writes its results into a study, which Optuna's own tools can read. The suggestions
are used where the question names a sampler; by default the rule of ``next_steps.py`` chooses. The
names of parameters and attributes are in the databases of users, so they stay.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from advisor.core import Configuration, Evaluation, Limits, Status, recipe_of
from advisor.engine._scheduling.suggesting import Admits, also_shown, make_suggester, parameters
from advisor.engine._space.plan import Plan

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution, CategoricalDistribution
    from optuna.storages import BaseStorage
    from optuna.trial import TrialState

OBJECTIVES = ("accuracy", "latency", "size")
DIRECTIONS: tuple[Literal["maximize", "minimize"], ...] = ("maximize", "minimize", "minimize")

PATIENCE = 20
"""Number of useless suggestions in a row after which the study chooses.
Optuna's samplers repeat evaluated ones.
"""

LARGEST = 1e12
"""Stands for an excess without end: a study's constraints must be finite."""


class Study:
    """Several objectives (accuracy up, latency down, size down) with the budget as constraints.

    The storage has the trials of a run that is resumed; ``done`` are its results, which are not
    evaluated again. ``not_started`` are the configurations that were not handed out yet, in the
    order of the search space.
    """

    def __init__(
        self,
        storage: BaseStorage,
        name: str,
        plan: Plan,
        limits: Limits,
        sampler: str,
        seed: int,
        done: Iterable[Evaluation],
    ) -> None:
        import optuna

        finished = {evaluation.configuration: evaluation for evaluation in done}
        self._plan = plan
        self._limits = limits
        self.not_started = {
            configuration: None
            for configuration in plan.configurations()
            if configuration not in finished
        }
        self._suggester = make_suggester(sampler, plan, seed, finished.values())
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(
            study_name=name,
            storage=storage,
            sampler=self._suggester.sampler,
            directions=DIRECTIONS,
            load_if_exists=True,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._study.set_metric_names(list(OBJECTIVES))
        self._trials: dict[Configuration, optuna.Trial] = {}
        self._set_aside: list[Configuration] = []
        self._interrupted = self._resume(finished)

    @property
    def unevaluated(self) -> int:
        """Number of configurations without a result."""
        return len(self.not_started) + len(self._trials)

    def ask(self, admits: Admits = lambda _: True) -> Configuration | None:
        """Return the next configuration to evaluate among those admitted; None if there is
        none.
        """
        for configuration in self._set_aside:
            if admits(configuration):
                self._set_aside.remove(configuration)
                return configuration
        attempts = 0
        while any(map(admits, self.not_started)):
            admitted = {
                configuration: None for configuration in self.not_started if admits(configuration)
            }
            self._suggester.prepare(admitted)
            again = [
                configuration for configuration in self._interrupted if configuration in admitted
            ]
            self._enqueue(admitted if attempts == PATIENCE else again)
            suggested = self._accepted(self._study.ask({**distributions(self._plan)}), admits)
            if suggested is not None:
                return suggested
            attempts += 1
        return None

    def take(self, chosen: Configuration) -> None:
        """Make a configuration of ``not_started`` that the caller has chosen a trial of its own.

        The sampler is not asked: it would score its whole table for nothing. What somebody
        enqueued before comes first and is dropped: the caller chooses it when its time comes.
        """
        self._enqueue((chosen,))
        space: dict[str, BaseDistribution] = {**distributions(self._plan)}
        trial = self._study.ask(space)
        while configuration_of(self._plan, trial.params) != chosen:
            self._drop(trial)
            trial = self._study.ask(space)
        self._accepted(trial, lambda configuration: configuration == chosen)

    def give_back(self, configuration: Configuration) -> None:
        """Put a configuration that was handed out back into ``not_started``: its work was
        stopped.
        """
        self._drop(self._trials.pop(configuration))
        self.not_started[configuration] = None

    def leave_out(self, configuration: Configuration) -> None:
        """Take a configuration from ``not_started`` that gets no work.

        It is no trial: nothing was tried,
        and a trial of each of dozens takes seconds at the end of a time limit.
        """
        del self.not_started[configuration]

    def tell(self, evaluation: Evaluation) -> None:
        """Report the result of a configuration that was handed out."""
        trial = self._trials.pop(evaluation.configuration)
        for key, value in self._attributes(evaluation).items():
            trial.set_user_attr(key, value)
        shown = values(evaluation)
        for limit, excess in constraints(evaluation, self._limits).items() if shown else ():
            trial.set_constraint(limit, excess)
        self._study.tell(trial, shown, state=None if shown else _state(evaluation))
        self._suggester.add(evaluation)

    def _enqueue(self, wanted: Iterable[Configuration]) -> None:
        """Enqueue the first wanted configuration: the study suggests it next."""
        first = next(iter(wanted), None)
        if first is not None:
            self._study.enqueue_trial(parameters(first))
            self._interrupted = [
                configuration for configuration in self._interrupted if configuration != first
            ]

    def _accepted(self, trial: optuna.Trial, admits: Admits) -> Configuration | None:
        """Return the trial's configuration if it can start now; else drop it or set it aside.

        A trial that somebody enqueued may come too early: it is set aside until it may start. A
        sampler that does not know what may start suggests the configuration again later, so its
        trial is dropped.
        """
        configuration = configuration_of(self._plan, trial.params)
        useful = self._suggester.suggests_admitted or admits(configuration)
        if configuration not in self.not_started or not useful:
            self._drop(trial)
            return None
        del self.not_started[configuration]
        self._trials[configuration] = trial
        if admits(configuration):
            return configuration
        self._set_aside.append(configuration)
        return None

    def _drop(self, trial: optuna.Trial) -> None:
        from optuna.trial import TrialState

        self._study.tell(trial, state=TrialState.PRUNED)

    def _resume(self, finished: Mapping[Configuration, Evaluation]) -> list[Configuration]:
        """Bring the trials in line with the results,
        and return the configurations to suggest again.

        A process that was killed leaves trials that run: they fail, and their configurations are
        suggested again if they have no result. A result without a finished trial is added: it was
        kept just before the kill, or the study's file was lost.
        """
        from optuna.trial import TrialState, create_trial

        ended = set[Configuration]()
        interrupted = set[Configuration]()
        waiting = set[Configuration]()
        space = distributions(self._plan)
        for trial in self._study.get_trials(deepcopy=False):
            waits = trial.state == TrialState.WAITING
            chosen = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
            if set(chosen) == set(space):
                group = ended if trial.state.is_finished() else interrupted
                group = waiting if waits else group
                group.add(configuration_of(self._plan, chosen))
            if trial.state == TrialState.RUNNING:
                self._study.tell(trial.number, state=TrialState.FAIL)
        for configuration, evaluation in finished.items():
            if configuration not in ended:
                shown = values(evaluation)
                trial = create_trial(
                    state=_state(evaluation),
                    values=shown,
                    params={**parameters(configuration)},
                    distributions={**space},
                    user_attrs=self._attributes(evaluation),
                    constraints=constraints(evaluation, self._limits) if shown else None,
                )
                self._study.add_trial(trial)
        again = (ended | interrupted) - waiting
        return [configuration for configuration in self.not_started if configuration in again]

    def _attributes(self, evaluation: Evaluation) -> dict[str, object]:
        """Return a trial's attributes: status, reason, what it showed of other forms,
        and whether it only teaches.
        """
        from advisor.engine._scheduling.sampler import ALSO, TEACHES_ONLY

        attributes: dict[str, object] = {"status": evaluation.status.value}
        if evaluation.reason:
            attributes["reason"] = evaluation.reason
        if shown := also_shown(evaluation, self._plan.recipes):
            attributes[ALSO] = [
                [parameters(configuration), value] for configuration, value in shown
            ]
        if recipe_of(evaluation.configuration.training).quick_head:
            attributes[TEACHES_ONLY] = True
        return attributes


def configuration_of(plan: Plan, params: Mapping[str, Any]) -> Configuration:
    """Return the configuration of a trial's parameters."""
    return plan.configuration(
        params["card"], params["compression"], params["threads"], params["training"]
    )


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
    shown = [quantity.value for quantity in quantities if quantity is not None]
    return shown if evaluation.status is Status.OK and len(shown) == len(OBJECTIVES) else None


def constraints(evaluation: Evaluation, limits: Limits) -> dict[str, float]:
    """Return by how much each limit is exceeded, below zero if it is met."""
    return {
        limit: min(excess, LARGEST)
        for limit, excess in limits.excesses(evaluation.without_holdout()).items()
    }


def _state(evaluation: Evaluation) -> TrialState:
    """Return the state of a trial after its evaluation."""
    from optuna.trial import TrialState

    if values(evaluation) is not None:
        return TrialState.COMPLETE
    return TrialState.FAIL if evaluation.status is Status.FAILED else TrialState.PRUNED

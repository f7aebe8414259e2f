"""The Optuna study of a run: what to try next is asked from it, what came of it is told to it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from advisor.core.budget import Budget
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.search.experience import Experience
from advisor.search.facts import Facts, also_shown
from advisor.search.plan import Plan
from advisor.search.samplers import make_sampler

if TYPE_CHECKING:
    import optuna
    from optuna.storages import BaseStorage

DIRECTIONS: tuple[Literal["maximize", "minimize"], ...] = ("maximize", "minimize", "minimize")
METRICS = ("accuracy", "latency", "size")
PARAMETERS = frozenset(("card", "training", "compression", "threads"))
PATIENCE = 20
"""How many repeats in a row a sampler that does not know what is taken may suggest before it is helped along."""

LARGEST = 1e12
"""Stands for a limit that is broken without end: what a study takes as a constraint is finite."""

FACTS_SHARE = 0.02
"""The sampler looks at its whole table again for new facts; it is given them when so many more have come in."""


class Study:
    """Several objectives (accuracy up, latency down, size down) with the budget as constraints.

    Args:
        storage: where it is kept; what an earlier process left there is taken up again.
        name: its name in the storage.
        plan: the search space.
        budget: its limits become the trials' constraints.
        sampler: one of :data:`advisor.search.samplers.SAMPLERS`.
        seed: of the sampler.
        done: what has been evaluated and is not to be evaluated again.
        experience: what earlier runs tell of the candidates.
    """

    def __init__(
        self,
        storage: BaseStorage,
        name: str,
        plan: Plan,
        budget: Budget,
        sampler: str,
        seed: int,
        done: Iterable[Evaluation],
        experience: Experience | None = None,
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._plan, self._budget, self._facts = plan, budget, Facts(plan)
        finished = {evaluation.configuration: evaluation for evaluation in done}
        self._left = {each: None for each in plan.configurations() if each not in finished}
        self._opened: dict[Configuration, None] = {}
        self._rung, self._again, self._first = -1, list[Configuration](), list[Configuration]()
        self._changed: dict[str, None] = {}
        self._told = 0
        for evaluation in finished.values():
            self._note(evaluation)
        experience = experience or Experience()
        self._sampler = make_sampler(sampler, experience.taught(self._facts.corrected(plan.candidates())), seed)
        self._changed.clear()
        self._study = optuna.create_study(
            study_name=name, storage=storage, sampler=self._sampler, directions=DIRECTIONS, load_if_exists=True
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._study.set_metric_names(list(METRICS))
        self._trials: dict[Configuration, optuna.Trial] = {}
        if not self._study.get_trials(deepcopy=False):
            self._first = experience.first(tuple(self._left))
        self._take_up(finished)
        self._climb()

    @property
    def unevaluated(self) -> int:
        """How many configurations have no result yet."""
        return len(self._left) + len(self._trials)

    def ask(self) -> Configuration | None:
        """Return the next configuration to evaluate, None when all of this rung have been handed out.

        A rung is one training, the lightest first; the next one is open when every configuration of those below has
        its result.
        """
        repeats = 0
        if self._opened:
            self._teach()
        while self._opened:
            if repeats == PATIENCE:
                self._study.enqueue_trial(_parameters(next(iter(self._opened))))
            trial = self._study.ask(self._distributions())
            configuration = self._configuration(trial.params)
            if configuration in self._left:
                del self._left[configuration]
                self._opened.pop(configuration, None)
                self._trials[configuration] = trial
                return configuration
            self._study.tell(trial, state=_state("PRUNED"))
            repeats += 1
        return None

    def tell(self, evaluation: Evaluation) -> None:
        """Report what came of a configuration that was asked for."""
        trial = self._trials.pop(evaluation.configuration)
        for key, value in self._attributes(evaluation).items():
            trial.set_user_attr(key, value)
        values = _values(evaluation)
        for limit, excess in self._constraints(evaluation).items() if values else ():
            trial.set_constraint(limit, excess)
        self._study.tell(trial, values, state=None if values else _state(_ending(evaluation)))
        self._note(evaluation)
        self._climb()

    def expected_gain(self, seconds: float) -> float:
        """Return what ``seconds`` more are expected to add to the front's hypervolume, as a share of it.

        Infinite where the sampler has no expectation.
        """
        from advisor.search.sampler import AdvisorSampler

        if not isinstance(self._sampler, AdvisorSampler):
            return float("inf")
        self._teach()
        return self._sampler.expected_gain(self._study, seconds)

    def _climb(self) -> None:
        """Open the next rung where nothing is left to do on those below; the sampler keeps to what is open."""
        trainings = self._plan.trainings
        while not self._trials and not self._opened and self._rung + 1 < len(trainings):
            self._rung += 1
            self._opened = {each: None for each in self._left if each.training == trainings[self._rung]}
            self._hold_back(frozenset(trainings[self._rung + 1 :]))
            for configuration in (*self._again, *self._first):
                if configuration in self._opened:
                    self._study.enqueue_trial(_parameters(configuration))

    def _hold_back(self, trainings: frozenset[str]) -> None:
        from advisor.search.sampler import AdvisorSampler

        if isinstance(self._sampler, AdvisorSampler):
            self._sampler.hold(lambda params: params["training"] in trainings)

    def _constraints(self, evaluation: Evaluation) -> dict[str, float]:
        return {limit: min(excess, LARGEST) for limit, excess in self._budget.excesses(evaluation).items()}

    def _attributes(self, evaluation: Evaluation) -> dict[str, Any]:
        """Return what a trial says beside its values: its end, and what the evaluation showed on its way."""
        reason = {"reason": evaluation.reason} if evaluation.reason else {}
        shown = also_shown(evaluation, self._plan.recipes)
        also = {"advisor:also": [[_parameters(each), value] for each, value in shown]} if shown else {}
        return {"status": evaluation.status.value, **reason, **also}

    def _take_up(self, finished: Mapping[Configuration, Evaluation]) -> None:
        """Bring the study in line with what was evaluated: a process that was killed left trials behind.

        A trial that ran is failed; its configuration is asked for again unless its result was kept. A result that no
        finished trial has is added: it was kept just before the kill, or the study's file was lost.
        """
        from optuna.trial import TrialState

        taken, ended, waiting = set[Configuration](), set[Configuration](), set[Configuration]()
        for trial in self._study.get_trials(deepcopy=False):
            waits = trial.state == TrialState.WAITING
            parameters = trial.system_attrs.get("fixed_params", {}) if waits else trial.params
            if set(parameters) == PARAMETERS:
                place = waiting if waits else ended if trial.state.is_finished() else taken
                place.add(self._configuration(parameters))
            if trial.state == TrialState.RUNNING:
                self._study.tell(trial.number, state=TrialState.FAIL)
        for evaluation in finished.values():
            if evaluation.configuration not in ended:
                self._add(evaluation)
        taken |= ended
        self._again = [each for each in self._left if each in taken and each not in waiting]

    def _add(self, evaluation: Evaluation) -> None:
        from optuna.trial import create_trial

        parameters = _parameters(evaluation.configuration)
        distributions = self._distributions()
        if any(value not in distributions[name].choices for name, value in parameters.items()):
            return
        values = _values(evaluation)
        self._study.add_trial(
            create_trial(
                state=_state("COMPLETE" if values else _ending(evaluation)),
                values=values,
                params=parameters,
                distributions=distributions,
                user_attrs=self._attributes(evaluation),
                constraints=self._constraints(evaluation) if values else None,
            )
        )

    def _note(self, evaluation: Evaluation) -> None:
        card = self._facts.add(evaluation)
        self._told += 1
        if card is not None:
            self._changed[card] = None

    def _teach(self) -> None:
        """Give the sampler what was measured in place of what was rough, for all forms of the cards concerned."""
        from advisor.search.sampler import AdvisorSampler

        if not isinstance(self._sampler, AdvisorSampler):
            return
        if len(self._changed) <= FACTS_SHARE * self._told:
            return
        for card in self._changed:
            for (training, recipe, threads), fact in self._facts.about(card).items():
                parameters = {"card": card, "training": training, "compression": recipe, "threads": threads}
                self._sampler.update_known(parameters, fact.known, fact.cost_s)
        self._changed.clear()

    def _configuration(self, parameters: Mapping[str, Any]) -> Configuration:
        return self._plan.configuration(
            parameters["card"], parameters["compression"], parameters["threads"], parameters["training"]
        )

    def _distributions(self) -> dict[str, Any]:
        from optuna.distributions import CategoricalDistribution

        plan = self._plan
        return {
            "card": CategoricalDistribution([card.name for card in plan.cards]),
            "training": CategoricalDistribution(list(plan.trainings)),
            "compression": CategoricalDistribution(list(plan.recipes)),
            "threads": CategoricalDistribution(list(plan.threads)),
        }


def _parameters(configuration: Configuration) -> dict[str, Any]:
    return {
        "card": configuration.card,
        "training": configuration.training,
        "compression": configuration.compression,
        "threads": configuration.target.threads,
    }


def _values(evaluation: Evaluation) -> list[float] | None:
    """Return the objectives' values, None where the evaluation lacks one."""
    quantities = (evaluation.accuracy, evaluation.latency, evaluation.size)
    values = [quantity.value for quantity in quantities if quantity is not None]
    return values if evaluation.status is Status.OK and len(values) == len(METRICS) else None


def _ending(evaluation: Evaluation) -> str:
    return "FAIL" if evaluation.status is Status.FAILED else "PRUNED"


def _state(name: str) -> Any:
    from optuna.trial import TrialState

    return TrialState[name]

"""The Optuna study of a run: what to try next is asked from it, what came of it is told to it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from advisor.core.budget import Budget
from advisor.core.evaluation import Configuration, Evaluation
from advisor.engine.question import ADVISOR
from advisor.engine.scheduling.cost_estimates import Facts
from advisor.engine.scheduling.halving import CardTraining, HasCapacity, SuccessiveHalving, unlimited
from advisor.engine.scheduling.samplers import make_sampler
from advisor.engine.scheduling.trial_record import (
    METRICS,
    PARAMETERS,
    attributes,
    constraints,
    distributions,
    parameters,
    state,
    values,
)
from advisor.engine.space.plan import Plan
from advisor.store.gc_paused import gc_paused

if TYPE_CHECKING:
    import optuna
    from optuna.storages import BaseStorage

DIRECTIONS: tuple[Literal["maximize", "minimize"], ...] = ("maximize", "minimize", "minimize")
PATIENCE = 20
"""How many repeats in a row a sampler that does not know what is taken may suggest before it is helped along."""

FACTS_SHARE = 0.02
"""The sampler looks at its whole table again for new facts; it is given them when so many more have come in."""


class Study:
    """Several objectives (accuracy up, latency down, size down) with the budget as constraints.

    Args:
        storage: where it is kept; what an earlier process left there is taken up again.
        name: its name in the storage.
        plan: the search space.
        budget: its limits become the trials' constraints.
        sampler: one of :data:`advisor.engine.question.SAMPLERS`.
        seed: of the sampler.
        done: what has been evaluated and is not to be evaluated again.
    """

    @gc_paused()
    def __init__(
        self,
        storage: BaseStorage,
        name: str,
        plan: Plan,
        budget: Budget,
        sampler: str,
        seed: int,
        done: Iterable[Evaluation],
    ) -> None:
        import numpy as np
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._plan, self._budget, self._facts = plan, budget, Facts(plan)
        finished = {evaluation.configuration: evaluation for evaluation in done}
        self.halving = SuccessiveHalving(plan.configurations(), finished)
        self._aside = list[Configuration]()
        self._changed: dict[str, None] = {}
        self._told = 0
        for evaluation in finished.values():
            self._note(evaluation)
        candidates = self._facts.corrected(plan.candidates())
        units = (CardTraining(each.params["card"], each.params["training"]) for each in candidates)
        self._positions = np.array([self.halving.position(unit) for unit in units])
        self._sampler = make_sampler(sampler, candidates, seed)
        self._keeps_turns = sampler == ADVISOR
        self._changed.clear()
        self._study = optuna.create_study(
            study_name=name, storage=storage, sampler=self._sampler, directions=DIRECTIONS, load_if_exists=True
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._study.set_metric_names(list(METRICS))
        self._trials: dict[Configuration, optuna.Trial] = {}
        self._wished = self._take_up(finished)

    @property
    def unevaluated(self) -> int:
        """How many configurations have no result yet."""
        return len(self.halving.not_started) + len(self._trials)

    def ask(self, has_capacity: HasCapacity = unlimited) -> Configuration | None:
        """Return the next configuration to evaluate, None when nothing may be begun now.

        Args:
            has_capacity: says of which card and training more may start; nothing else is returned.
        """
        for configuration in self._aside:
            if self._is_runnable(configuration, has_capacity):
                self._aside.remove(configuration)
                return configuration
        repeats = 0
        while self.halving.runnable(has_capacity):
            self._prepare(has_capacity)
            self._wish(has_capacity, helped=repeats == PATIENCE)
            asked = self._taken(self._study.ask(distributions(self._plan)), has_capacity)
            if asked is not None:
                return asked
            repeats += 1
        return None

    def tell(self, evaluation: Evaluation) -> None:
        """Report what came of a configuration that was asked for."""
        trial = self._trials.pop(evaluation.configuration)
        for key, value in attributes(evaluation, self._plan.recipes).items():
            trial.set_user_attr(key, value)
        found = values(evaluation)
        for limit, excess in constraints(evaluation, self._budget).items() if found else ():
            trial.set_constraint(limit, excess)
        self._study.tell(trial, found, state=None if found else state(evaluation))
        self._note(evaluation)
        self.halving.mark_done(evaluation.configuration)

    def expected_gain(self, seconds: float) -> float:
        """Return what ``seconds`` more are expected to add to the front's hypervolume, as a share of it.

        Infinite where the sampler has no expectation.
        """
        from advisor.engine.scheduling.sampler import AdvisorSampler

        if not isinstance(self._sampler, AdvisorSampler):
            return float("inf")
        self._teach()
        return self._sampler.expected_gain(self._study, seconds)

    def _is_runnable(self, configuration: Configuration, has_capacity: HasCapacity) -> bool:
        unit = CardTraining.of(configuration)
        return self.halving.is_runnable(unit) and has_capacity(unit)

    def _taken(self, trial: optuna.Trial, has_capacity: HasCapacity) -> Configuration | None:
        """Return the trial's configuration where it is to be evaluated.

        Before its turn comes what somebody enqueued, which is put aside, and what a sampler suggests that knows no
        turns, which is dropped: it will suggest it again.
        """
        from optuna.trial import TrialState

        configuration = self._configuration(trial.params)
        if configuration not in self.halving.not_started or not (
            self._keeps_turns or self._is_runnable(configuration, has_capacity)
        ):
            self._study.tell(trial, state=TrialState.PRUNED)
            return None
        self.halving.mark_started(configuration)
        self._trials[configuration] = trial
        if self._is_runnable(configuration, has_capacity):
            return configuration
        self._aside.append(configuration)
        return None

    def _wish(self, has_capacity: HasCapacity, helped: bool) -> None:
        """Put what was chosen earlier before what the sampler will suggest, or anything to help a sampler along."""
        self._wished = [each for each in self._wished if each in self.halving.not_started]
        source = self.halving.not_started if helped else self._wished
        wish = next((each for each in source if self._is_runnable(each, has_capacity)), None)
        if wish is not None:
            self._study.enqueue_trial(parameters(wish))
            self._wished = [each for each in self._wished if each != wish]

    def _prepare(self, has_capacity: HasCapacity) -> None:
        """Tell the sampler what may be begun, and what was measured meanwhile."""
        from advisor.engine.scheduling.sampler import AdvisorSampler

        if isinstance(self._sampler, AdvisorSampler):
            self._sampler.hold(self.halving.blocked(self._positions, has_capacity))
            self._teach()

    def _take_up(self, finished: Mapping[Configuration, Evaluation]) -> list[Configuration]:
        """Bring the study in line with what was evaluated; returns what is to be asked for again.

        A process that was killed left trials behind.

        A trial that ran is failed; its configuration is asked for again unless its result was kept. A result that no
        finished trial has is added: it was kept just before the kill, or the study's file was lost.
        """
        from optuna.trial import TrialState

        taken, ended, waiting = set[Configuration](), set[Configuration](), set[Configuration]()
        for trial in self._study.get_trials(deepcopy=False):
            waits = trial.state == TrialState.WAITING
            chosen = trial.system_attrs.get("fixed_params", {}) if waits else trial.params
            if set(chosen) == PARAMETERS:
                place = waiting if waits else ended if trial.state.is_finished() else taken
                place.add(self._configuration(chosen))
            if trial.state == TrialState.RUNNING:
                self._study.tell(trial.number, state=TrialState.FAIL)
        for evaluation in finished.values():
            if evaluation.configuration not in ended:
                self._add(evaluation)
        taken |= ended
        return [each for each in self.halving.not_started if each in taken and each not in waiting]

    def _add(self, evaluation: Evaluation) -> None:
        from optuna.trial import create_trial

        told, space = parameters(evaluation.configuration), distributions(self._plan)
        if any(value not in space[name].choices for name, value in told.items()):
            return
        found = values(evaluation)
        self._study.add_trial(
            create_trial(
                state=state(evaluation),
                values=found,
                params=told,
                distributions=space,
                user_attrs=attributes(evaluation, self._plan.recipes),
                constraints=constraints(evaluation, self._budget) if found else None,
            )
        )

    def _note(self, evaluation: Evaluation) -> None:
        card = self._facts.add(evaluation)
        self._told += 1
        if card is not None:
            self._changed[card] = None

    def _teach(self) -> None:
        """Give the sampler what was measured in place of what was rough, for all forms of the cards concerned."""
        from advisor.engine.scheduling.sampler import AdvisorSampler

        if not isinstance(self._sampler, AdvisorSampler):
            return
        if len(self._changed) <= FACTS_SHARE * self._told:
            return
        for card in self._changed:
            for (training, recipe, threads), fact in self._facts.about(card).items():
                row = {"card": card, "training": training, "compression": recipe, "threads": threads}
                self._sampler.update_known(row, fact.known, fact.cost_s)
        self._changed.clear()

    def _configuration(self, chosen: Mapping[str, Any]) -> Configuration:
        return self._plan.configuration(chosen["card"], chosen["compression"], chosen["threads"], chosen["training"])

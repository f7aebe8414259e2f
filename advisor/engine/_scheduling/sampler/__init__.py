"""An Optuna sampler for a table of candidates of which much is known beforehand.

The search space is a list (model x recipe x threads). Each entry comes with a prior of what it may
reach and with costs that are known or predicted. The sampler starts with the entries that look
best by these. It learns from each result how far the prior can be trusted, and suggests the entry
with the largest expected gain of hypervolume a second.

It needs Optuna and numpy only, and works with any study of two or three objectives.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.exceptions import TrialPruned
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from advisor.engine._scheduling.sampler.acquisition import (
    ALSO,
    TEACHES_ONLY,
    Acquisition,
    Candidate,
    Mask,
    Objective,
    Params,
    Table,
)
from advisor.engine._scheduling.sampler.surrogate import Observations

__all__ = [
    "ALSO",
    "TEACHES_ONLY",
    "AdvisorSampler",
    "Candidate",
    "CandidatesExhausted",
    "Objective",
    "Params",
]


class CandidatesExhausted(RuntimeError):
    """Every candidate of the table was evaluated or is being evaluated:
    nothing is left to suggest.
    """


class TrialIndex:
    """Reads a study's trials incrementally and allocates candidates to new ones:
    rows by trial, running, enqueued.
    """

    def __init__(self, study_id: object, table: Table) -> None:
        self.study_id = study_id
        self._table = table
        self.allocated: dict[int, int] = {}
        self.running: set[int] = set()
        self.waiting: list[int | None] = []
        self._finished = np.zeros(len(table), dtype=bool)
        self._unfinished: list[int] = []
        self._count = 0

    def read(self, trials: Sequence[FrozenTrial]) -> list[tuple[int, FrozenTrial]]:
        """Read what is new and return the rows completed since the last call, with their
        trials.
        """
        fresh = [*self._unfinished, *range(self._count, len(trials))]
        self._count = len(trials)
        self.running = set()
        self.waiting = []
        self._unfinished = []
        completed = []
        for position in fresh:
            trial = trials[position]
            row = self.allocated.get(trial.number)
            row = (
                self._table.row_of({**read_fixed_params(trial), **trial.params})
                if row is None
                else row
            )
            if trial.state.is_finished():
                self.allocated.pop(trial.number, None)
                if row is not None:
                    self._finished[row] = True
                    completed += [(row, trial)] if trial.state == TrialState.COMPLETE else []
                continue
            self._unfinished.append(position)
            if trial.state == TrialState.WAITING:
                self.waiting.append(row)
            elif row is not None:
                self.running.add(row)
        return completed

    def allowed(self, trial: FrozenTrial) -> Mask:
        """Return bool (n,): the free candidates that agree with the parameters
        that a trial was enqueued with.

        There are none if it was enqueued with every parameter:
        it keeps these, even if they repeat a candidate.
        """
        fixed = read_fixed_params(trial)
        if not fixed:
            return self.free()
        if all(name in fixed for name in self._table.names):
            return np.zeros(len(self._table), bool)
        agree = []
        for params in self._table.params:
            agree.append(all(fixed.get(name, value) == value for name, value in params.items()))
        return self.free() & agree

    def allocate(self, trial: FrozenTrial, row: int) -> None:
        """Allocate a candidate to a trial."""
        self.allocated[trial.number] = row
        self.running.add(row)

    def free(self) -> Mask:
        """Return bool (n,): the candidates that no trial has, runs or waits for."""
        free = ~self._finished
        free[[*self.running, *(row for row in self.waiting if row is not None)]] = False
        return free


def read_fixed_params(trial: FrozenTrial) -> Params:
    """Return the parameters that a trial was enqueued with."""
    fixed: Params = trial.system_attrs.get("fixed_params", {})
    return fixed


class AdvisorSampler(BaseSampler):
    """Suggests each candidate of a table once, in the order of expected gain;
    ``docs/sampler.md`` has its contract.

    One process works on a study at a time; its threads may share the sampler. When nothing is
    left, ``Study.optimize`` returns, and ``Study.ask`` marks the empty trial as failed and raises
    :class:`CandidatesExhausted`.

    Args:
        candidates: the table, at least one entry.
        objectives: two or three, in the study's order. Exactly one of them is missing in
            ``Candidate.known``: the one that evaluating reveals.
        seed: decides between equals only. The same seed, table and results give the same order.

    Raises:
        ValueError: a table or objectives that do not fit this description.
    """

    def __init__(
        self, candidates: Sequence[Candidate], objectives: Sequence[Objective], *, seed: int = 0
    ) -> None:
        self._table = Table(candidates, objectives)
        known = []
        prior = []
        for candidate in candidates:
            losses = [
                objective.finite_loss(candidate.known[objective.name])
                for objective in self._table.known
            ]
            known.append(losses)
            prior.append(self._table.revealed_loss(candidate.prior))
        self._acquisition = Acquisition(
            known=np.array(known),
            prior=np.array(prior),
            features=[candidate.features for candidate in candidates],
            cost_s=np.array([candidate.cost_s for candidate in candidates], dtype=float),
            seed=seed,
        )
        self._independent = RandomSampler(seed)
        self._blocked = np.zeros(len(candidates), bool)
        self._lock = threading.RLock()
        self._index = TrialIndex(None, self._table)
        self._observations = self._acquisition.new_observations()

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """Each parameter of the table with its values in order of appearance,
        as ``Study.ask`` takes them.
        """
        return self._table.distributions

    def update_known(
        self, params: Params, values: Mapping[str, float], cost_s: float | None = None
    ) -> None:
        """Replace predictions by measurements, such as ``{"latency":
        12.5}``, and the expected seconds.
        """
        row = self._table.row_of(params)
        if row is None:
            raise ValueError(f"no candidate has the parameters {dict(params)!r}")
        with self._lock:
            for name, value in values.items():
                axis = self._table.axis(name)
                self._acquisition.update(row, axis, self._table.known[axis].finite_loss(value))
            if cost_s is not None:
                self._acquisition.cost_s[row] = cost_s

    def block(self, blocked: Mask) -> None:
        """Suggest no blocked candidate (bool (n,), in the order of the candidates)
        until the next call.
        """
        if len(blocked) != len(self._table):
            raise ValueError(f"{len(blocked)} values for {len(self._table)} candidates")
        with self._lock:
            self._blocked = np.array(blocked, bool)

    def remaining(self, study: Study) -> int:
        """Return how many more trials ``Study.ask`` can answer:
        free candidates and enqueued trials.
        """
        with self._lock:
            index = self._read(study)
            return int(index.free().sum()) + len(index.waiting)

    def expected_gain(self, study: Study, seconds: float = 3600.0) -> float:
        """Return what ``seconds`` more are expected to add, as a share of the front's hypervolume.

        It sums the gains of the best candidates that fit, as if they did not overlap, so it is
        never too small. Infinite before enough is known, zero if nothing is left.
        """
        with self._lock:
            index = self._read(study)
            return self._acquisition.share_in(self._observations, index.free(), seconds)

    def reseed_rng(self) -> None:
        """Reseed what samples the parameters outside the table;
        the table's order has no randomness to reseed.
        """
        self._independent.reseed_rng()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Choose the trial's candidate; CandidatesExhausted outside ``Study.optimize``
        if nothing is left.
        """
        wanted = [objective.direction for objective in self._table.objectives]
        if wanted != [direction.name.lower() for direction in study.directions]:
            raise ValueError(
                f"the study's directions are not those of the sampler's objectives, {wanted}"
            )
        with self._lock:
            index = self._read(study)
            if trial.number in index.allocated:
                return
            allowed = index.allowed(trial) & ~self._blocked
            if allowed.any():
                index.allocate(
                    trial,
                    self._acquisition.choose(self._observations, sorted(index.running), allowed),
                )
                return
        if not read_fixed_params(trial) and not _stop(study):
            study.tell(trial.number, state=TrialState.FAIL)
            raise CandidatesExhausted(f"all {len(self._table)} candidates have been taken")

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return no relative space: the candidate is chosen before the trial starts."""
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return nothing: see :meth:`infer_relative_search_space`."""
        return {}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Return the parameter of the trial's candidate;
        parameters outside the table come from the other sampler.

        Raises:
            TrialPruned: the table was exhausted when the trial started.
            ValueError: an enqueued trial that fits no candidate left.
        """
        if param_name not in self._table.names:
            return self._independent.sample_independent(
                study, trial, param_name, param_distribution
            )
        row = self._index.allocated.get(trial.number)
        if row is not None:
            return self._table.params[row][param_name]
        if fixed := read_fixed_params(trial):
            raise ValueError(f"the enqueued trial {fixed!r} fits no candidate that is left")
        raise TrialPruned("every candidate was taken")

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Stop ``Study.optimize`` once nothing is left to suggest."""
        if self.remaining(study) == 0:
            _stop(study)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_lock": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def _read(self, study: Study) -> TrialIndex:
        """Read what is new in the study's trials."""
        if self._index.study_id != (study_id := (id(study._storage), study._study_id)):
            self._index = TrialIndex(study_id, self._table)
            self._observations = self._acquisition.new_observations()
        for row, trial in self._index.read(study.get_trials(deepcopy=False)):
            _observe(self._observations, self._table, row, trial)
        return self._index


def _stop(study: Study) -> bool:
    """Stop the optimize loop; return False if there is none, as under ask and tell."""
    try:
        study.stop()
    except RuntimeError:
        return False
    return True


def _observe(observations: Observations, table: Table, row: int, trial: FrozenTrial) -> None:
    """Add a completed trial and what it has shown of other candidates;
    values that are not finite teach nothing.
    """
    losses = table.losses(trial.values)
    if np.isfinite(losses).all():
        observations.add(
            row, losses, trial.constraints, teaches_only=bool(trial.user_attrs.get(TEACHES_ONLY))
        )
    for params, value in trial.user_attrs.get(ALSO, ()):
        other = table.row_of(params)
        loss = table.revealed_loss(float(value))
        if other is not None and np.isfinite(loss):
            observations.hint(other, loss)

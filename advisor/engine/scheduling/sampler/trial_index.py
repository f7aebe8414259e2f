"""Which trial of a study has which candidate of the sampler's table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from optuna.trial import FrozenTrial, TrialState

from advisor.engine.scheduling.sampler.table import Params, Table

ALSO = "advisor:also"
"""User attribute of a trial: what its evaluation has shown of other candidates."""

TEACHES_ONLY = "advisor:teaches-only"
"""User attribute of a trial that is no answer itself, such as a first look: it does not count for the front."""

Mask = NDArray[np.bool_]
Choose = Callable[[Mask], int]
"""Returns the best of the rows that may be taken, of which there is at least one."""


class TrialIndex:
    """Reads a study's trials incrementally and allocates candidates to new ones. A finished trial is read once.

    Args:
        study_id: identifies the study.
        table: the candidates.
    """

    def __init__(self, study_id: object, table: Table) -> None:
        self.study_id = study_id
        self._table = table
        self._allocated: dict[int, int] = {}
        self._running: dict[int, int] = {}
        self._waiting: dict[int, int | None] = {}
        self._finished = np.zeros(len(table), dtype=bool)
        self._unfinished: list[int] = []
        self._count = 0

    def read(self, trials: Sequence[FrozenTrial]) -> list[tuple[int, FrozenTrial]]:
        """Read what is new and return the rows completed since the last call, with their trials."""
        fresh = [*self._unfinished, *range(self._count, len(trials))]
        self._count = len(trials)
        self._running, self._waiting, self._unfinished = {}, {}, []
        completed = []
        for position in fresh:
            trial = trials[position]
            row = self._row_of(trial)
            if not trial.state.is_finished():
                self._keep(position, trial, row)
                continue
            self._allocated.pop(trial.number, None)
            if row is not None:
                self._finished[row] = True
                completed += [(row, trial)] if trial.state == TrialState.COMPLETE else []
        return completed

    def allocate(self, trial: FrozenTrial, blocked: Mask, choose: Choose) -> bool:
        """Choose a free candidate for a trial that agrees with what the trial was enqueued with.

        A trial that was enqueued with every parameter keeps these, even where they repeat a candidate.

        Returns:
            False where no candidate is left to choose.
        """
        allowed = self.free() & ~blocked & self._matching(fixed_params(trial))
        if not allowed.any():
            return False
        self._allocated[trial.number] = self._running[trial.number] = choose(allowed)
        return True

    def allocated(self, trial: FrozenTrial) -> int | None:
        """Return the row that was allocated to a trial, None where none was."""
        return self._allocated.get(trial.number)

    def running(self) -> list[int]:
        """Return the rows that running trials have."""
        return sorted(set(self._running.values()))

    def waiting(self) -> int:
        """Return the number of enqueued trials."""
        return len(self._waiting)

    def free(self) -> Mask:
        """Return bool (n,): the candidates that no trial has, runs or waits for."""
        free = ~self._finished
        free[self.running()] = False
        free[[row for row in self._waiting.values() if row is not None]] = False
        return free

    def _keep(self, position: int, trial: FrozenTrial, row: int | None) -> None:
        self._unfinished.append(position)
        if trial.state == TrialState.WAITING:
            self._waiting[trial.number] = row
        elif row is not None:
            self._running[trial.number] = row

    def _row_of(self, trial: FrozenTrial) -> int | None:
        row = self.allocated(trial)
        return row if row is not None else self._table.row_of({**fixed_params(trial), **trial.params})

    def _matching(self, fixed: Params) -> Mask:
        """Return bool (n,): the candidates that agree with the fixed parameters; none where all are fixed."""
        if not fixed:
            return np.ones(len(self._table), bool)
        if all(name in fixed for name in self._table.names):
            return np.zeros(len(self._table), bool)
        return np.array([_agrees(params, fixed) for params in self._table.params])


def fixed_params(trial: FrozenTrial) -> Params:
    """Return the parameters that a trial was enqueued with."""
    fixed: Params = trial.system_attrs.get("fixed_params", {})
    return fixed


def teaches_only(trial: FrozenTrial) -> bool:
    """Return whether the trial does not count for the front."""
    return bool(trial.user_attrs.get(TEACHES_ONLY, False))


def shown_by(trial: FrozenTrial) -> list[tuple[Params, float]]:
    """Return other candidates' parameters with the revealed value that this trial has shown them to have."""
    rows = trial.user_attrs.get(ALSO, ())
    return [(dict(params), float(value)) for params, value in rows]


def _agrees(params: Params, fixed: Params) -> bool:
    return all(fixed[name] == value for name, value in params.items() if name in fixed)

"""The trials of a study: which candidate of the sampler's table each has, and what they have shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from optuna.trial import FrozenTrial, TrialState

from advisor.engine.scheduling.sampler.design import Design
from advisor.engine.scheduling.sampler.hypervolume import Floats, pareto_mask
from advisor.engine.scheduling.sampler.surrogate import Surrogate
from advisor.engine.scheduling.sampler.table import Params, Table

ALSO = "advisor:also"
"""User attribute of a trial: what its evaluation has shown of other candidates."""

TEACHES_ONLY = "advisor:teaches-only"
"""User attribute of a trial that is no answer itself, such as a first look: it does not count for the front."""

Mask = NDArray[np.bool_]


class TrialIndex:
    """Reads a study's trials incrementally and allocates candidates to new ones. A finished trial is read once."""

    def __init__(self, study_id: object, table: Table) -> None:
        self.study_id = study_id
        self._table = table
        self._allocated: dict[int, int] = {}
        self._running: set[int] = set()
        self._waiting: list[int | None] = []
        self._finished = np.zeros(len(table), dtype=bool)
        self._unfinished: list[int] = []
        self._count = 0

    def read(self, trials: Sequence[FrozenTrial]) -> list[tuple[int, FrozenTrial]]:
        """Read what is new and return the rows completed since the last call, with their trials."""
        fresh = [*self._unfinished, *range(self._count, len(trials))]
        self._count = len(trials)
        self._running, self._waiting, self._unfinished = set(), [], []
        completed = []
        for position in fresh:
            trial = trials[position]
            row = self._row_of(trial)
            if trial.state.is_finished():
                self._allocated.pop(trial.number, None)
                if row is not None:
                    self._finished[row] = True
                    completed += [(row, trial)] if trial.state == TrialState.COMPLETE else []
                continue
            self._unfinished.append(position)
            if trial.state == TrialState.WAITING:
                self._waiting.append(row)
            elif row is not None:
                self._running.add(row)
        return completed

    def allowed(self, trial: FrozenTrial) -> Mask:
        """Return bool (n,): the free candidates that agree with the parameters that a trial was enqueued with.

        There are none if it was enqueued with every parameter: it keeps these, even if they repeat a candidate.
        """
        fixed = fixed_params(trial)
        if not fixed:
            return self.free()
        if all(name in fixed for name in self._table.names):
            return np.zeros(len(self._table), bool)
        agree = [all(fixed.get(name, value) == value for name, value in each.items()) for each in self._table.params]
        return self.free() & agree

    def allocate(self, trial: FrozenTrial, row: int) -> None:
        """Allocate a candidate to a trial."""
        self._allocated[trial.number] = row
        self._running.add(row)

    def allocated(self, trial: FrozenTrial) -> int | None:
        """Return the row that was allocated to a trial, None if none was."""
        return self._allocated.get(trial.number)

    def running(self) -> list[int]:
        """Return the rows that running trials have."""
        return sorted(self._running)

    def waiting(self) -> int:
        """Return the number of enqueued trials."""
        return len(self._waiting)

    def free(self) -> Mask:
        """Return bool (n,): the candidates that no trial has, runs or waits for."""
        free = ~self._finished
        free[self.running()] = False
        free[[row for row in self._waiting if row is not None]] = False
        return free

    def _row_of(self, trial: FrozenTrial) -> int | None:
        row = self.allocated(trial)
        return row if row is not None else self._table.row_of({**fixed_params(trial), **trial.params})


def fixed_params(trial: FrozenTrial) -> Params:
    """Return the parameters that a trial was enqueued with."""
    fixed: Params = trial.system_attrs.get("fixed_params", {})
    return fixed


class Observations:
    """Results of the trials of one study, kept incrementally.

    Attributes:
        evaluated: number of finished evaluations.
        hints: revealed losses by row of candidates that were not evaluated themselves.
        front: (m, d) non-dominated feasible losses, the revealed one last.
        worst: the largest revealed loss.
        revealed: the surrogate of the revealed loss.
        constraints: the surrogates of the constraints' values, by name.
    """

    def __init__(self, design: Design, objectives: int) -> None:
        self.front: Floats = np.zeros((0, objectives))
        self.worst = -np.inf
        self.evaluated = 0
        self.hints: dict[int, float] = {}
        self._seen: set[int] = set()
        self.revealed = Surrogate(design)
        self.constraints: dict[str, Surrogate] = {}

    def add(
        self, row: int, losses: Sequence[float], constraints: Mapping[str, float], teaches_only: bool = False
    ) -> None:
        """Add one finished evaluation; losses (d,) with the revealed one last.

        If it breaks a constraint or only teaches, it is not part of the front.
        """
        self.evaluated += 1
        self.hint(row, losses[-1])
        self.hints.pop(row, None)
        for name, value in constraints.items():
            if np.isfinite(value):
                self.constraints.setdefault(name, Surrogate(self.revealed.design)).add(row, value)
        counts = not teaches_only and all(value <= 0 for value in constraints.values())
        if counts and not (self.front <= losses).all(axis=1).any():
            points = np.vstack([self.front, losses])
            self.front = points[pareto_mask(points)]

    def hint(self, row: int, loss: float) -> None:
        """Add a candidate's revealed loss that another evaluation has shown. Repeats count once."""
        if row not in self._seen:
            self._seen.add(row)
            self.hints[row] = loss
            self.revealed.add(row, loss)
            self.worst = max(self.worst, loss)

    def replace_design(self, design: Design) -> None:
        """Hand a changed design to the surrogates."""
        for surrogate in (self.revealed, *self.constraints.values()):
            surrogate.replace_design(design)

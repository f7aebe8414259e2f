"""Which trial of a study has which candidate of the sampler's table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

CLAIM = "advisor:candidate"
"""The system attribute of a trial in which its candidate stands."""

ALSO = "advisor:also"
"""The user attribute of a trial that says what its evaluation has shown of other candidates."""

TEACHES_ONLY = "advisor:teaches-only"
"""The user attribute of a trial that is no answer itself, such as a first look: it does not count for the front."""


class TrialIndex:
    """Who holds which candidate, read from a study's trials incrementally: finished trials are looked at once.

    Attributes:
        open: trial number -> (row, held) of the running trials.
        waiting: trial number -> row or None of the enqueued ones.
    """

    def __init__(self, study_id: object, candidates: int) -> None:
        self.study_id = study_id
        self.open: dict[int, tuple[int, bool]] = {}
        self.waiting: dict[int, int | None] = {}
        self._finished = np.zeros(candidates, dtype=bool)
        self._unfinished: list[int] = []
        self._count = 0

    def read(
        self, trials: Sequence[FrozenTrial], own: int, row_of: Callable[[FrozenTrial], int | None]
    ) -> list[tuple[int, FrozenTrial]]:
        """Bring the ledger up to date and return the candidates completed since, with their trials.

        The trial numbered ``own`` is the one being decided: it holds nothing.
        """
        fresh = [*self._unfinished, *range(self._count, len(trials))]
        self._count = len(trials)
        self.open, self.waiting, self._unfinished = {}, {}, []
        completed = []
        for place in fresh:
            trial = trials[place]
            row = row_of(trial) if trial.number != own else None
            if not trial.state.is_finished():
                self._keep(place, trial, row)
            elif row is not None:
                self._finished[row] = True
                completed += [(row, trial)] if trial.state == TrialState.COMPLETE else []
        return completed

    def _keep(self, place: int, trial: FrozenTrial, row: int | None) -> None:
        self._unfinished.append(place)
        if trial.state == TrialState.WAITING:
            self.waiting[trial.number] = row
        elif row is not None:
            self.open[trial.number] = (row, bool(claim_of(trial).get("held", True)))

    def running(self) -> list[int]:
        """Return the candidates that running trials hold."""
        return sorted({row for row, _ in self.open.values()})

    def free(self) -> NDArray[np.bool_]:
        """Return (n,) True for the candidates that no trial has, runs or waits for."""
        free = ~self._finished
        free[self.running()] = False
        free[[row for row in self.waiting.values() if row is not None]] = False
        return free

    def holders(self, row: int) -> list[tuple[int, bool]]:
        """Return (trial number, held) of the others that have this candidate."""
        running = [(number, held) for number, (other, held) in self.open.items() if other == row]
        return [*running, (-1, True)] if self._finished[row] else running


def claim_of(trial: FrozenTrial) -> dict[str, Any]:
    """Return the candidate's ``key`` and whether it is ``held``, empty where the trial announced none."""
    return dict(trial.system_attrs.get(CLAIM, {}))


def teaches_only(trial: FrozenTrial) -> bool:
    """Return whether the trial does not count for the front."""
    return bool(trial.user_attrs.get(TEACHES_ONLY, False))


def shown_by(trial: FrozenTrial) -> list[tuple[dict[str, Any], float]]:
    """Return other candidates' parameters with the revealed value that this trial has shown them to have."""
    rows = trial.user_attrs.get(ALSO, ())
    return [(dict(params), float(value)) for params, value in rows]


def announce(study: Study, trial: FrozenTrial, key: str | None, *, held: bool) -> None:
    """Write into the trial which candidate it wants, or has once ``held``."""
    study._storage.set_trial_system_attr(trial._trial_id, CLAIM, {"key": key, "held": held})

"""How a trial comes to its candidate, so that no other trial of the study has the same one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.study import Study
from optuna.trial import FrozenTrial

from advisor.engine.scheduling.sampler.table import Table
from advisor.engine.scheduling.sampler.trial_index import TrialIndex, announce

RIVAL_TIMEOUT_S = 2.0
RIVAL_POLL_S = 0.005

Mask = NDArray[np.bool_]
Choose = Callable[[Mask], int]
"""Given the rows that may be taken, of which there is at least one, says which is best."""


class CandidatesExhausted(RuntimeError):
    """Every candidate of the table has been evaluated or is being evaluated: nothing is left to ask for."""


class Allocation:
    """One trial's claim.

    Args:
        study: the trial's.
        trial: wants a candidate.
        table: the candidates.
        sync: brings the ledger of the study up to date, as this trial sees it, and returns it.
    """

    def __init__(self, study: Study, trial: FrozenTrial, table: Table, sync: Callable[[], TrialIndex]) -> None:
        self._study, self._trial, self._table, self._sync = study, trial, table, sync
        self._fixed: Mapping[str, Any] = trial.system_attrs.get("fixed_params", {})

    def take(self, held_back: Mask, choose: Choose) -> int | None:
        """Choose, announce, look whether another process chose the same, then hold it or choose again; None: none fits.

        Two processes cannot hold one candidate: each announces before it looks, so at least one sees the other; the
        younger trial gives way, and the older waits until it has.
        """
        lost: list[int] = []
        while True:
            allowed = self._sync().free() & ~held_back
            allowed[lost] = False
            allowed &= self._fits()
            if not allowed.any():
                if lost:
                    announce(self._study, self._trial, None, held=False)
                return None
            row = choose(allowed)
            announce(self._study, self._trial, self._table.key(row), held=False)
            if self._wins(row):
                announce(self._study, self._trial, self._table.key(row), held=True)
                return row
            lost.append(row)

    def _fits(self) -> Mask:
        """Return which rows agree with what the trial was enqueued with.

        A trial that was enqueued in full is the caller's decision, even where it repeats one: nothing is chosen then.
        """
        fits = np.ones(len(self._table), bool)
        if not self._fixed:
            return fits
        if all(name in self._fixed for name in self._table.names):
            return ~fits
        for row, params in enumerate(self._table.params):
            fits[row] = all(self._fixed[name] == value for name, value in params.items() if name in self._fixed)
        return fits

    def _wins(self, row: int) -> bool:
        deadline = time.monotonic() + RIVAL_TIMEOUT_S
        while True:
            rivals = self._sync().holders(row)
            if not rivals:
                return True
            if any(held or number < self._trial.number for number, held in rivals) or time.monotonic() > deadline:
                return False
            time.sleep(RIVAL_POLL_S)

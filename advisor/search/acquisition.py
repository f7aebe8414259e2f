"""Which candidate to evaluate next: prior order first, then expected gain of hypervolume a second."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.search.hypervolume import Floats
from advisor.search.ordering import prior_order

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Observation:
    """What one trial says about a candidate.

    Attributes:
        row: the candidate's place in the table.
        losses: (d,) on the scale where less is better, the revealed objective last; None while it runs.
        constraints: value by name; above zero is infeasible.
        failed: it ended without usable values.
    """

    row: int
    losses: tuple[float, ...] | None
    constraints: Mapping[str, float]
    failed: bool = False


class Acquisition:
    """Scores a table of candidates.

    Args:
        known: (n, d - 1) known or predicted losses.
        prior: (n,) prior of the loss that evaluating reveals.
        features: what it may depend on, a mapping a candidate.
        cost_s: (n,) expected seconds of an evaluation.
        reference: (d,) worst losses of interest, NaN where the table's worst shall serve.
        seed: decides between equals.
    """

    def __init__(
        self,
        known: Floats,
        prior: Floats,
        features: Sequence[Mapping[str, float | str]],
        cost_s: Floats,
        reference: Floats,
        seed: int,
    ) -> None:
        self.known = known
        self.prior = prior
        self.features = features
        self.cost_s = cost_s
        self.reference = reference
        self._shuffled = np.random.default_rng(seed).permutation(len(prior))
        self._restart_order()

    def update(self, row: int, axis: int, loss: float) -> None:
        """Replace one known loss."""
        if self.known[row, axis] != loss:
            self.known[row, axis] = loss
            self._restart_order()

    def choose(self, observations: Sequence[Observation], allowed: Mask) -> int:
        """Return the row to evaluate next among those allowed (n,), of which there is at least one."""
        return self._first_in_order(allowed)

    def best_relative_gain(self, observations: Sequence[Observation], free: Mask) -> float:
        """Return the largest expected gain among the free rows as a share of the front's hypervolume."""
        return float("inf") if free.any() else 0.0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_order": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._restart_order()

    def _restart_order(self) -> None:
        points = np.column_stack([self.known, self.prior])[self._shuffled]
        self._order: Iterator[int] = prior_order(points)
        self._drawn: list[int] = []

    def _first_in_order(self, allowed: Mask) -> int:
        for row in self._drawn:
            if allowed[row]:
                return row
        for place in self._order:
            self._drawn.append(int(self._shuffled[place]))
            if allowed[self._drawn[-1]]:
                return self._drawn[-1]
        raise ValueError("no row is allowed")

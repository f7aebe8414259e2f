"""What the trials of one study have shown so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from advisor.engine.scheduling.sampler.design import Design
from advisor.engine.scheduling.sampler.hypervolume import Floats, pareto_mask
from advisor.engine.scheduling.sampler.surrogate import Surrogate


class Observations:
    """What the trials of one study have shown, kept incrementally.

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

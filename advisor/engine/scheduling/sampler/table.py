"""The table that the sampler chooses from: candidates, objectives, and both as losses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalChoiceType, CategoricalDistribution

from advisor.engine.scheduling.sampler.hypervolume import Floats

Params = Mapping[str, CategoricalChoiceType]
"""The values of a candidate's parameters, by name."""


@dataclass(frozen=True)
class Objective:
    """One value of the study's trials, in the study's order.

    Attributes:
        name: its key in ``Candidate.known``.
        direction: ``minimize`` or ``maximize``, as in the study.
        log: take the logarithm for the hypervolume, as for latency and size; the values must be positive.
    """

    name: str
    direction: str = "minimize"
    log: bool = False

    def to_loss(self, value: float) -> float:
        """Return the value on the scale where less is better, ``nan`` if it has no logarithm."""
        if self.log:
            value = float(np.log(value)) if value > 0 else float("nan")
        return -value if self.direction == "maximize" else value

    def finite_loss(self, value: float) -> float:
        """Return the loss of a value that must have one.

        Raises:
            ValueError: it is not a number, or not a positive one although a logarithm is taken.
        """
        loss = self.to_loss(value)
        if not np.isfinite(loss):
            positive = "a positive number" if self.log else "a number"
            raise ValueError(f"{value!r} for the objective {self.name!r}: it must be {positive}")
        return loss


@dataclass(frozen=True)
class Candidate:
    """One entry of the table.

    Attributes:
        params: the value of each of the study's parameters, unique within the table.
        prior: expected value of the one unknown objective, in its unit or in one that rises with it.
        known: the known or predicted value of every other objective, by name.
        features: what the unknown objective may depend on beyond the prior: numbers as they are (take logarithms
            of counts), strings (such as the family) as groups.
        cost_s: seconds that evaluating it is expected to take.
    """

    params: Params
    prior: float
    known: Mapping[str, float]
    features: Mapping[str, float | str] = field(default_factory=dict)
    cost_s: float = 1.0


class Table:
    """The candidates by row, and their objectives as losses with the revealed one last.

    Args:
        candidates: at least one entry.
        objectives: two or three, in the study's order; exactly one is missing in ``Candidate.known``.

    Attributes:
        known: the objectives in ``Candidate.known``, in the study's order.

    Raises:
        ValueError: candidates or objectives that do not fit this description.
    """

    def __init__(self, candidates: Sequence[Candidate], objectives: Sequence[Objective]) -> None:
        self.objectives = tuple(objectives)
        self._revealed = _revealed(candidates, self.objectives)
        self.known = [o for position, o in enumerate(self.objectives) if position != self._revealed]
        self.params = [dict(candidate.params) for candidate in candidates]
        self.names = tuple(self.params[0])
        _check_params(self.params)
        self._by_values = {tuple(params[name] for name in self.names): row for row, params in enumerate(self.params)}

    def __len__(self) -> int:
        return len(self.params)

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """Each parameter with its values in order of appearance."""
        return {name: CategoricalDistribution(tuple({p[name]: None for p in self.params})) for name in self.names}

    def row_of(self, params: Params) -> int | None:
        """Return the row with these parameters, None if there is none. Other names are ignored."""
        if any(name not in params for name in self.names):
            return None
        return self._by_values.get(tuple(params[name] for name in self.names))

    def axis(self, name: str) -> int:
        """Return the position of a known objective among the losses.

        Raises:
            ValueError: no known objective has this name.
        """
        positions = {objective.name: position for position, objective in enumerate(self.known)}
        if name not in positions:
            raise ValueError(f"{name!r} is not one of the known objectives {', '.join(positions)}")
        return positions[name]

    def known_losses(self, candidates: Sequence[Candidate]) -> Floats:
        """Return (n, d - 1) the known losses."""
        return np.array([[o.finite_loss(each.known[o.name]) for o in self.known] for each in candidates])

    def prior_losses(self, candidates: Sequence[Candidate]) -> Floats:
        """Return (n,) the priors as losses."""
        return np.array([self.revealed_loss(each.prior) for each in candidates])

    def revealed_loss(self, value: float) -> float:
        """Return the loss of a value of the objective that evaluating reveals."""
        return self.objectives[self._revealed].to_loss(value)

    def losses(self, values: Sequence[float]) -> list[float]:
        """Return a trial's values as losses (d,), the revealed one last."""
        losses = [objective.to_loss(value) for objective, value in zip(self.objectives, values, strict=True)]
        losses.append(losses.pop(self._revealed))
        return losses


def _revealed(candidates: Sequence[Candidate], objectives: Sequence[Objective]) -> int:
    """Return the position of the objective that evaluating reveals."""
    if not candidates:
        raise ValueError("the table of candidates is empty")
    if len(objectives) not in (2, 3):
        raise ValueError(f"{len(objectives)} objectives: the sampler takes two or three")
    names = [objective.name for objective in objectives]
    unknown = [i for i, name in enumerate(names) if any(name not in c.known for c in candidates)]
    if len(unknown) != 1 or any(names[unknown[0]] in c.known for c in candidates):
        raise ValueError(f"each candidate must have a known value for all but one of the objectives {', '.join(names)}")
    return unknown[0]


def _check_params(params: Sequence[Params]) -> None:
    for other in params:
        if set(other) != set(params[0]):
            raise ValueError(
                f"candidates differ in the names of their parameters: {sorted(other)}, {sorted(params[0])}"
            )
    values, count = Counter(tuple(each[name] for name in params[0]) for each in params).most_common(1)[0]
    if count > 1:
        same = dict(zip(params[0], values, strict=True))
        raise ValueError(f"two candidates have the same parameters: {same}")

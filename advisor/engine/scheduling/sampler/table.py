"""The table that the sampler chooses from: candidates, objectives, and both as losses."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalChoiceType, CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from advisor.engine.scheduling.sampler.hypervolume import Floats, pareto_mask
from advisor.engine.scheduling.sampler.surrogate import Design, Surrogate

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

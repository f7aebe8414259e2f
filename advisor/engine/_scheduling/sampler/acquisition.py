"""The table that the sampler chooses from, what is observed of it, and the choice.

``AdvisorSampler`` (``__init__.py``) asks it for each suggestion. The prior order comes first, then
the expected gain of hypervolume a second. The two attributes of trials are written into studies,
which a resumed run reads, so their names stay.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalChoiceType, CategoricalDistribution

from advisor.engine._scheduling.sampler.hypervolume import (
    Floats,
    compute_expected_gain,
    hypervolume,
    prior_order,
    t4_below,
)
from advisor.engine._scheduling.sampler.surrogate import Observations, make_design

Params = Mapping[str, CategoricalChoiceType]
"""The values of a candidate's parameters, by name."""

ALSO = "advisor:also"
"""User attribute of a trial: what its evaluation has shown of other candidates."""

TEACHES_ONLY = "advisor:teaches-only"
"""User attribute of a trial that is no answer itself, such as a quick head:
it does not count for the front.
"""

_FIRST_BY_PRIOR = 4
_PRIOR_EVERY = 16
"""Suggestions follow the prior alone until four results are in, and every sixteenth after that.
This bounds the loss from a wrong regression. Every fourth cost more than it saved: 95 % of
TrashNet's hypervolume took 47 % of the cost of everything instead of 20 %
(``benchmarks/search_cost.py``, five networks).
"""
_CONSTRAINT_SEEN = 3
"""Number of values from which on a constraint is predicted."""
_HINTED_SD = 0.05
"""Share of the deviation that is left
to a candidate whose revealed loss another evaluation has shown.
"""
_EXACT_ROWS = 256
"""Candidates that are scored exactly."""


@dataclass(frozen=True)
class Objective:
    """One value of the study's trials, in the study's order;
    ``name`` is its key in ``Candidate.known``.

    ``log`` takes the logarithm for the hypervolume, as for latency and size;
    the values must be positive.
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
        """Return the loss of a value that must have one:
        a number, and a positive one if a logarithm is taken.
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
        prior: expected value of the one unknown objective, in its unit or in one that rises with
            it.
        known: the known or predicted value of every other objective, by name.
        features: what the unknown objective may depend on beyond the prior: numbers as they are
            (take logarithms of counts), strings (such as the family) as groups.
        cost_s: seconds that evaluating it is expected to take.
    """

    params: Params
    prior: float
    known: Mapping[str, float]
    features: Mapping[str, float | str] = field(default_factory=dict)
    cost_s: float = 1.0


class Table:
    """The candidates by row, and their objectives as losses with the revealed one last;
    ``known`` are the others.

    There is at least one candidate.
    Of two or three objectives, exactly one is missing in ``Candidate.known``.
    """

    def __init__(self, candidates: Sequence[Candidate], objectives: Sequence[Objective]) -> None:
        self.objectives = tuple(objectives)
        self._revealed = _find_revealed(candidates, self.objectives)
        self.known = [
            o for position, o in enumerate(self.objectives) if position != self._revealed
        ]
        self.params = [dict(candidate.params) for candidate in candidates]
        self.names = tuple(self.params[0])
        _check_params(self.params)
        rows = {}
        for row, params in enumerate(self.params):
            rows[tuple(params[name] for name in self.names)] = row
        self._by_values = rows

    def __len__(self) -> int:
        return len(self.params)

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """Each parameter with its values in order of appearance."""
        choices = dict[str, BaseDistribution]()
        for name in self.names:
            choices[name] = CategoricalDistribution(
                tuple({params[name]: None for params in self.params})
            )
        return choices

    def row_of(self, params: Params) -> int | None:
        """Return the row with these parameters, None if there is none. Other names are ignored."""
        if any(name not in params for name in self.names):
            return None
        return self._by_values.get(tuple(params[name] for name in self.names))

    def axis(self, name: str) -> int:
        """Return the position of a known objective among the losses."""
        positions = {objective.name: position for position, objective in enumerate(self.known)}
        if name not in positions:
            raise ValueError(f"{name!r} is not one of the known objectives {', '.join(positions)}")
        return positions[name]

    def revealed_loss(self, value: float) -> float:
        """Return the loss of a value of the objective that evaluating reveals."""
        return self.objectives[self._revealed].to_loss(value)

    def losses(self, values: Sequence[float]) -> list[float]:
        """Return a trial's values as losses (d,), the revealed one last."""
        losses = [
            objective.to_loss(value)
            for objective, value in zip(self.objectives, values, strict=True)
        ]
        losses.append(losses.pop(self._revealed))
        return losses


def _find_revealed(candidates: Sequence[Candidate], objectives: Sequence[Objective]) -> int:
    """Return the position of the objective that evaluating reveals."""
    if not candidates:
        raise ValueError("the table of candidates is empty")
    if len(objectives) not in (2, 3):
        raise ValueError(f"{len(objectives)} objectives: the sampler takes two or three")
    names = [objective.name for objective in objectives]
    unknown = []
    for place, name in enumerate(names):
        if any(name not in c.known for c in candidates):
            unknown.append(place)
    if len(unknown) != 1 or any(names[unknown[0]] in c.known for c in candidates):
        raise ValueError(
            "each candidate must have a known value for all but one of the objectives"
            f" {', '.join(names)}"
        )
    return unknown[0]


def _check_params(params: Sequence[Params]) -> None:
    for other in params:
        if set(other) != set(params[0]):
            raise ValueError(
                f"candidates differ in the names of their parameters: {sorted(other)},"
                f" {sorted(params[0])}"
            )
    rows = Counter[tuple[object, ...]]()
    for values_of_trial in params:
        rows[tuple(values_of_trial[name] for name in params[0])] += 1
    values, count = rows.most_common(1)[0]
    if count > 1:
        same = dict(zip(params[0], values, strict=True))
        raise ValueError(f"two candidates have the same parameters: {same}")


Mask = NDArray[np.bool_]


Rows = NDArray[np.intp]


class Acquisition:
    """Scores a table of candidates: known losses (n, d - 1), prior (n,) of the revealed one,
    expected seconds (n,).

    ``features`` are what the revealed loss may depend on. ``seed`` decides between equals.
    """

    def __init__(
        self,
        known: Floats,
        prior: Floats,
        features: Sequence[Mapping[str, float | str]],
        cost_s: Floats,
        seed: int,
    ) -> None:
        self.known = known
        self.prior = prior
        self.cost_s = cost_s
        self._features = features
        self._shuffled = np.random.default_rng(seed).permutation(len(prior))
        self._changed = False
        self._refresh()

    def new_observations(self) -> Observations:
        """Return the observations of a study that has no trials yet."""
        return Observations(self._design, self.known.shape[1] + 1)

    def update(self, row: int, axis: int, loss: float) -> None:
        """Replace one known loss."""
        if self.known[row, axis] != loss:
            self.known[row, axis] = loss
            self._changed = True

    def choose(self, observations: Observations, pending: Sequence[int], allowed: Mask) -> int:
        """Return the row to evaluate next among those allowed (n,),
        of which there is at least one.

        ``pending`` rows are being evaluated; they count as if their results were as expected.
        """
        self._apply_changes(observations)
        turn = observations.evaluated + len(pending)
        if observations.evaluated < _FIRST_BY_PRIOR or turn % _PRIOR_EVERY == 0:
            return self._first_in_order(allowed)
        rows = self._shuffled[allowed[self._shuffled]]
        gain, best = self._gains(observations, pending, rows)
        best = np.sort(best)
        rate = gain[best] / self.cost_s[rows[best]]
        if rate.max() > 0:
            return int(rows[best[np.argmax(rate)]])
        return self._first_in_order(allowed)

    def _gains(
        self, observations: Observations, pending: Sequence[int], rows: Rows
    ) -> tuple[Floats, Rows]:
        """Return the expected gains (m,) of the candidates ``rows``,
        and the positions of those with an exact gain.

        The gains are in units of the normalised losses.
        They are computed roughly first, then exactly for the best.
        """
        self._apply_changes(observations)
        means = self._means(observations)
        low, high = self._range(observations, means)
        believed = np.column_stack([self.known[list(pending)], means[list(pending)]])
        front = (np.vstack([observations.front, believed]) - low) / (high - low)
        points = (np.column_stack([self.known[rows], means[rows]]) - low) / (high - low)
        unit = (high - low)[-1]
        exact = np.arange(len(rows))
        gain = np.zeros(len(rows))
        sd = np.zeros(len(rows))
        if len(rows) > _EXACT_ROWS:
            sd = _less_where_hinted(
                observations, rows, observations.revealed.rough_deviations()[rows]
            )
            gain = compute_expected_gain(
                points, sd / unit, front, 1.0 / self.cost_s[rows], exact=False
            )
            exact = np.argpartition(-gain / self.cost_s[rows], _EXACT_ROWS)[:_EXACT_ROWS]
        sd[exact] = _less_where_hinted(
            observations, rows[exact], observations.revealed.deviations(rows[exact])
        )
        gain[exact] = compute_expected_gain(
            points[exact], sd[exact] / unit, front, 1.0 / self.cost_s[rows[exact]]
        )
        gain[exact] *= self._compute_feasibility(observations, rows[exact])
        return gain, exact

    def share_in(self, observations: Observations, free: Mask, seconds: float) -> float:
        """Return what ``seconds`` more would add at most; see ``AdvisorSampler.expected_gain``."""
        if not free.any():
            return 0.0
        if observations.evaluated < _FIRST_BY_PRIOR or len(observations.front) == 0:
            return float("inf")
        rows = np.flatnonzero(free)
        gain, _ = self._gains(observations, [], rows)
        low, high = self._range(observations, self._means(observations))
        volume = hypervolume((observations.front - low) / (high - low), np.ones(len(low)))
        order = np.argsort(-gain / self.cost_s[rows], kind="stable")
        spent = np.cumsum(self.cost_s[rows[order]])
        fits = np.concatenate([[True], spent[:-1] < seconds])
        if volume > 0:
            return float(gain[order][fits].sum() / volume)
        return float("inf")

    @staticmethod
    def _means(observations: Observations) -> Floats:
        """Return (n,) the expected losses. A hinted loss is used unchanged."""
        means = observations.revealed.means()
        means[list(observations.hints)] = list(observations.hints.values())
        return means

    def _compute_feasibility(self, observations: Observations, rows: Rows) -> Floats:
        """Return the probability (0-1) that each row meets all constraints;
        1 while too few were seen.
        """
        probability = np.ones(len(rows))
        for surrogate in observations.constraints.values():
            if len(surrogate) >= _CONSTRAINT_SEEN:
                probability *= t4_below(
                    -surrogate.means()[rows] / surrogate.deviations(rows) * np.sqrt(2.0)
                )
        return probability

    def _range(self, observations: Observations, means: Floats) -> tuple[Floats, Floats]:
        """Return the best and the worst losses (d,) of the table by what is known now;
        the worst is the reference.
        """
        seen = np.append(observations.front[:, -1], means)
        low = np.append(self.known.min(axis=0), seen.min())
        high = np.append(self.known.max(axis=0), max(float(means.max()), observations.worst))
        return low, np.where(high > low, high, low + 1.0)

    def _apply_changes(self, observations: Observations) -> None:
        if self._changed:
            self._changed = False
            self._refresh()
        if observations.revealed.design is not self._design:
            observations.replace_design(self._design)

    def _refresh(self) -> None:
        self._design = make_design(self.prior, self.known, self._features)
        self._restart_order()

    def _restart_order(self) -> None:
        points = np.column_stack([self.known, self.prior])[self._shuffled]
        self._order: Iterator[int] = prior_order(points)
        self._drawn: list[int] = []

    def _first_in_order(self, allowed: Mask) -> int:
        for row in self._drawn:
            if allowed[row]:
                return row
        for position in self._order:
            self._drawn.append(int(self._shuffled[position]))
            if allowed[self._drawn[-1]]:
                return self._drawn[-1]
        raise ValueError("no row is allowed")

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_order": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._restart_order()


def _less_where_hinted(observations: Observations, rows: Rows, deviations: Floats) -> Floats:
    """Return the deviations (m,) of ``rows``,
    almost zero if another evaluation has shown the loss.
    """
    hinted = np.isin(rows, list(observations.hints))
    reduced: Floats = np.where(hinted, _HINTED_SD * deviations, deviations)
    return reduced

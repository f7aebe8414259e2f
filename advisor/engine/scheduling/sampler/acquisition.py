"""Chooses the next candidate: prior order first, then expected gain of hypervolume a second."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.engine.scheduling.sampler.hypervolume import (
    Floats,
    expected_gain,
    hypervolume,
    hypervolume_improvement,
    pareto_mask,
    t4_below,
)
from advisor.engine.scheduling.sampler.surrogate import make_design
from advisor.engine.scheduling.sampler.table import Mask, Observations

Rows = NDArray[np.intp]

_FIRST_BY_PRIOR = 4
_PRIOR_EVERY = 16
"""Suggestions follow the prior alone until four results are in, and every sixteenth after that. This bounds the loss
from a wrong regression. Every fourth cost more than it saved: 95 % of TrashNet's hypervolume took 47 % of the cost of
everything instead of 20 % (``benchmarks/search_cost.py``, five networks)."""
_CONSTRAINT_SEEN = 3
"""Number of values from which on a constraint is predicted."""
_HINTED_SD = 0.05
"""Share of the deviation that is left to a candidate whose revealed loss another evaluation has shown."""
_EXACT_ROWS = 256
"""Candidates that are scored exactly."""
_SPREAD = 48
"""Members of a front that are ordered by what each adds to those before it."""


class Acquisition:
    """Scores a table of candidates.

    Args:
        known: (n, d - 1) known or predicted losses.
        prior: (n,) prior of the revealed loss.
        features: what the revealed loss may depend on, one mapping for each candidate.
        cost_s: (n,) expected seconds of an evaluation.
        seed: decides between equals.
    """

    def __init__(
        self,
        known: Floats,
        prior: Floats,
        features: Sequence[Mapping[str, float | str]],
        cost_s: Floats,
        seed: int,
    ) -> None:
        self.known, self.prior, self.cost_s = known, prior, cost_s
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
        """Return the row to evaluate next among those allowed (n,), of which there is at least one.

        Args:
            observations: of the study.
            pending: rows that are being evaluated. They count as if their results were as expected.
            allowed: bool (n,), the candidates to choose from.
        """
        self._apply_changes(observations)
        turn = observations.evaluated + len(pending)
        if observations.evaluated < _FIRST_BY_PRIOR or turn % _PRIOR_EVERY == 0:
            return self._first_in_order(allowed)
        rows = self._shuffled[allowed[self._shuffled]]
        gain, best = self._gains(observations, pending, rows)
        best = np.sort(best)
        rate = gain[best] / self.cost_s[rows[best]]
        return int(rows[best[np.argmax(rate)]]) if rate.max() > 0 else self._first_in_order(allowed)

    def _gains(self, observations: Observations, pending: Sequence[int], rows: Rows) -> tuple[Floats, Rows]:
        """Return the expected gains (m,) of the candidates ``rows``, and the positions of those with an exact gain.

        The gains are in units of the normalised losses. They are computed roughly first, then exactly for the best.
        """
        self._apply_changes(observations)
        means = self._means(observations)
        low, high = self._range(observations, means)
        believed = np.column_stack([self.known[list(pending)], means[list(pending)]])
        front = (np.vstack([observations.front, believed]) - low) / (high - low)
        points = (np.column_stack([self.known[rows], means[rows]]) - low) / (high - low)
        unit = (high - low)[-1]
        exact = np.arange(len(rows))
        gain, sd = np.zeros(len(rows)), np.zeros(len(rows))
        if len(rows) > _EXACT_ROWS:
            sd = _less_where_hinted(observations, rows, observations.revealed.rough_deviations()[rows])
            gain = expected_gain(points, sd / unit, front, 1.0 / self.cost_s[rows], exact=False)
            exact = np.argpartition(-gain / self.cost_s[rows], _EXACT_ROWS)[:_EXACT_ROWS]
        sd[exact] = _less_where_hinted(observations, rows[exact], observations.revealed.deviations(rows[exact]))
        gain[exact] = expected_gain(points[exact], sd[exact] / unit, front, 1.0 / self.cost_s[rows[exact]])
        gain[exact] *= self._feasible(observations, rows[exact])
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
        return float(gain[order][fits].sum() / volume) if volume > 0 else float("inf")

    @staticmethod
    def _means(observations: Observations) -> Floats:
        """Return (n,) the expected losses. A hinted loss is used unchanged."""
        means = observations.revealed.means()
        means[list(observations.hints)] = list(observations.hints.values())
        return means

    def _feasible(self, observations: Observations, rows: Rows) -> Floats:
        probability = np.ones(len(rows))
        for surrogate in observations.constraints.values():
            if len(surrogate) >= _CONSTRAINT_SEEN:
                probability *= t4_below(-surrogate.means()[rows] / surrogate.deviations(rows) * np.sqrt(2.0))
        return probability

    def _range(self, observations: Observations, means: Floats) -> tuple[Floats, Floats]:
        """Return the best and the worst losses (d,) of the table by what is known now; the worst is the reference."""
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
    """Return the deviations (m,) of ``rows``, almost zero if another evaluation has shown the loss."""
    hinted = np.isin(rows, list(observations.hints))
    reduced: Floats = np.where(hinted, _HINTED_SD * deviations, deviations)
    return reduced


def prior_order(points: ArrayLike) -> Iterator[int]:
    """Yield the row numbers of (n, d) minimised points, the most promising first: the order before there are results.

    The Pareto front comes first, then the front of the rest, and so on. Within a front the next point is the one that
    adds most hypervolume to those before it, so that the whole front is known coarsely first. Equal gains keep the
    order of the rows. The order is computed while it is drawn.

    On 337 published ImageNet classifiers this order alone needs 5 to 10 evaluations for 95 % of the hypervolume of the
    whole pool. Random order needs 79 to 218 (``benchmarks/results/sampler_timm_pool.md``).

    Args:
        points: (n, d) with d 2 or 3: the known or predicted costs and the negated prior accuracy.
    """
    values = _unit_range(np.asarray(points, dtype=float))
    left = np.arange(len(values))
    while len(left):
        on_front = pareto_mask(values[left])
        yield from _spread(values, left[on_front])
        left = left[~on_front]


def _spread(values: Floats, front: NDArray[np.intp]) -> Iterator[int]:
    """Yield a front's members by falling gain of hypervolume.

    After the first ones the gains are tiny: the rest follows by the gain that it had then.
    """
    reference = np.full(values.shape[1], 1.1)
    taken: list[int] = []
    left = front
    while len(left) and len(taken) < _SPREAD:
        gains = hypervolume_improvement(values[left], values[taken], reference)
        best = int(np.argmax(gains))
        taken.append(int(left[best]))
        yield taken[-1]
        left = np.delete(left, best)
    if len(left):
        gains = hypervolume_improvement(values[left], values[taken], reference)
        yield from (int(row) for row in left[np.argsort(-gains, kind="stable")])


def _unit_range(values: Floats) -> Floats:
    """Scale each objective to 0..1 over the pool, so that hypervolume weighs them equally."""
    if len(values) == 0:
        return values.reshape(0, 2)
    low = values.min(axis=0)
    span = values.max(axis=0) - low
    scaled: Floats = (values - low) / np.where(span > 0, span, 1.0)
    return scaled

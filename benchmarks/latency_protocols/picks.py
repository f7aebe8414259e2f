"""What a pick costs that must meet its budget with 90 %: does it meet it, and how many points does it give away?

A silicon is hidden with all its targets. On each of its targets, the most accurate network (published top-1) is picked
among those that meet a budget with 90 %, for budgets over the range of the target's latencies.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from advisor.devices._latency.base import Base, fit_base
from advisor.devices._latency.calibration import SUPPORT, Calibration, regime_of
from advisor.devices._latency.model import choose_decisive, choose_models, estimate_latencies, queries_of_known
from advisor.devices._latency.posterior import LatencyPosterior, posterior_of
from advisor.devices._latency.table import Column, LatencyTable
from benchmarks.latency_protocols.baselines import Floats, Indices
from benchmarks.latency_protocols.validation import fold_of, hide

SURE, BUDGETS, LEAST = 0.9, 9, 12
DRAWS = 2000
CONDITIONS = ("k=0", "k=5", "k=5, chosen of all")
ONE_BY_ONE = {"k=1, for the budget": 1, "k=3, for the budget": 3, "k=5, for the budget": 5}
"""Conditions of networks that are measured one after the other, as a calibration for a budget chooses them."""


@dataclass(frozen=True)
class Picks:
    """What happened with the picks of one kind of targets.

    Attributes:
        group: the targets.
        condition: how many networks were measured on each, and how they were chosen.
        budgets: number of budgets that a network meets.
        picks: those with a pick.
        met: share of the picks that met the budget.
        met_low, met_high: its 80 % interval over silicons, which are drawn again with replacement.
        stated: mean of their stated probabilities.
        lost: mean points of top-1 below the most accurate network that meets it; none if the pick does not meet it.
        distance: the largest distance of stated and true probability, in tenths, over all networks.
    """

    group: str
    condition: str
    budgets: int
    picks: int
    met: float
    met_low: float
    met_high: float
    stated: float
    lost: float
    distance: float


@dataclass(frozen=True, eq=False)
class _Tried:
    """The networks to pick from on one target, and one budget: (n,) arrays."""

    chances: Floats
    truth: Floats  # log milliseconds
    accuracy: Floats
    budget: float  # log milliseconds
    silicon: str


def picks(
    table: LatencyTable,
    accuracy: Mapping[str, float],
    calibration: Calibration,
    groups: Mapping[str, Callable[[Column], bool]],
) -> list[Picks]:
    """Return a row for each group of targets and condition; ``accuracy`` is top-1 in % by network."""
    rated = np.array([accuracy.get(name, np.nan) for name in table.models])
    enough = (~np.isnan(table.values) & ~np.isnan(rated)).sum(axis=1) >= LEAST
    tried: dict[tuple[str, str], list[_Tried]] = defaultdict(list)
    for silicon in sorted({c.silicon for i, c in enumerate(table.columns) if enough[i]}):
        own = [i for i, c in enumerate(table.columns) if c.silicon == silicon]
        base = fit_base(hide(table, own)[0])
        for index in (i for i in own if enough[i]):
            names = [name for name, chosen in groups.items() if chosen(table.columns[index])]
            for condition in (*CONDITIONS, *ONE_BY_ONE) if names else ():
                tell = _one_by_one if condition in ONE_BY_ONE else _tried
                for each in tell(table, base, index, rated, condition, calibration):
                    for name in names:
                        tried[name, condition].append(each)
    return [_summary(group, condition, found) for (group, condition), found in tried.items()]


def _tried(
    table: LatencyTable, base: Base, index: int, rated: Floats, condition: str, calibration: Calibration
) -> Iterator[_Tried]:
    column, values = table.columns[index], table.values[index]
    known = np.flatnonzero(~np.isnan(values) & ~np.isnan(rated))
    seen = _seen(base, column, known, condition)
    rest = np.setdiff1d(known, seen)
    for budget in np.linspace(*np.quantile(values[rest], [0.05, 0.95]), BUDGETS):
        chances, _ = _chances(base, column, seen, values, rest, float(budget), calibration)
        yield _Tried(chances, values[rest], rated[rest], float(budget), column.silicon)


def _one_by_one(
    table: LatencyTable, base: Base, index: int, rated: Floats, condition: str, calibration: Calibration
) -> Iterator[_Tried]:
    """Yield all networks for each budget: a measured one surely meets it or not, and can be the pick."""
    column, values = table.columns[index], table.values[index]
    known = np.flatnonzero(~np.isnan(values) & ~np.isnan(rated))
    for budget in np.linspace(*np.quantile(values[known], [0.05, 0.95]), BUDGETS):
        seen = np.array([], dtype=np.intp)
        for _ in range(ONE_BY_ONE[condition]):
            chances, distance = _chances(base, column, seen, values, known, float(budget), calibration)
            chosen = choose_decisive(chances, rated[known], distance, np.isin(known, seen))
            seen = np.sort(np.append(seen, known[chosen]))
        chances, _ = _chances(base, column, seen, values, known, float(budget), calibration)
        yield _Tried(chances, values[known], rated[known], float(budget), column.silicon)


def _chances(
    base: Base, column: Column, seen: Indices, values: Floats, asked: Indices, budget: float, calibration: Calibration
) -> tuple[Floats, Floats]:
    """Return the probability that each asked network meets the budget, and its distance; ``seen`` were measured."""
    posterior = _find_posterior(base, column, tuple(map(int, seen)), tuple(map(float, values[seen])))
    found = estimate_latencies(posterior, queries_of_known(posterior.base, asked))
    regimes = [regime_of(column, posterior.likeness, len(seen), SUPPORT[support]) for support in found.support]
    errors = (budget - found.mean) / np.where(budget > found.mean, found.above, found.deviation)
    chances = np.array([calibration.below(*pair) for pair in zip(regimes, errors, strict=True)])
    measured = np.isin(asked, seen)
    chances[measured] = values[asked[measured]] <= budget
    return chances, np.abs(found.mean - budget)


@lru_cache(maxsize=64)
def _find_posterior(base: Base, column: Column, seen: tuple[int, ...], values: tuple[float, ...]) -> LatencyPosterior:
    """Return the posterior of a target; all budgets, and longer sequences of networks, begin with the same ones."""
    return posterior_of(base, column, np.array(seen, dtype=np.intp), np.array(values))


def _seen(base: Base, column: Column, known: Indices, condition: str) -> Indices:
    if condition == CONDITIONS[0]:
        return np.array([], dtype=np.intp)
    if condition == CONDITIONS[1]:
        generator = np.random.default_rng(fold_of(repr(column), 2**32))
        return np.asarray(np.sort(generator.choice(known, 5, replace=False)))
    return np.sort(np.array(choose_models(base, column, [int(i) for i in known], 5), dtype=np.intp))


def _summary(group: str, condition: str, tried: list[_Tried]) -> Picks:
    met, stated, lost, possible = [], [], [], 0
    of_silicon: dict[str, list[bool]] = defaultdict(list)
    for each in tried:
        within = each.truth <= each.budget
        possible += bool(within.any())
        sure = np.flatnonzero(each.chances >= SURE)
        if within.any() and len(sure):
            pick = int(sure[np.argmax(each.accuracy[sure])])
            met.append(bool(within[pick]))
            of_silicon[each.silicon].append(met[-1])
            stated.append(float(each.chances[pick]))
            lost.append(max(0.0, float(each.accuracy[within].max() - each.accuracy[pick])))
    chances = np.concatenate([each.chances for each in tried])
    true = np.concatenate([each.truth <= each.budget for each in tried])
    bins = np.minimum((chances * 10).astype(int), 9)
    distances = [abs(chances[bins == b].mean() - true[bins == b].mean()) for b in np.unique(bins)]
    low, high = _interval([np.array(each, dtype=float) for each in of_silicon.values()])
    shares = (float(np.mean(met)), low, high, float(np.mean(stated)))
    return Picks(group, condition, possible, len(met), *shares, float(np.mean(lost)), float(max(distances)))


def _interval(groups: list[Floats]) -> tuple[float, float]:
    """Return the 80 % interval of the mean of all values over groups that are drawn again with replacement."""
    sums, counts = np.array([each.sum() for each in groups]), np.array([len(each) for each in groups])
    drawn = np.random.default_rng(0).integers(len(groups), size=(DRAWS, len(groups)))
    low, high = np.quantile(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1), [0.1, 0.9])
    return float(low), float(high)

"""Errors by regime: their quantiles, how many independent ones they are worth, and what intervals cover."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.devices._latency.calibration import EVERYTHING, LEAST, LEVELS, SUPPORT, Calibration, regime_of
from advisor.devices._latency.table import LatencyTable, runtime_family
from benchmarks.latency_protocols.baselines import Floats
from benchmarks.latency_protocols.validation import FOLDS, Errors, all_errors, fold_of

LEVEL = 0.8
"""Of the intervals that are judged."""

_FEW = 10
"""Silicons of a kind below which each one is judged by all the others: microcontrollers have three, and the hash puts
nearly all of their errors into one half."""

_BORROWED = 5.0
"""Independent errors that a regime of CPUs without measurements borrows: from all networks with the same reference, and
from all CPUs without measurements. A machine's level is then the main error, whatever the network, and few machines
tell little about its quantiles. Chosen among 0, 5, 10, 20 and 40 by halves of the silicon that judge each other."""


def calibrate(table: LatencyTable, folds: int = FOLDS) -> Calibration:
    """Return the calibration for ``table``: the standardised errors of every regime from cross-validation."""
    return calibration_of(table.fingerprint(), by_regime(all_errors(table, folds)))


@dataclass(frozen=True)
class Scored:
    """One standardised error.

    Attributes:
        value: (true - predicted) / deviation, in logarithms.
        target: device and target.
        source: runtime that measured it, without its version.
        unit: what was hidden as one: silicon, or the design of the core.
        deviation: the deviation.
    """

    value: float
    target: str
    source: str
    unit: str = ""
    deviation: float = 1.0


def by_regime(results: Iterable[Errors]) -> dict[str, list[Scored]]:
    """Return the standardised errors by regime."""
    scored: dict[str, list[Scored]] = defaultdict(list)
    for result in results:
        column, estimated = result.column, result.estimate
        unit = column.core if result.likeness == "core" else column.silicon
        errors = result.truth - estimated.mean
        deviations = np.where(errors > 0, estimated.above, estimated.deviation)
        for error, deviation, support in zip(errors, deviations, estimated.support, strict=True):
            regime = regime_of(column, result.likeness, result.anchors, SUPPORT[support])
            name = f"{column.device}:{column.target}:{column.precision}"
            source = runtime_family(column.runtime)
            scored[regime].append(Scored(float(error / deviation), name, source, unit, float(deviation)))
    return scored


def calibration_of(data_hash: str, errors: Mapping[str, Sequence[Scored]]) -> Calibration:
    """Return the calibration for some errors.

    A regime with fewer than :data:`advisor.devices._latency.calibration.LEAST` errors gets no quantiles. Each kind of
    targets, and all together, get those of their targets without measurements. A CPU without measurements borrows
    errors (:data:`_BORROWED`).

    Raises:
        ValueError: there is no error of a target without measurements.
    """
    pools = _pool_unmeasured(errors)
    if not pools:
        raise ValueError("there are no measurements to estimate the errors of predictions")
    shared = {key: scored for key, scored in pools.items() if "/" not in key}
    enough = {key: scored for key, scored in {**errors, **shared}.items() if len(scored) >= LEAST or key == EVERYTHING}
    mixed = {key: _borrow_errors(key, _sample_errors(enough[key], key), pools) for key in sorted(enough)}
    return Calibration(
        data_hash,
        {key: tuple(round(q, 4) for q in _quantiles(sample)) for key, sample in mixed.items()},
        {key: len(enough[key]) for key in mixed},
        {key: round(sample.units, 1) for key, sample in mixed.items()},
    )


def _pool_unmeasured(errors: Mapping[str, Sequence[Scored]]) -> dict[str, list[Scored]]:
    """Return the errors without measurements on the target: of all kinds, of each kind, of each reference of a kind."""
    pools: dict[str, list[Scored]] = defaultdict(list)
    for regime, scored in errors.items():
        kind, reference, rest = regime.split("/")
        if rest.startswith("0-"):
            for key in (EVERYTHING, kind, f"{kind}/{reference}"):
                pools[key].extend(scored)
    return pools


@dataclass(frozen=True, eq=False)
class _Sample:
    """Errors with weights."""

    values: Floats  # (n,)
    weights: Floats  # (n,) their sum is 1
    units: float  # the number of independent errors that they are worth


def _borrow_errors(key: str, sample: _Sample, pools: Mapping[str, Sequence[Scored]]) -> _Sample:
    """Return the errors of a regime with those that it borrows, if it is of CPUs without measurements."""
    kind, _, rest = key.partition("/")
    if not kind.startswith("cpu") or "/0-" not in rest:
        return sample
    parts = [(sample, sample.units)]
    for lender in (key.rpartition("/")[0], kind):
        # Borrowed errors count as the regime's: with its weights of sources, and alike on one machine.
        borrowed = _sample_errors(pools[lender], key)
        parts.append((borrowed, min(borrowed.units, _BORROWED)))
    total = sum(units for _, units in parts)
    values = np.concatenate([part.values for part, _ in parts])
    weights = np.concatenate([part.weights * units / total for part, units in parts])
    # What is borrowed comes from the same machines: no regime tells more than all of its kind.
    return _Sample(values, weights, min(total, _independent(kind, pools[kind])))


def _of_any_source(key: str) -> bool:
    """Return whether a regime's predictions are for sources that took no part: another runtime, or a whole kind."""
    return "/runtime/" in key or "/" not in key


def _independent(key: str, scored: Sequence[Scored]) -> float:
    """Return the number of independent errors of a regime.

    Errors on one silicon (or design of cores) are alike, and those of one source if another one is predicted. Without
    any measurement on the silicon, they share its level: then it counts once.
    """
    values = [each.value for each in scored]
    numbers = [effective_number(values, [each.unit for each in scored])]
    if _of_any_source(key):
        numbers.append(effective_number(values, [each.source for each in scored]))
    level_unknown = "/" not in key or (
        "/0-" in key and not any(f"/{known}/" in key for known in ("release", "version"))
    )
    return min([*numbers, len({each.unit for each in scored})] if level_unknown else numbers)


def _sample_errors(scored: Sequence[Scored], key: str) -> _Sample:
    """Return the errors of a regime or a kind with their weights.

    For any source, each source counts once, and in it each target. Without a measurement on the target, each error
    counts with both signs: whether the few machines that were hidden are slower or faster than the others is chance.
    """
    units = _independent(key, scored)
    if "/0-" in key or "/" not in key:
        scored = [*scored, *(replace(error, value=-error.value) for error in scored)]
    values = np.array([each.value for each in scored])
    if not _of_any_source(key):
        return _Sample(values, np.full(len(values), 1 / len(values)), units)
    per_target = Counter((each.source, each.target) for each in scored)
    per_source = Counter(source for source, _ in per_target)
    weights = np.array([1 / per_target[each.source, each.target] / per_source[each.source] for each in scored])
    return _Sample(values, weights / weights.sum(), units)


def _quantiles(sample: _Sample) -> list[float]:
    """Return the quantiles of weighted errors at the stored levels."""
    if np.ptp(sample.weights) == 0:
        return [float(q) for q in np.quantile(sample.values, LEVELS)]
    order = np.argsort(sample.values)
    middles = np.cumsum(sample.weights[order]) - sample.weights[order] / 2
    return [float(q) for q in np.interp(LEVELS, middles, sample.values[order])]


def effective_number(values: Sequence[float], groups: Sequence[str]) -> float:
    """Return how many independent values tell as much about a new group as these (Kish's design effect).

    It is n / (1 + (m - 1) r) for groups of m values with the intraclass correlation r: the number of groups if the
    values of one are equal, n if they are no more alike than others. The correlation is that of the ranks of the values
    or of their distance from the median, whichever is larger.

    Args:
        values: (n,) the errors.
        groups: (n,) the group of each, such as its silicon.
    """
    scored, (_, of) = np.array(values), np.unique(np.array(groups), return_inverse=True)
    sizes = np.bincount(of).astype(np.float64)
    size = float((sizes**2).sum() / len(scored))
    correlation = max(_intraclass(_ranks(each), of, sizes) for each in (scored, np.abs(scored - np.median(scored))))
    return float(max(1.0, len(scored) / (1 + (size - 1) * correlation)))


def _ranks(values: Floats) -> Floats:
    ranks: Floats = np.argsort(np.argsort(values)) / len(values)
    return ranks


def _intraclass(values: Floats, of: NDArray[np.intp], sizes: Floats) -> float:
    """Return the intraclass correlation, from one-way analysis of variance; 1 for a single group."""
    n, groups = len(values), len(sizes)
    if groups < 2:
        return 1.0
    means = np.bincount(of, values) / sizes
    between = float((sizes * (means - values.mean()) ** 2).sum()) / (groups - 1)
    within = float(((values - means[of]) ** 2).sum()) / max(n - groups, 1)
    size = (n - float((sizes**2).sum()) / n) / (groups - 1)
    total = between + (size - 1) * within
    return float(np.clip((between - within) / total, 0, 1)) if total > 0 else 1.0


@dataclass(frozen=True)
class Coverage:
    """How often intervals held the truth, and how wide they were."""

    regime: str
    covered: float
    width: float
    predictions: int


def intervals(table: LatencyTable) -> list[Coverage]:
    """Coverage and median relative width by regime; no silicon is judged by its own errors (:func:`_divide`)."""
    return judge_intervals(all_errors(table, FOLDS))  # as calibrate does, so that both use one result


def judge_intervals(results: Sequence[Errors]) -> list[Coverage]:
    """Return the coverages of :func:`intervals` for the errors of a cross-validation."""
    inside: dict[str, list[bool]] = defaultdict(list)
    widths: dict[str, list[float]] = defaultdict(list)
    for learnt, judged in _divide(results):
        _judge(learnt, judged, inside, widths)
    keys = [key for key in sorted(inside) if len(inside[key]) >= LEAST]
    groups = {key: [key] for key in keys}
    groups["all/4 models or more measured, the model known"] = [k for k in keys if k[-7] in "234" and k[-5:] == "model"]
    groups["all/everything"] = sorted(inside)
    return _coverages(groups, inside, widths)


def unseen_sources(table: LatencyTable) -> list[Coverage]:
    """Coverage by kind, source and whether models were measured, on devices and sources that took no part.

    A prediction without the target's runtime or core is judged by errors of other runtimes on the other silicon
    (:func:`_divide`).
    """
    return judge_unseen_sources(all_errors(table, FOLDS))


def judge_unseen_sources(results: Sequence[Errors]) -> list[Coverage]:
    """Return the coverages of :func:`unseen_sources` for the errors of a cross-validation."""
    inside: dict[str, list[bool]] = defaultdict(list)
    widths: dict[str, list[float]] = defaultdict(list)
    for learnt, judged in _divide(results):
        for source in sorted({_source(each) for each in judged}):
            others = [each for each in learnt if _source(each) != source]
            own = [each for each in judged if _source(each) == source and each.likeness in ("runtime", "core")]
            here: tuple[dict[str, list[bool]], dict[str, list[float]]] = (defaultdict(list), defaultdict(list))
            if others and own and any(each.anchors == 0 for each in others):
                _judge(others, own, *here)
            for regime in here[0]:
                kind, missing, rest = regime.split("/")
                name = f"{kind}/{missing}/{source}/{'none' if rest.startswith('0-') else 'some'}"
                inside[name] += here[0][regime]
                widths[name] += here[1][regime]
    return _coverages({key: [key] for key in sorted(inside) if len(inside[key]) >= LEAST}, inside, widths)


def _source(result: Errors) -> str:
    return runtime_family(result.column.runtime)


def _divide(results: Sequence[Errors]) -> Iterator[tuple[list[Errors], list[Errors]]]:
    """Yield errors to learn from and errors to judge, so that each silicon is judged once, by other silicon.

    One half of the silicon judges the other. Of a kind with few silicons a half may have hardly an error, and its
    regimes would be judged by the errors of other kinds. So each of its silicons is judged by all the others.
    """
    few = _find_few_silicons(results)
    halves = [[r for r in results if fold_of("half " + r.column.silicon, 2) == half] for half in (0, 1)]
    for learnt, other in (halves, halves[::-1]):
        yield learnt, [result for result in other if result.column.kind not in few]
    for kind, silicons in few.items():
        for silicon in sorted(silicons):
            learnt = [result for result in results if result.column.silicon != silicon]
            yield learnt, [r for r in results if (r.column.kind, r.column.silicon) == (kind, silicon)]


def _find_few_silicons(results: Sequence[Errors]) -> dict[str, set[str]]:
    """Return the silicons of each kind that has fewer than :data:`_FEW`."""
    silicons: dict[str, set[str]] = defaultdict(set)
    for result in results:
        silicons[result.column.kind].add(result.column.silicon)
    return {kind: names for kind, names in silicons.items() if len(names) < _FEW}


def _judge(
    learnt: Sequence[Errors], judged: Sequence[Errors], inside: dict[str, list[bool]], widths: dict[str, list[float]]
) -> None:
    """Add by regime whether the intervals learnt from some errors held others, and how wide they were."""
    calibration = calibration_of("", by_regime(learnt))
    for regime, errors in by_regime(judged).items():
        low, high = calibration.bounds(regime, LEVEL)
        inside[regime] += [low <= each.value <= high for each in errors]
        widths[regime] += [float(np.exp(high * e.deviation) - np.exp(low * e.deviation)) for e in errors]


def _coverages(
    groups: Mapping[str, Sequence[str]], inside: Mapping[str, list[bool]], widths: Mapping[str, list[float]]
) -> list[Coverage]:
    return [
        Coverage(
            name,
            float(np.mean([each for key in members for each in inside[key]])),
            float(np.median([each for key in members for each in widths[key]])),
            sum(len(inside[key]) for key in members),
        )
        for name, members in groups.items()
    ]

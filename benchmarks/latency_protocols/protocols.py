"""What is hidden, what is predicted, what is counted. Splits are by silicon, by family and by job, never by row."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from advisor.devices._latency.base import Base, fit_base
from advisor.devices._latency.model import choose_models
from advisor.devices._latency.table import Column, LatencyTable
from benchmarks.latency_protocols import baselines
from benchmarks.latency_protocols.baselines import Floats, Indices
from benchmarks.latency_protocols.validation import FOLDS, Errors, fold_of, hide, known_targets, predict_hidden

Selector = Callable[[Column], bool]
Method = str

NEAREST, LOW_RANK, FEATURES, OURS = "nearest x ratio", "low-rank normal", "MACs + params ridge", "advisor"
_LEAST = 4


@dataclass
class Score:
    """Errors of one method under one protocol.

    Attributes:
        errors: log predicted - log true, all predictions.
        correlations: Spearman's of every target or draw.
    """

    errors: list[float] = field(default_factory=list)
    correlations: list[float] = field(default_factory=list)

    def add(self, predicted: Floats, truth: Floats) -> None:
        """Count the predictions of one target."""
        self.errors.extend(float(e) for e in predicted - truth)
        if len(truth) >= _LEAST:
            self.correlations.append(baselines.spearman(predicted, truth))

    @property
    def relative(self) -> Floats:
        """Relative errors."""
        out: Floats = np.abs(np.expm1(np.array(self.errors)))
        return out

    def row(self) -> dict[str, float]:
        """Return within +-10 %, median error, mean Spearman, number of predictions."""
        return {
            "within_10": float((self.relative <= 0.1).mean()),
            "median_error": float(np.median(self.relative)),
            "spearman": float(np.mean(self.correlations)) if self.correlations else float("nan"),
            "predictions": len(self.errors),
        }


Scores = dict[tuple[str, Method], Score]


def held_out(table: LatencyTable, chosen: Selector, least: int) -> Iterator[tuple[Base, LatencyTable, int, Floats]]:
    """Hide one silicon after the other with all its targets.

    Yields:
        the base fitted without it, the table, the index of a chosen column, and (targets, models) log latencies of the
        known targets of the same kind, precision and runtime: the pool of the baselines.
    """
    measured = ~np.isnan(table.values)
    by_silicon: dict[str, list[int]] = defaultdict(list)
    for index, column in enumerate(table.columns):
        if chosen(column) and measured[index].sum() >= least:
            by_silicon[column.silicon].append(index)
    for silicon, indices in sorted(by_silicon.items()):
        hidden = [i for i, c in enumerate(table.columns) if c.silicon == silicon]
        shown, _ = hide(table, hidden)
        base = fit_base(shown)
        for index in indices:
            column = table.columns[index]
            same = [i for i, c in enumerate(shown.columns) if _alike(c, column)]
            pool = shown.values[same]
            pool = pool[(~np.isnan(pool)).sum(axis=1) >= 8]
            if len(pool) >= 3:
                yield base, table, index, pool


def _alike(one: Column, other: Column) -> bool:
    return (one.kind, one.precision, one.runtime) == (other.kind, other.precision, other.runtime)


def new_target(table: LatencyTable, chosen: Selector, anchors: Sequence[int], draws: int) -> Scores:
    """A device that was never seen: ``k`` of its models are measured, at random or chosen, the others predicted."""
    scores: Scores = defaultdict(Score)
    for base, whole, index, pool in held_out(table, chosen, max(anchors) + _LEAST):
        values = whole.values[index]
        known = np.flatnonzero(~np.isnan(values) & (~np.isnan(pool)).any(axis=0))
        generator = np.random.default_rng(fold_of(repr(whole.columns[index]), 2**32))
        for count in anchors:
            for _ in range(draws):
                seen = np.sort(generator.choice(known, count, replace=False))
                _score_all(scores, f"k={count}", base, whole, index, pool, seen, np.setdiff1d(known, seen))
                # The advisor chooses among what a user can have: two thirds of the models.
                ready = generator.choice(known, max(count, round(len(known) * 2 / 3)), replace=False)
                seen = np.sort(choose_models(base, whole.columns[index], [int(i) for i in ready], count))
                rest = np.setdiff1d(known, seen)
                _score_all(scores, f"k={count}, chosen", base, whole, index, pool, np.array(seen), rest)
            seen = np.sort(choose_models(base, whole.columns[index], [int(i) for i in known], count))
            name = f"k={count}, chosen of all"
            _score_all(scores, name, base, whole, index, pool, seen, np.setdiff1d(known, seen))
    return dict(scores)


def _score_all(
    scores: Scores, name: str, base: Base, table: LatencyTable, index: int, pool: Floats, seen: Indices, rest: Indices
) -> None:
    values = table.values[index]
    scores[name, NEAREST].add(baselines.nearest_times_ratio(pool, seen, values[seen], rest), values[rest])
    scores[name, LOW_RANK].add(baselines.low_rank(pool, seen, values[seen], rest), values[rest])
    scores[name, FEATURES].add(baselines.features_alone(table.features, seen, values[seen], rest), values[rest])
    scores[name, OURS].add(predict_hidden(table, base, index, seen, rest).estimate.mean, values[rest])


def every_other_model(table: LatencyTable, chosen: Selector) -> Score:
    """The ceiling: each model of a new device from all its others."""
    score = Score()
    for base, whole, index, pool in held_out(table, chosen, 8):
        values = whole.values[index]
        known = np.flatnonzero(~np.isnan(values) & (~np.isnan(pool)).any(axis=0))
        found = [
            predict_hidden(whole, base, index, np.setdiff1d(known, [m]), np.array([m])).estimate.mean[0] for m in known
        ]
        score.add(np.array(found), values[known])
    return score


def new_runtime(table: LatencyTable, chosen: Selector, anchors: Sequence[int], draws: int) -> Scores:
    """A new target on a known device: it alone is hidden, the device's other runtimes stay."""
    scores: Scores = defaultdict(Score)
    for index, column in enumerate(table.columns):
        known = np.flatnonzero(~np.isnan(table.values[index]))
        if not chosen(column) or len(known) < max(anchors) + _LEAST:
            continue
        hidden = [i for i, c in enumerate(table.columns) if (c.device, c.target) == (column.device, column.target)]
        shown, _ = hide(table, hidden)
        base = fit_base(shown)
        pool = shown.values[[c.kind == column.kind and c.precision == column.precision for c in shown.columns]]
        known = known[(~np.isnan(pool[:, known])).any(axis=0)]
        generator = np.random.default_rng(fold_of(repr(column), 2**32))
        for count in anchors:
            for _ in range(draws):
                seen = np.sort(generator.choice(known, count, replace=False))
                _score_all(scores, f"k={count}", base, table, index, pool, seen, np.setdiff1d(known, seen))
            seen = np.sort(choose_models(base, column, [int(i) for i in known], count))
            name = f"k={count}, chosen of all"
            _score_all(scores, name, base, table, index, pool, seen, np.setdiff1d(known, seen))
    return dict(scores)


def no_anchors(table: LatencyTable, chosen: Selector) -> Scores:
    """A device that was never seen and is not at hand."""
    scores: Scores = defaultdict(Score)
    for base, whole, index, pool in held_out(table, chosen, 8):
        values = whole.values[index]
        known = np.flatnonzero(~np.isnan(values) & (~np.isnan(pool)).any(axis=0))
        none = np.array([], dtype=np.intp)
        scores["k=0", OURS].add(predict_hidden(whole, base, index, none, known).estimate.mean, values[known])
        middle = baselines.mean_target(pool)[known] + float(np.nanmean(pool))
        scores["k=0", "mean of the kind"].add(middle, values[known])
        sized = known[~np.isnan(whole.features[known, 0])]
        macs = whole.features[sized, 0] - float(np.nanmean(whole.features[:, 0])) + float(np.nanmean(pool))
        scores["k=0", "MACs alone"].add(macs, values[sized])
    return dict(scores)


def unseen_family(table: LatencyTable, chosen: Selector) -> Scores:
    """Families hidden on one target, or everywhere; all other models of the target are known."""
    scores: Scores = defaultdict(Score)
    for fold in range(FOLDS):
        for result in known_targets(table, fold):
            _score_family(scores, "unseen there", table, result, chosen)
        families = [
            i
            for i, family in enumerate(table.families)
            if fold_of(family) == fold and not np.isnan(table.features[i]).any()
        ]
        shown, left = hide(table, (), families)
        base = fit_base(shown)
        for position, index in enumerate(int(i) for i in left):
            measured = np.flatnonzero(~np.isnan(table.values[index]))
            hidden = np.intersect1d(measured, np.array(families, dtype=np.intp))
            if len(hidden) and chosen(table.columns[index]):
                seen = np.setdiff1d(measured, hidden)
                result = predict_hidden(table, base, index, seen, hidden, (position,))
                _score_family(scores, "unseen anywhere", table, result, chosen, seen)
    for key, groups in _BY_TARGET.items():
        for predicted, truth in groups.values():
            if len(truth) >= 8:
                scores[key].correlations.append(baselines.spearman(np.array(predicted), np.array(truth)))
    _BY_TARGET.clear()
    return dict(scores)


_BY_TARGET: dict[tuple[str, Method], dict[Column, tuple[list[float], list[float]]]] = {}


def _score_family(
    scores: Scores, name: str, table: LatencyTable, result: Errors, chosen: Selector, seen: Indices | None = None
) -> None:
    if not chosen(result.column) or result.anchors < 8:
        return
    _add(scores, (name, OURS), result.column, result.estimate.mean, result.truth)
    index = table.columns.index(result.column)
    shown = np.setdiff1d(np.flatnonzero(~np.isnan(table.values[index])), result.models) if seen is None else seen
    predicted = baselines.features_alone(table.features, shown, table.values[index, shown], result.models)
    known = ~np.isnan(table.features[result.models, 0])
    _add(scores, (name, FEATURES), result.column, predicted[known], result.truth[known])


def _add(scores: Scores, key: tuple[str, Method], column: Column, predicted: Floats, truth: Floats) -> None:
    """Count errors now; a target's correlation is of all its folds together."""
    scores[key].errors.extend(float(e) for e in predicted - truth)
    lists = _BY_TARGET.setdefault(key, {}).setdefault(column, ([], []))
    lists[0].extend(map(float, predicted))
    lists[1].extend(map(float, truth))


@dataclass(frozen=True)
class Noise:
    """How far two jobs of one network on one unit differ, through two of the vendor's runtimes.

    Attributes:
        runtimes: the two.
        pairs: networks x devices that both ran.
        raw: share that differ by more than 10 %.
        offset: the same after each device's own ratio between the runtimes is taken off.
        both: and each network's.
    """

    runtimes: str
    pairs: int
    raw: float
    offset: float
    both: float


def noise(table: LatencyTable, precision: str) -> list[Noise]:
    """Bound what any method can reach: no network was measured twice on one target, but through several runtimes."""
    columns: dict[tuple[str, str], int] = {}
    for i, column in enumerate(table.columns):
        if _on_npu(column, precision):
            columns.setdefault((column.device, column.runtime), i)  # the newest release has the first name
    found = []
    for one, other in (("tflite", "qnn"), ("qnn", "onnxruntime")):
        devices = sorted({d for d, _ in columns if (d, one) in columns and (d, other) in columns})
        gaps = np.array([table.values[columns[d, one]] - table.values[columns[d, other]] for d in devices])
        by_device = gaps - np.nanmedian(gaps, axis=1, keepdims=True)
        enough = (~np.isnan(gaps)).sum(axis=0) >= 3
        of_both = by_device[:, enough] - np.nanmedian(by_device[:, enough], axis=0, keepdims=True)
        pairs = int((~np.isnan(gaps)).sum())
        found.append(Noise(f"{one} and {other}", pairs, *(_beyond(each) for each in (gaps, by_device, of_both))))
    return found


def _on_npu(column: Column, precision: str) -> bool:
    return (column.kind, column.precision) == ("npu", precision)


def _beyond(gaps: Floats) -> float:
    return float((np.abs(np.expm1(gaps[~np.isnan(gaps)])) > 0.1).mean())

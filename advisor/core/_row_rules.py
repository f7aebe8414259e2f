"""The rules that the values of an evaluation satisfy among themselves;
a row of a run that breaks one is left out.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from advisor.core import Metric
from advisor.core._evaluation import Evaluation, Status
from advisor.core._evaluation_facts import ImageAnswers, TimeSummary, UnknownFacts
from advisor.core._metrics import METRICS
from advisor.core._quantity import Provenance, Quantity

Rule = Callable[[Evaluation], bool]

UNITS = {
    "accuracy": "%",
    "holdout_accuracy": "%",
    "new_conditions": "%",
    "latency": "ms",
    "latency_p90": "ms",
    "size": "bytes",
    "memory": "bytes",
    "drop": "points",
    "holdout_drop": "points",
}
"""The unit of each quantity of an evaluation."""

# Relative difference of figures that are computed from the same values in another order.
_CLOSE = 1e-6


def broken_rule(evaluation: Evaluation, key: object = None) -> str:
    """Return the first rule that an evaluation breaks, in words; empty if it satisfies all.

    ``key`` is what its row says of its configuration, None for nothing.
    """
    if key not in (None, evaluation.configuration.key):
        return "the key is that of the configuration"
    return next((words for words, holds in list_rules().items() if not holds(evaluation)), "")


def _of(name: str, holds: Callable[[Quantity], bool]) -> Rule:
    """Return a rule of one quantity, which an evaluation without this quantity satisfies."""

    def rule(row: Evaluation) -> bool:
        quantity = getattr(row, name)
        return quantity is None or holds(quantity)

    return rule


def _ends(quantity: Quantity) -> list[float]:
    """Return the ends of an interval; a missing one is the value."""
    return [quantity.value if end is None else end for end in (quantity.low, quantity.high)]


def _holds_value(quantity: Quantity) -> bool:
    low, high = _ends(quantity)
    slack = _CLOSE * max(1.0, abs(quantity.value))
    return low - slack <= quantity.value <= high + slack


def _close(one: Any, other: Any) -> bool:
    both = isinstance(one, float) and isinstance(other, float)
    if both:
        return math.isclose(one, other, rel_tol=_CLOSE, abs_tol=_CLOSE)
    return bool(one == other)


def _list_answers(row: Evaluation) -> Iterator[tuple[ImageAnswers, Quantity]]:
    """Yield the answers to each part of the images, with the accuracy that was computed from
    them.
    """
    if row.accuracy is not None:
        yield row.answers, row.capture.plain or row.accuracy
    if row.holdout_answers is not None and row.holdout_accuracy is not None:
        yield row.holdout_answers, row.holdout_accuracy


def _counts_fit(answers: ImageAnswers, accuracy: Quantity) -> bool:
    counts = answers.confusion or ()
    right = []
    for label, row in enumerate(counts):
        right.append(sum(row[label : label + 1]))
    total = sum(map(sum, counts))
    top1 = answers.metrics.get(Metric.TOP1, accuracy)
    recalls = zip(answers.per_class_recall.values(), right, counts, strict=False)
    return not total or (
        _close(top1.value, 100 * sum(right) / total)
        and top1.n in (None, total)
        and all(
            share is None or _close(share * sum(row), float(hits)) for share, hits, row in recalls
        )
    )


def _is_a_metric(answers: ImageAnswers, accuracy: Quantity) -> bool:
    # The usual figure of boxes, mAP@0.5, has no name among the metrics,
    # which are further figures there.
    if all(name in METRICS and METRICS[name].of_boxes for name in answers.metrics):
        return True
    top1, *metrics = (
        (*_ends(q), q.value, q.level, q.n, q.provenance)
        for q in (accuracy, *answers.metrics.values())
    )
    return any(all(map(_close, top1, metric)) for metric in metrics)


def _in_order(times: TimeSummary | None) -> bool:
    return times is None or (times.min or 0) <= times.p50 <= times.p90


def _was_timed(row: Evaluation) -> bool:
    p90 = row.latency_p90
    timing = row.timing
    if timing is None or timing.wall_ms is None:
        return True
    fits = (
        p90 and times and _close(p90.value, times.p90) for times in (timing.wall_ms, timing.cpu_ms)
    )
    return any(fits) and all(q and q.provenance is Provenance.MEASURED for q in (row.latency, p90))


def _shares(row: Evaluation) -> Iterator[float | None]:
    unknown = row.unknown or UnknownFacts()
    agreement = row.agreement
    more = row.on_all
    yield from (
        row.budget_probability,
        unknown.accepted,
        *(facts.accepted for facts in unknown.by_class.values()),
    )
    yield from (agreement.share, agreement.kept) if agreement else ()
    yield from (more.same, more.more / max(more.images, more.more, 1)) if more else ()
    for answers, _ in _list_answers(row):
        yield from answers.per_class_recall.values()
    others = (unknown.others.found, unknown.others.auroc) if unknown.others else ()
    left_out = (facts.auroc for facts in unknown.by_class.values())
    for quantity in (
        unknown.auroc,
        unknown.float_auroc,
        unknown.kept,
        unknown.precision,
        *others,
        *left_out,
    ):
        yield from (quantity.low, quantity.value, quantity.high) if quantity else ()


def _files_fit(row: Evaluation) -> bool:
    more = []
    for facts in (row.unknown, row.on_all):
        if facts:
            more.append((facts.file, facts.sha256, facts.size_bytes))
    files = [(row.artefact, row.artefact_sha256, row.size.value if row.size else 0), *more]
    return all(
        re.fullmatch("[0-9a-f]{64}", sha256) and size > 0 for file, sha256, size in files if file
    )


@cache
def list_rules() -> Mapping[str, Rule]:
    """Return each rule in words, with the function that says whether an evaluation satisfies
    it.
    """
    return {
        **{
            f"{name} is in {unit}": _of(name, lambda q, unit=unit: q.unit == unit)  # type: ignore[misc]
            for name, unit in UNITS.items()
        },
        **{
            f"{name} is above zero": _of(name, lambda q: min(q.value, *_ends(q)) > 0)
            for name in ("latency", "latency_p90", "size")
        },
        **{f"the interval of {name} holds its value": _of(name, _holds_value) for name in UNITS},
        **{
            f"{name} and its interval are at most 100 %": _of(
                name, lambda q: max(q.value, *_ends(q)) <= 100 + _CLOSE
            )
            for name, unit in UNITS.items()
            if unit == "%"
        },
        **{
            f"the confidence of {name} is between 0 and 1": _of(
                name, lambda q: q.level is None or 0 < q.level < 1
            )
            for name in UNITS
        },
        "an accuracy is at least 0, unless it is the saved cost": lambda row: (
            Metric.COST_SAVED in row.answers.metrics
            or all(
                q is None or q.value >= 0
                for q in (row.accuracy, row.holdout_accuracy, row.new_conditions)
            )
        ),
        "the 90th percentile of the latency is at least its median": lambda row: (
            not row.latency
            or not row.latency_p90
            or row.latency_p90.value >= row.latency.value * (1 - _CLOSE)
        ),
        "the shortest run is at most the median, and this at most the 90th percentile": (
            lambda row: (
                not row.timing or (_in_order(row.timing.wall_ms) and _in_order(row.timing.cpu_ms))
            )
        ),
        "a latency that was timed is measured, with the 90th percentile of its timing": _was_timed,
        "the timing has the threads of the target": lambda row: (
            row.configuration.target.threads >= 1
            and (
                row.timing is None
                or row.timing.threads in (None, row.configuration.target.threads)
            )
        ),
        "accuracy and recall are the shares of right answers in the confusion matrix": (
            lambda row: all(_counts_fit(*pair) for pair in _list_answers(row))
        ),
        "the accuracy is one of the metrics of its answers": lambda row: all(
            _is_a_metric(*pair) for pair in _list_answers(row)
        ),
        "answers on the hold-out have an accuracy": lambda row: (
            row.holdout_answers is None or row.holdout_accuracy is not None
        ),
        "every share is between 0 and 1": lambda row: all(
            share is None or 0 <= share <= 1 for share in _shares(row)
        ),
        "an evaluation that is ok has a file with a size": lambda row: (
            row.status is not Status.OK or (bool(row.artefact) and row.size is not None)
        ),
        "an evaluation has a reason if it is not ok": (
            lambda row: (row.status is Status.OK) != bool(row.reason)
        ),
        "every file has a hash and a size above zero": _files_fit,
    }

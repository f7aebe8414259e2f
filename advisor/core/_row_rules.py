"""The rules that the values of an evaluation satisfy among themselves, such as a median
below the 90th percentile.

Whoever reads lines of ``evaluations.jsonl`` asks :func:`broken_rule` for each: a row that breaks
a rule was damaged or edited, and is left out. ``advisor doctor RUN`` shows the words of the rule.
A rule must hold for the rows of earlier versions, too.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
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
    for words, holds in list_rules().items():
        if not holds(evaluation):
            return words
    return ""


def _make_quantity_rule(name: str, holds: Callable[[Quantity], bool]) -> Rule:
    """Return a rule of one quantity, which an evaluation without this quantity satisfies."""

    def rule(row: Evaluation) -> bool:
        quantity = getattr(row, name)
        return quantity is None or holds(quantity)

    return rule


def _list_ends(quantity: Quantity) -> list[float]:
    """Return the ends of an interval; a missing one is the value."""
    return [quantity.value if end is None else end for end in (quantity.low, quantity.high)]


def _has_unit(unit: str, quantity: Quantity) -> bool:
    return quantity.unit == unit


def _is_above_zero(quantity: Quantity) -> bool:
    return min(quantity.value, *_list_ends(quantity)) > 0


def _is_at_most_100(quantity: Quantity) -> bool:
    return max(quantity.value, *_list_ends(quantity)) <= 100 + _CLOSE


def _has_level(quantity: Quantity) -> bool:
    return quantity.level is None or 0 < quantity.level < 1


def _holds_value(quantity: Quantity) -> bool:
    low, high = _list_ends(quantity)
    slack = _CLOSE * max(1.0, abs(quantity.value))
    return low - slack <= quantity.value <= high + slack


def _are_equal(value: Any, other: Any) -> bool:
    """Return whether two values are equal, floats but for rounding."""
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=_CLOSE, abs_tol=_CLOSE)
    return bool(value == other)


def _list_answers(row: Evaluation) -> Iterator[tuple[ImageAnswers, Quantity]]:
    """Yield the answers to each part of the images, with the accuracy computed from them."""
    if row.accuracy is not None:
        yield row.answers, row.capture.plain or row.accuracy
    if row.holdout_answers is not None and row.holdout_accuracy is not None:
        yield row.holdout_answers, row.holdout_accuracy


def _fits_confusion(row: Evaluation) -> bool:
    return all(_fits_counts(answers, accuracy) for answers, accuracy in _list_answers(row))


def _fits_counts(answers: ImageAnswers, accuracy: Quantity) -> bool:
    """Return whether top-1 and the recalls are the shares of the confusion matrix."""
    counts = answers.confusion or ()
    total = sum(map(sum, counts))
    if not total:
        return True
    right = []
    for label, row in enumerate(counts):
        right.append(sum(row[label : label + 1]))
    top1 = answers.metrics.get(Metric.TOP1, accuracy)
    if not _are_equal(top1.value, 100 * sum(right) / total) or top1.n not in (None, total):
        return False
    recalls = answers.per_class_recall.values()
    for share, hits, row in zip(recalls, right, counts, strict=False):
        if share is not None and not _are_equal(share * sum(row), float(hits)):
            return False
    return True


def _decides_by_metric(row: Evaluation) -> bool:
    return all(_is_metric(answers, accuracy) for answers, accuracy in _list_answers(row))


def _is_metric(answers: ImageAnswers, accuracy: Quantity) -> bool:
    """Return whether an accuracy is one of the metrics of its answers."""
    # The usual figure of boxes, mAP@0.5, has no name among the metrics,
    # which are further figures there.
    if all(name in METRICS and METRICS[name].of_boxes for name in answers.metrics):
        return True
    figure = _list_values(accuracy)
    for metric in answers.metrics.values():
        if all(map(_are_equal, figure, _list_values(metric))):
            return True
    return False


def _list_values(quantity: Quantity) -> tuple[object, ...]:
    """Return what makes two quantities the same figure."""
    return (
        *_list_ends(quantity),
        quantity.value,
        quantity.level,
        quantity.n,
        quantity.provenance,
    )


def _is_nonnegative(row: Evaluation) -> bool:
    # A model can cost more than always giving the cheapest answer.
    if Metric.COST_SAVED in row.answers.metrics:
        return True
    accuracies = (row.accuracy, row.holdout_accuracy, row.new_conditions)
    return all(figure is None or figure.value >= 0 for figure in accuracies)


def _has_p90_above_median(row: Evaluation) -> bool:
    if not row.latency or not row.latency_p90:
        return True
    return row.latency_p90.value >= row.latency.value * (1 - _CLOSE)


def _has_times_in_order(row: Evaluation) -> bool:
    timing = row.timing
    return timing is None or (_are_in_order(timing.wall_ms) and _are_in_order(timing.cpu_ms))


def _are_in_order(times: TimeSummary | None) -> bool:
    return times is None or (times.min or 0) <= times.p50 <= times.p90


def _was_timed(row: Evaluation) -> bool:
    p90 = row.latency_p90
    timing = row.timing
    if timing is None or timing.wall_ms is None:
        return True
    for quantity in (row.latency, p90):
        if quantity is None or quantity.provenance is not Provenance.MEASURED:
            return False
    # On a busy machine, the CPU time stands for the latency.
    clocks = [times for times in (timing.wall_ms, timing.cpu_ms) if times]
    return p90 is not None and any(_are_equal(p90.value, times.p90) for times in clocks)


def _has_threads_of_target(row: Evaluation) -> bool:
    threads = row.configuration.target.threads
    return threads >= 1 and (row.timing is None or row.timing.threads in (None, threads))


def _has_accuracy_on_holdout(row: Evaluation) -> bool:
    return row.holdout_answers is None or row.holdout_accuracy is not None


def _has_shares(row: Evaluation) -> bool:
    return all(share is None or 0 <= share <= 1 for share in _list_shares(row))


def _list_shares(row: Evaluation) -> Iterator[float | None]:
    """Yield every figure of an evaluation that is a share from 0 to 1."""
    agreement = row.agreement
    on_all = row.on_all
    yield row.budget_probability
    if agreement:
        yield from (agreement.share, agreement.kept)
    if on_all:
        yield from (on_all.same, on_all.more / max(on_all.images, on_all.more, 1))
    for answers, _ in _list_answers(row):
        yield from answers.per_class_recall.values()
    yield from _list_unknown_shares(row.unknown or UnknownFacts())


def _list_unknown_shares(unknown: UnknownFacts) -> Iterator[float | None]:
    """Yield the shares that tell how images of other things are answered."""
    yield unknown.accepted
    intervals = [unknown.auroc, unknown.float_auroc, unknown.kept, unknown.precision]
    if unknown.others:
        intervals += [unknown.others.found, unknown.others.auroc]
    for left_out in unknown.by_class.values():
        yield left_out.accepted
        intervals.append(left_out.auroc)
    for interval in intervals:
        if interval:
            yield from (interval.low, interval.value, interval.high)


def _has_file_if_ok(row: Evaluation) -> bool:
    return row.status is not Status.OK or (bool(row.artefact) and row.size is not None)


def _has_reason_unless_ok(row: Evaluation) -> bool:
    return (row.status is Status.OK) != bool(row.reason)


def _has_hashes(row: Evaluation) -> bool:
    files = [(row.artefact, row.artefact_sha256, row.size.value if row.size else 0)]
    for facts in (row.unknown, row.on_all):
        if facts:
            files.append((facts.file, facts.sha256, facts.size_bytes))
    for file, sha256, size_bytes in files:
        if file and (not re.fullmatch("[0-9a-f]{64}", sha256) or size_bytes <= 0):
            return False
    return True


@cache
def list_rules() -> Mapping[str, Rule]:
    """Return the rules: in words, and as a function that says if an evaluation satisfies it."""
    return {
        **_list_quantity_rules(),
        "an accuracy is at least 0, unless it is the saved cost": _is_nonnegative,
        "the 90th percentile of the latency is at least its median": _has_p90_above_median,
        "the shortest run is at most the median, and this at most the 90th percentile": (
            _has_times_in_order
        ),
        "a latency that was timed is measured, with the 90th percentile of its timing": _was_timed,
        "the timing has the threads of the target": _has_threads_of_target,
        "accuracy and recall are the shares of right answers in the confusion matrix": (
            _fits_confusion
        ),
        "the accuracy is one of the metrics of its answers": _decides_by_metric,
        "answers on the hold-out have an accuracy": _has_accuracy_on_holdout,
        "every share is between 0 and 1": _has_shares,
        "an evaluation that is ok has a file with a size": _has_file_if_ok,
        "an evaluation has a reason if it is not ok": _has_reason_unless_ok,
        "every file has a hash and a size above zero": _has_hashes,
    }


def _list_quantity_rules() -> dict[str, Rule]:
    """Return the rules of single quantities: unit, sign, interval, largest value, confidence."""
    rules = dict[str, Rule]()
    for name, unit in UNITS.items():
        rules[f"{name} is in {unit}"] = _make_quantity_rule(name, partial(_has_unit, unit))
    for name in ("latency", "latency_p90", "size"):
        rules[f"{name} is above zero"] = _make_quantity_rule(name, _is_above_zero)
    for name in UNITS:
        rules[f"the interval of {name} holds its value"] = _make_quantity_rule(name, _holds_value)
    for name, unit in UNITS.items():
        if unit == "%":
            words = f"{name} and its interval are at most 100 %"
            rules[words] = _make_quantity_rule(name, _is_at_most_100)
    for name in UNITS:
        words = f"the confidence of {name} is between 0 and 1"
        rules[words] = _make_quantity_rule(name, _has_level)
    return rules

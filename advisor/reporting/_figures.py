"""The key figures of an evaluation, each with its limit, interval and provenance.

The first section of the page and ``report.md`` show them. How far they can be relied on is in
``_foundations.py``.
"""

from collections.abc import Callable, Iterator

from advisor.core import (
    FLOAT,
    METRICS,
    Evaluation,
    Provenance,
    Quantity,
    show_bytes,
    show_ms,
    show_probability,
)
from advisor.reporting import _text as text
from advisor.reporting._blocks import Figure
from advisor.reporting._classes import metric_note
from advisor.reporting._view import RunView


def key_figures(view: RunView, evaluation: Evaluation) -> tuple[Figure, ...]:
    """Return the known ones of accuracy, latency, size, memory and drop of ``evaluation``."""
    return (*_accuracies(view, evaluation), *_costs(view, evaluation))


def _accuracies(view: RunView, evaluation: Evaluation) -> Iterator[Figure]:
    """Yield the accuracies of an evaluation:
    validation, hold-out, boxes, new and capture conditions.
    """
    quantity = evaluation.accuracy
    judged = evaluation.holdout_accuracy
    floor = view.limits.min_accuracy
    if quantity is not None:
        sample = f" on {quantity.n} images" if quantity.n else ""
        required = ""
        if floor is not None:
            required = f"at least {floor:g} % required"
        required = ", ".join(
            filter(None, (required, view.limits.show_met(evaluation).get("accuracy")))
        )
        label = f"{view.task.heading} on validation" if judged else view.task.heading
        origin = f"{quantity.provenance.value}{sample}"
        remark = _join(
            text.confidence(quantity), origin, required, metric_note(view.counted.name, quantity)
        )
        yield Figure(label, f"{quantity.value:.1f} %", remark)
    if judged is not None:
        images = text.show_holdout_images(evaluation)
        remark = (
            f"95 %: {text.interval(judged)} · expect this on images like these · {images},"
            " measured once"
        )
        yield Figure(f"{view.task.heading} on the hold-out", f"{judged.value:.1f} %", remark)
    boxes = (evaluation.holdout_answers or evaluation.answers).boxes
    if boxes is not None and boxes.coco is not None:
        on = "validation" if evaluation.holdout_answers is None else "the hold-out"
        ends = boxes.coco_interval
        interval = ""
        if ends:
            interval = f"95 %: {100 * ends[0]:.1f}{text.DASH}{100 * ends[1]:.1f}"
        remark = _join(interval, "COCO's main figure: the mean over overlaps from 0.5 to 0.95")
        yield Figure(f"mAP@0.5:0.95 on {on}", f"{100 * boxes.coco:.1f} %", remark)
    for name, figure in (evaluation.holdout_answers or evaluation.answers).figures.items():
        shown_interval = ""
        if figure.low is not None:
            shown_interval = f"95 %: {text.interval(figure)}"
        remark = _join(shown_interval, figure.source)
        yield Figure(name, f"{figure.value:.1f} {figure.unit}".rstrip(), remark)
    expected = evaluation.new_conditions
    robust = evaluation.capture.holdout
    if expected is not None and expected.provenance is not Provenance.MEASURED:
        remark = f"95 %: {text.interval(expected, 0)} · estimated for another visit, camera or day"
        yield Figure("Top-1 in new conditions", f"about {expected.value:.0f} %", remark)
    if robust is not None:
        label = (
            "Top-1 under capture conditions" if view.other_metric else "Under capture conditions"
        )
        remark = f"95 %: {text.interval(robust)} · mean over all conditions, {robust.n} images"
        yield Figure(label, f"{robust.value:.1f} %", remark)


def _costs(view: RunView, evaluation: Evaluation) -> Iterator[Figure]:
    """Yield latency, size and memory of an evaluation, each with its limit."""
    limits = view.limits
    median = evaluation.latency
    file = evaluation.file_facts
    latency = evaluation.latency_p90 or median
    limit = limits.latency_ms
    if latency is not None:
        middle = ""
        if median and evaluation.latency_p90:
            middle = f"{text.name_clock(median) or 'median'} {show_ms(median.value)}"
        certain = evaluation.show_budget_probability(limit) if limit is not None else ""
        percentile = "90th percentile"
        if certain:
            percentile = f"with {show_probability(limits.confidence)} confidence"
        # A limit counts for the 90th percentile where there is one:
        # the median is met by half of the runs only.
        label = f"Latency, {percentile if evaluation.latency_p90 else 'median'}"
        provenance = text.provenance(latency, evaluation.configuration.target.device)
        remark = _join(
            middle, certain or _limit(limit, show_ms), provenance, evaluation.figures.source
        )
        yield Figure(label, show_ms(latency.value), remark, _share(latency, limit))
    downloads = (
        ("in an app's package", file.download_bytes),
        ("by zstd", file.download_zstd_bytes),
    )
    known = ", ".join(f"{show_bytes(size)} {name}" for name, size in downloads if size)
    for label, quantity, most, more in (
        ("File size", evaluation.size, limits.size_bytes, f"to download {known}" if known else ""),
        ("Peak memory", evaluation.memory, limits.memory_bytes, ""),
    ):
        if quantity is not None:
            remark = _join(_limit(most, show_bytes), more, text.provenance(quantity))
            yield Figure(label, show_bytes(quantity.value), remark, _share(quantity, most))
    if evaluation.configuration.compression == FLOAT:
        return
    drops = {"drop": evaluation.drop}
    for name, lost in evaluation.answers.metric_drops.items():
        drops[f"{name} drop"] = lost
    for name, drop in drops.items():
        if drop is not None:
            yield _drop(name, drop, view, evaluation)


def _drop(name: str, drop: Quantity, view: RunView, evaluation: Evaluation) -> Figure:
    """Return what compression lost of the accuracy or of another metric, with its limit."""
    limit = view.limits.drops.get(name)
    allowed = ""
    if limit is not None:
        allowed = f"of {limit:g} allowed"
    allowed = ", ".join(filter(None, (allowed, view.limits.show_met(evaluation).get(name))))
    is_gain = drop.value < 0
    change = text.as_gain(drop) if is_gain else drop
    label = "Gained by compression" if is_gain else "Lost by compression"
    metric = METRICS.get(name.split()[0])
    if metric is not None:
        label = f"{label}: {metric.label}"
    remark = _join(allowed, text.confidence(change), text.provenance(drop))
    return Figure(label, f"{text.points(change)} points", remark, _share(drop, limit))


def _limit(limit: float | None, show: Callable[[float], str]) -> str:
    if limit is not None:
        return f"of {show(limit)}"
    return ""


def _share(quantity: Quantity, limit: float | None) -> float | None:
    # A drop is below 0 where compression gained.
    if limit:
        return max(0.0, quantity.value / limit)
    return None


def _join(*remarks: str) -> str:
    return " · ".join(remark for remark in remarks if remark)

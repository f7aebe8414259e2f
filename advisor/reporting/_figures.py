"""The key figures of an evaluation, each with its limit, interval and provenance.

The first section of the page and ``report.md`` show them. How far they can be relied on is in
``_foundations.py``.
"""

from collections.abc import Iterator

from advisor.core import (
    FLOAT,
    METRICS,
    Evaluation,
    Provenance,
    Quantity,
    show_bytes,
    show_ms,
    show_probability,
    units,
)
from advisor.reporting import _text as text
from advisor.reporting._blocks import Figure
from advisor.reporting._metrics import metric_note
from advisor.reporting._view import RunView


def key_figures(view: RunView, evaluation: Evaluation) -> tuple[Figure, ...]:
    """Return the known ones of accuracy, latency, size, memory and drop of ``evaluation``."""
    return (*_list_accuracies(view, evaluation), *_list_costs(view, evaluation))


def _list_accuracies(view: RunView, evaluation: Evaluation) -> Iterator[Figure]:
    """Yield the accuracies of an evaluation:
    validation, hold-out, boxes, new and capture conditions.
    """
    if evaluation.accuracy is not None:
        yield _show_accuracy(view, evaluation, evaluation.accuracy)
    judged = evaluation.holdout_accuracy
    if judged is not None:
        images = text.show_holdout_images(evaluation)
        # Where another figure is estimated for new conditions, this one holds for the old ones.
        where = "images like these"
        estimate = evaluation.new_conditions
        if estimate is not None and estimate.provenance is not Provenance.MEASURED:
            where = "images of the same visits, cameras and days"
        remark = (
            f"95 %: {text.interval(judged)} · expect this on {where} · {images}, measured once"
        )
        yield Figure(f"{view.task.heading} on the hold-out", f"{judged.value:.1f} %", remark)
    answers = evaluation.holdout_answers or evaluation.answers
    if answers.boxes is not None and answers.boxes.coco is not None:
        on = "validation" if evaluation.holdout_answers is None else "the hold-out"
        interval = ""
        if answers.boxes.coco_interval:
            low, high = answers.boxes.coco_interval
            interval = f"95 %: {100 * low:.1f}{text.DASH}{100 * high:.1f}"
        remark = _join_remarks(
            interval, "COCO's main figure: the mean over overlaps from 0.5 to 0.95"
        )
        yield Figure(f"mAP@0.5:0.95 on {on}", f"{100 * answers.boxes.coco:.1f} %", remark)
    for name, figure in answers.figures.items():
        interval = ""
        if figure.low is not None:
            interval = f"95 %: {text.interval(figure)}"
        value = f"{figure.value:.1f} {figure.unit}".rstrip()
        yield Figure(name, value, _join_remarks(interval, figure.source))
    expected = evaluation.new_conditions
    if expected is not None and expected.provenance is not Provenance.MEASURED:
        remark = f"95 %: {text.interval(expected, 0)} · estimated for another visit, camera or day"
        yield Figure("Top-1 in new conditions", f"about {expected.value:.0f} %", remark)
    robust = evaluation.capture.holdout
    if robust is not None:
        label = "Under capture conditions"
        if view.other_metric:
            label = "Top-1 under capture conditions"
        remark = f"95 %: {text.interval(robust)} · mean over all conditions, {robust.n} images"
        yield Figure(label, f"{robust.value:.1f} %", remark)


def _show_accuracy(view: RunView, evaluation: Evaluation, accuracy: Quantity) -> Figure:
    """Return the accuracy that candidates are compared by, with its limit."""
    floor = view.limits.min_accuracy
    shown, _ = _show_beside("accuracy", accuracy.value, floor)
    sample = f" on {accuracy.n} images" if accuracy.n else ""
    required = "" if floor is None else f"at least {floor:g} % required"
    met = view.limits.show_met(evaluation).get("accuracy")
    remark = _join_remarks(
        text.confidence(accuracy),
        f"{accuracy.provenance.value}{sample}",
        ", ".join(filter(None, (required, met))),
        metric_note(view.counted.name, accuracy),
    )
    label = view.task.heading
    if evaluation.holdout_accuracy is not None:
        label = f"{view.task.heading} on validation"
    return Figure(label, shown, remark)


def _list_costs(view: RunView, evaluation: Evaluation) -> Iterator[Figure]:
    """Yield latency, size and memory of an evaluation, each with its limit."""
    limits = view.limits
    file = evaluation.file_facts
    if evaluation.latency_p90 or evaluation.latency:
        yield _show_latency(view, evaluation)
    downloads = dict[str, list[str]]()
    for size_bytes, way in (
        (file.download_bytes, "in an app's package"),
        (file.download_zstd_bytes, "by zstd"),
    ):
        if size_bytes:
            # A file that is hardly compressible has one size in both ways.
            downloads.setdefault(show_bytes(size_bytes), []).append(way)
    sizes = []
    for size, ways in downloads.items():
        sizes.append(f"{size} {' or '.join(ways)}")
    download = f"to download {', '.join(sizes)}" if sizes else ""
    for label, name, quantity, most, more in (
        ("File size", "size", evaluation.size, limits.size_bytes, download),
        ("Peak memory", "memory", evaluation.memory, limits.memory_bytes, ""),
    ):
        if quantity is not None:
            shown, allowed = _show_beside(name, quantity.value, most)
            remark = _join_remarks(allowed, more, text.provenance(quantity))
            yield Figure(label, shown, remark, _find_share(quantity, most))
    if evaluation.configuration.compression == FLOAT:
        return
    drops = {"drop": evaluation.drop}
    for name, lost in evaluation.answers.metric_drops.items():
        drops[f"{name} drop"] = lost
    for name, drop in drops.items():
        if drop is not None:
            yield _show_drop(name, drop, view, evaluation)


def _show_latency(view: RunView, evaluation: Evaluation) -> Figure:
    """Return the latency that the budget limits, with the median and how sure it is.

    A limit counts for the 90th percentile where there is one:
    the median is met by half of the runs only.
    """
    median = evaluation.latency
    p90 = evaluation.latency_p90
    latency = p90 or median
    assert latency is not None, "only an evaluation with a latency shows one"
    limit_ms = view.limits.latency_ms
    middle = ""
    if median and p90:
        clock = text.name_clock(median)
        # A CPU time is a median, too; the shortest time is none.
        middle = f"{clock.replace('CPU', 'median CPU') or 'median'} {show_ms(median.value)}"
    certain = evaluation.show_budget_probability(limit_ms) if limit_ms is not None else ""
    shown, allowed = _show_beside("latency", latency.value, limit_ms)
    percentile = "median"
    if p90 and certain:
        percentile = f"with {show_probability(view.limits.confidence)} confidence"
    elif p90:
        percentile = "90th percentile"
    remark = _join_remarks(
        certain or (allowed and f"{allowed} allowed"),
        middle,
        text.provenance(latency, evaluation.configuration.target.device),
        evaluation.figures.source,
    )
    share = _find_share(latency, limit_ms)
    return Figure(f"Latency, {percentile}", shown, remark, share)


def _show_drop(name: str, drop: Quantity, view: RunView, evaluation: Evaluation) -> Figure:
    """Return what compression lost of the accuracy or of another metric, with its limit."""
    limit = view.limits.drops.get(name)
    is_gain = drop.value < 0
    change = text.as_gain(drop) if is_gain else drop
    shown, allowed = _show_beside(name, change.value, limit)
    if limit is not None:
        # A gain is no part of what may be lost.
        allowed = f"a loss of {limit:g} allowed" if is_gain else f"{allowed} allowed"
    met = view.limits.show_met(evaluation).get(name)
    if met and evaluation.holdout_drop is not None:
        met = f"{met}, with the hold-out"
    allowed = ", ".join(filter(None, (allowed, met)))
    label = "Gained by compression" if is_gain else "Lost by compression"
    metric = METRICS.get(name.split()[0])
    if metric is not None:
        label = f"{label}: {metric.label}"
    interval = text.confidence(change)
    # The hold-out counts for the probability, and the interval is of validation alone.
    if interval and evaluation.holdout_drop is not None:
        interval = f"{interval} on validation"
    remark = _join_remarks(allowed, interval, text.provenance(drop))
    return Figure(label, shown, remark, _find_share(drop, limit))


def _show_beside(name: str, value: float, limit: float | None) -> tuple[str, str]:
    """Return a figure, and ``of`` its limit if it has one; rounding never makes the two alike."""
    if limit is None:
        return units.show_figure(name, value), ""
    shown, allowed = units.show_against(name, limit, value)
    return shown, f"of {allowed}"


def _find_share(quantity: Quantity, limit: float | None) -> float | None:
    # A drop is below 0 where compression gained.
    if limit:
        return max(0.0, quantity.value / limit)
    return None


def _join_remarks(*remarks: str) -> str:
    return " · ".join(remark for remark in remarks if remark)

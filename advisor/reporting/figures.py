"""The key figures of the pick, each with its limit, and how reliable the answer is."""

from __future__ import annotations

from collections.abc import Callable

from advisor.core.budget import show_budget_probability
from advisor.core.evaluation import Evaluation
from advisor.core.latency_distribution import percent
from advisor.core.quantity import Provenance, Quantity
from advisor.core.units import show_bytes, show_ms
from advisor.reporting import text
from advisor.reporting.view import Figure, RunView


def key_figures(view: RunView, evaluation: Evaluation) -> tuple[Figure, ...]:
    """Return the known ones of accuracy, latency, size, memory and drop of ``evaluation``."""
    figures = (
        _accuracy(view, evaluation),
        _held_out(evaluation),
        _robust(evaluation),
        _latency(view, evaluation),
        _size(view, evaluation),
        _memory(view, evaluation),
        _drop(view, evaluation),
    )
    return tuple(figure for figure in figures if figure is not None)


def _accuracy(view: RunView, evaluation: Evaluation) -> Figure | None:
    quantity = evaluation.accuracy
    if quantity is None:
        return None
    ends = text.interval(quantity)
    sample = f" on {quantity.n} images" if quantity.n else ""
    remarks = [f"95 %: {ends}" if ends else "", f"{quantity.provenance.value}{sample}"]
    floor = view.budget.min_accuracy
    if floor is not None:
        remarks.append(f"at least {floor:g} % required")
    label = "Top-1 on validation" if evaluation.holdout_accuracy else "Top-1 accuracy"
    return Figure(label, f"{quantity.value:.1f} %", _join(remarks))


def _held_out(evaluation: Evaluation) -> Figure | None:
    quantity = evaluation.holdout_accuracy
    if quantity is None:
        return None
    remarks = [f"95 %: {text.interval(quantity)}", "expect this", f"{quantity.n} images, measured once"]
    return Figure("Top-1 on the hold-out", f"{quantity.value:.1f} %", _join(remarks))


def _robust(evaluation: Evaluation) -> Figure | None:
    quantity = evaluation.capture.holdout
    if quantity is None:
        return None
    remarks = [f"95 %: {text.interval(quantity)}", f"mean over all conditions, {quantity.n} images"]
    return Figure("Under capture conditions", f"{quantity.value:.1f} %", _join(remarks))


def _latency(view: RunView, evaluation: Evaluation) -> Figure | None:
    quantity = evaluation.latency_p90 or evaluation.latency
    if quantity is None:
        return None
    target = evaluation.configuration.target
    median = f"median {show_ms(evaluation.latency.value)}" if evaluation.latency and evaluation.latency_p90 else ""
    limit = view.budget.latency_ms
    certain = show_budget_probability(evaluation, limit) if limit is not None else ""
    remarks = [median, certain or _limit(limit, show_ms), text.provenance(quantity, target.device)]
    percentile = f"with {percent(view.budget.confidence)} confidence" if certain else "90th percentile"
    label = f"Latency, {percentile}" if evaluation.latency_p90 else "Latency, median"
    return Figure(label, show_ms(quantity.value), _join(remarks), _share(quantity, view.budget.latency_ms))


def _size(view: RunView, evaluation: Evaluation) -> Figure | None:
    quantity = evaluation.size
    if quantity is None:
        return None
    remarks = [_limit(view.budget.size_bytes, show_bytes), _downloads(evaluation)]
    share = _share(quantity, view.budget.size_bytes)
    return Figure("File size", show_bytes(quantity.value), _join([*remarks, text.provenance(quantity)]), share)


def _downloads(evaluation: Evaluation) -> str:
    """Return the download sizes of the file: inside an app's package, and compressed by Zstandard."""
    file = evaluation.file_facts
    sizes = (("in an app's package", file.download_bytes), ("by zstd", file.download_zstd_bytes))
    known = [f"{show_bytes(size)} {name}" for name, size in sizes if size]
    return f"to download {', '.join(known)}" if known else ""


def _memory(view: RunView, evaluation: Evaluation) -> Figure | None:
    quantity = evaluation.memory
    if quantity is None:
        return None
    remarks = [_limit(view.budget.memory_bytes, show_bytes), text.provenance(quantity)]
    share = _share(quantity, view.budget.memory_bytes)
    return Figure("Peak memory", show_bytes(quantity.value), _join(remarks), share)


def _drop(view: RunView, evaluation: Evaluation) -> Figure | None:
    quantity = evaluation.drop
    if quantity is None:
        return None
    ends = text.interval(quantity)
    limit = view.budget.max_drop_points
    asked = f"of {limit:g} allowed" if limit is not None else ""
    remarks = [asked, f"95 %: {ends}" if ends else "", text.provenance(quantity)]
    return Figure("Lost by compression", f"{text.points(quantity)} points", _join(remarks), _share(quantity, limit))


def _limit(limit: float | None, show: Callable[[float], str]) -> str:
    return f"of {show(limit)}" if limit is not None else ""


def _share(quantity: Quantity, limit: float | None) -> float | None:
    return max(0.0, quantity.value / limit) if limit else None


def _join(remarks: list[str]) -> str:
    return " · ".join(remark for remark in remarks if remark)


def foundations(view: RunView, evaluation: Evaluation) -> tuple[str, ...]:
    """Return sentences that say how reliable the answer is."""
    return tuple(
        sentence for sentence in (_accuracy_basis(evaluation), _latency_basis(evaluation), _tie_basis(view)) if sentence
    )


def _accuracy_basis(evaluation: Evaluation) -> str:
    quantity, judged = evaluation.accuracy, evaluation.holdout_accuracy
    if quantity is None:
        return "Its accuracy is unknown."
    if judged is not None:
        return (
            f"It was selected by its accuracy on {quantity.n} validation images, after training on the other images "
            f"only. The file that ships was then run once on {judged.n} images of the hold-out. These were used "
            "neither for training nor for selection: expect that accuracy."
        )
    if quantity.provenance is Provenance.MEASURED:
        sample = f" on {quantity.n} validation images" if quantity.n else ""
        return f"Accuracy was measured{sample}, after training on the other images only. The hold-out was not used yet."
    source = f" ({quantity.source})" if quantity.source else ""
    return f"Accuracy is {quantity.provenance.value}{source}. It says nothing about your own images yet."


def _latency_basis(evaluation: Evaluation) -> str:
    quantity = evaluation.latency
    target = evaluation.configuration.target
    if quantity is None:
        return "Its latency is unknown."
    place = f"{target.device} ({target.runtime}, {target.accelerator}, {text.threads(target.threads)})"
    if quantity.provenance is Provenance.MEASURED:
        busy = (
            " Other programs used the machine meanwhile: measure again before you rely on it."
            if evaluation.contended
            else ""
        )
        return f"Latency was measured on {place}.{busy}"
    ends = text.interval(quantity)
    margin = f", between {ends.replace(text.DASH, ' and ')} ms" if ends else ""
    return f"Latency on {place} is {quantity.provenance.value}{margin}, not measured: try it there before you decide."


def _tie_basis(view: RunView) -> str:
    count = len({(e.configuration.card, e.configuration.compression) for e in view.decision.ties})
    if not count:
        return ""
    others = text.plural(count, "other model file")
    return f"The most accurate candidate is statistically tied with {others}; more images would narrow the intervals."

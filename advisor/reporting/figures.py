"""The key figures of the pick, each with its limit, and how reliable the answer is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from advisor.core.budget import show_budget_probability, show_met
from advisor.core.evaluation import Evaluation
from advisor.core.quantity import Provenance, Quantity, percent
from advisor.core.units import plural, show_bytes, show_ms
from advisor.reporting import text
from advisor.reporting.blocks import Figure
from advisor.reporting.device_results import foreign_runtimes
from advisor.reporting.metrics import note
from advisor.reporting.phrases import fastest_per_artefact

if TYPE_CHECKING:
    from advisor.reporting.view import RunView

NAMED = 5
"""Files that a sentence names at most."""

RIVALS_NAMED = 3
"""Files that resampled figures pick instead, named at most."""


LIKE_THESE = "expect this on images like these · {} images, measured once"


def key_figures(view: RunView, evaluation: Evaluation) -> tuple[Figure, ...]:
    """Return the known ones of accuracy, latency, size, memory and drop of ``evaluation``."""
    budget = view.budget
    figures = (
        _accuracy(view, evaluation),
        _on_holdout(f"{view.task.heading} on the hold-out", evaluation.holdout_accuracy, LIKE_THESE),
        _over_overlaps(evaluation),
        _in_new_conditions(evaluation.new_conditions),
        _on_holdout(
            "Top-1 under capture conditions" if view.other_metric else "Under capture conditions",
            evaluation.capture.holdout,
            "mean over all conditions, {} images",
        ),
        _latency(view, evaluation),
        _bytes("File size", evaluation.size, budget.size_bytes, _downloads(evaluation)),
        _bytes("Peak memory", evaluation.memory, budget.memory_bytes),
        _drop(evaluation.drop, budget.max_drop_points, show_met(budget, evaluation).get("drop", "")),
    )
    return tuple(figure for figure in figures if figure is not None)


def _accuracy(view: RunView, evaluation: Evaluation) -> Figure | None:
    quantity, floor = evaluation.accuracy, view.budget.min_accuracy
    if quantity is None:
        return None
    sample = f" on {quantity.n} images" if quantity.n else ""
    required = f"at least {floor:g} % required" if floor is not None else ""
    required = ", ".join(filter(None, (required, show_met(view.budget, evaluation).get("accuracy"))))
    label = f"{view.task.heading} on validation" if evaluation.holdout_accuracy else view.task.heading
    remark = _join(
        _interval(quantity), f"{quantity.provenance.value}{sample}", required, note(view.counted.name, quantity)
    )
    return Figure(label, f"{quantity.value:.1f} %", remark)


def _on_holdout(label: str, quantity: Quantity | None, remark: str) -> Figure | None:
    if quantity is None:
        return None
    remark = f"95 %: {text.interval(quantity)} · {remark.format(quantity.n)}"
    return Figure(label, f"{quantity.value:.1f} %", remark)


def _over_overlaps(evaluation: Evaluation) -> Figure | None:
    boxes, on = (evaluation.holdout_answers or evaluation.answers).boxes, evaluation.holdout_answers is not None
    if boxes is None or boxes.coco is None:
        return None
    label = f"mAP@0.5:0.95 on {'the hold-out' if on else 'validation'}"
    ends = boxes.coco_interval
    interval = f"95 %: {100 * ends[0]:.1f}{text.DASH}{100 * ends[1]:.1f}" if ends else ""
    remark = _join(interval, "COCO's main figure: the mean over overlaps from 0.5 to 0.95")
    return Figure(label, f"{100 * boxes.coco:.1f} %", remark)


def _in_new_conditions(quantity: Quantity | None) -> Figure | None:
    if quantity is None or quantity.provenance is Provenance.MEASURED:
        return None
    remark = f"95 %: {text.interval(quantity, 0)} · estimated for another visit, camera or day"
    return Figure("Top-1 in new conditions", f"about {quantity.value:.0f} %", remark)


def expectations(evaluation: Evaluation, other_metric: str = "") -> tuple[tuple[str, str], ...]:
    """Return what to expect of its accuracy, each with the images that it holds for; empty without an estimate.

    Args:
        evaluation: the pick.
        other_metric: what accuracy is, if it is not top-1: the estimate is.
    """
    metric, top1 = (f" {other_metric}", " top-1") if other_metric else ("", "")
    judged, estimate = evaluation.holdout_accuracy, evaluation.new_conditions
    plain = judged or evaluation.accuracy
    if estimate is None or plain is None:
        return ()
    where = f"on {plain.n} images of the {'hold-out' if judged else 'validation part'}"
    measured = f"{plain.value:.1f} %{metric} ({text.interval(plain)}), measured {where}"
    if estimate.provenance is Provenance.MEASURED:
        return (("On images like your hold-out", measured),)
    shown = (
        f"about {estimate.value:.0f} %{top1} ({text.interval(estimate, 0)}), estimated for another visit, camera or day"
    )
    return (("On images like these", measured), ("In new conditions", shown))


def _latency(view: RunView, evaluation: Evaluation) -> Figure | None:
    quantity, limit = evaluation.latency_p90 or evaluation.latency, view.budget.latency_ms
    if quantity is None:
        return None
    median = f"median {show_ms(evaluation.latency.value)}" if evaluation.latency and evaluation.latency_p90 else ""
    certain = show_budget_probability(evaluation, limit) if limit is not None else ""
    percentile = f"with {percent(view.budget.confidence)} confidence" if certain else "90th percentile"
    label = f"Latency, {percentile}" if evaluation.latency_p90 else "Latency, median"
    provenance = text.provenance(quantity, evaluation.configuration.target.device)
    remark = _join(median, certain or _limit(limit, show_ms), provenance)
    return Figure(label, show_ms(quantity.value), remark, _share(quantity, limit))


def _bytes(label: str, quantity: Quantity | None, limit: float | None, remark: str = "") -> Figure | None:
    if quantity is None:
        return None
    remark = _join(_limit(limit, show_bytes), remark, text.provenance(quantity))
    return Figure(label, show_bytes(quantity.value), remark, _share(quantity, limit))


def _downloads(evaluation: Evaluation) -> str:
    """Return the download sizes of the file: inside an app's package, and compressed by Zstandard."""
    file = evaluation.file_facts
    sizes = (("in an app's package", file.download_bytes), ("by zstd", file.download_zstd_bytes))
    known = [f"{show_bytes(size)} {name}" for name, size in sizes if size]
    return f"to download {', '.join(known)}" if known else ""


def _drop(quantity: Quantity | None, limit: float | None, met: str) -> Figure | None:
    if quantity is None:
        return None
    allowed = ", ".join(filter(None, (f"of {limit:g} allowed" if limit is not None else "", met)))
    remark = _join(allowed, _interval(quantity), text.provenance(quantity))
    return Figure("Lost by compression", f"{text.points(quantity)} points", remark, _share(quantity, limit))


def _interval(quantity: Quantity) -> str:
    ends = text.interval(quantity)
    return f"95 %: {ends}" if ends else ""


def _limit(limit: float | None, show: Callable[[float], str]) -> str:
    return f"of {show(limit)}" if limit is not None else ""


def _share(quantity: Quantity, limit: float | None) -> float | None:
    return max(0.0, quantity.value / limit) if limit else None


def _join(*remarks: str) -> str:
    return " · ".join(remark for remark in remarks if remark)


def foundations(view: RunView, evaluation: Evaluation) -> tuple[str, ...]:
    """Return sentences that say how reliable the answer is."""
    sentences = (
        _accuracy_basis(evaluation),
        _new_conditions_basis(evaluation, " top-1" if view.other_metric else ""),
        _latency_basis(evaluation),
        _tie_basis(view),
        certainty(view),
        _unjudged(view),
        *(f"{remark}." for remark in foreign_runtimes(view)),
    )
    return tuple(sentence for sentence in sentences if sentence)


def _accuracy_basis(evaluation: Evaluation) -> str:
    quantity, judged = evaluation.accuracy, evaluation.holdout_accuracy
    if quantity is None:
        return "Its accuracy is unknown."
    if evaluation.card_facts.as_it_is:
        return "It was not trained here: what it has learnt from is not known. These images may be among it."
    if judged is not None:
        return (
            f"It was selected by its accuracy on {quantity.n} validation images, after training on the other images "
            f"only. The file that ships was then run once on {judged.n} images of the hold-out. These were used "
            "neither for training nor for selection: expect that accuracy on images like these."
        )
    if quantity.provenance is Provenance.MEASURED:
        sample = f" on {quantity.n} validation images" if quantity.n else ""
        return f"Accuracy was measured{sample}, after training on the other images only. The hold-out was not used yet."
    source = f" ({quantity.source})" if quantity.source else ""
    return f"Accuracy is {quantity.provenance.value}{source}. It says nothing about your own images yet."


def _new_conditions_basis(evaluation: Evaluation, named: str) -> str:
    quantity = evaluation.new_conditions
    if quantity is None:
        return ""
    if quantity.provenance is Provenance.MEASURED:
        return (
            "The hold-out is of your own split: its figure holds in the conditions of its images. No other figure is "
            "estimated for new conditions."
        )
    return (
        f"In new conditions (another visit, camera or day), about {quantity.value:.0f} %{named} is expected, with 95 % "
        f"confidence {text.interval(quantity, 0).replace(text.DASH, ' to ')} %. This is an estimate: {quantity.source}."
    )


def _latency_basis(evaluation: Evaluation) -> str:
    quantity = evaluation.latency
    target = evaluation.configuration.target
    if quantity is None:
        return "Its latency is unknown."
    device = f"{target.device} ({target.runtime}, {target.accelerator}, {plural(target.threads, 'thread')})"
    if quantity.provenance is Provenance.MEASURED:
        busy = " Other programs used the machine meanwhile: measure again before you rely on it."
        return f"Latency was measured on {device}.{busy if evaluation.contended else ''}"
    ends = text.interval(quantity)
    margin = f", between {ends.replace(text.DASH, ' and ')} ms" if ends else ""
    return f"Latency on {device} is {quantity.provenance.value}{margin}, not measured: try it there before you decide."


def _tie_basis(view: RunView) -> str:
    count = len({(e.configuration.card, e.configuration.compression) for e in view.decision.ties})
    if not count:
        return ""
    others = plural(count, "other model file")
    return f"The most accurate candidate is statistically tied with {others}; more images would narrow the intervals."


def certainty(view: RunView) -> str:
    """Return how often the pick would be the same if images and timings were drawn again, and what it would be else.

    Empty where nothing meets the budget or there is nothing else to pick.
    """
    chances = view.decision.chances
    if not chances or view.decision.runner_up is None:
        return ""
    again = "the validation images and timings" if view.dataset else "the figures within their noise"
    stays = f"With {again} drawn again, the pick stays in {percent(chances.get(view.pick_key, 0.0))} of the draws"
    by_key = {e.configuration.key: e for e in view.evaluations}
    others = [(by_key[key].configuration, chance) for key, chance in chances.items() if key != view.pick_key]
    names = [f"{other.card} {other.variant_name} ({percent(chance)})" for other, chance in others[:RIVALS_NAMED]]
    left = sum(chance for _, chance in others[RIVALS_NAMED:])
    more = [f"{plural(len(others) - RIVALS_NAMED, 'other')} ({percent(left)})"] if left else []
    return f"{stays}; otherwise it is {', '.join((*names, *more))}." if names else f"{stays}."


def _unjudged(view: RunView) -> str:
    """Name the files on the front without a hold-out figure, and say why."""
    files = fastest_per_artefact(view.decision.front)
    without = [e for e in files if e.holdout_accuracy is None]
    if len(without) == len(files) or not without:
        return ""
    names = ", ".join(f"{e.configuration.card} {e.configuration.variant_name}" for e in without[:NAMED])
    more = f" and {len(without) - NAMED} more" if len(without) > NAMED else ""
    return (
        f"Only files that could still become the pick, and one of each network on the front, ran on the hold-out. "
        f"Without a figure there: {names}{more}."
    )

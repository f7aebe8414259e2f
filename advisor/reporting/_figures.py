"""The figures of the pick: the key ones with their limits, those of each device,
and how reliable the answer is.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from advisor.core import (
    FLOAT,
    METRICS,
    Decision,
    DeviceFigures,
    Evaluation,
    Provenance,
    Quantity,
    plural,
    show_bytes,
    show_latency,
    show_ms,
    show_probability,
    units,
)
from advisor.reporting import _text as text
from advisor.reporting._blocks import Figure
from advisor.reporting._classes import metric_note
from advisor.reporting._phrases import fastest_per_artefact
from advisor.reporting._risks import compute_half_width
from advisor.reporting._view import RunView

NAMED = 5
"""Files that a sentence names at most."""

TO_KNOW = "To know it, hold out images of another visit, camera or day by a split of your own"

SURE = 0.8
"""Share of draws from which the alternatives are not nearly as good."""

STANDARD_ERRORS = 1.96
"""Standard errors in half of a 95 % interval."""

RIVALS_NAMED = 3
"""Files that resampled figures pick instead, named at most."""


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


def list_expectations(view: RunView, evaluation: Evaluation) -> tuple[tuple[str, str], ...]:
    """Return what to expect of its accuracy, each with the images that it holds for;
    empty if nothing is to be said.

    The estimate for new conditions is top-1, and says so where accuracy is another metric.
    """
    metric = f" {view.other_metric}" if view.other_metric else ""
    top1 = " top-1" if view.other_metric else ""
    judged = evaluation.holdout_accuracy
    estimate = evaluation.new_conditions
    plain = judged or evaluation.accuracy
    unknown = view.unknown_conditions(evaluation)
    if plain is None or (estimate is None and not unknown):
        return ()
    where = f"on {plain.n} images of the validation part"
    if judged:
        where = f"on {text.show_holdout_images(evaluation)} of the hold-out"
    measured = f"{plain.value:.1f} %{metric} ({text.interval(plain)}), measured {where}"
    if estimate is None or unknown:
        expected = ("On images like these", measured)
        # Another visit or camera means nothing for drawn images.
        if view.demonstration:
            return (expected,)
        return (expected, ("In new conditions", f"{_unknown(view, unknown)}."))
    if estimate.provenance is Provenance.MEASURED:
        return (("On images like your hold-out", measured),)
    ends = text.interval(estimate, 0)
    shown = (
        f"about {estimate.value:.0f} %{top1} ({ends}), estimated for another visit, camera or day"
    )
    return (("On images like these", measured), ("In new conditions", shown))


def list_foundations(view: RunView, evaluation: Evaluation) -> tuple[str, ...]:
    """Return sentences that say how reliable the answer is."""
    ties = len({e.variant for e in view.decision.ties})
    others = plural(ties, "other model file")
    tied = (
        f"The most accurate candidate is statistically tied with {others}; more images would"
        " narrow the intervals."
    )
    sure = describe_certainty(view)
    sentences = (
        _accuracy_basis(evaluation),
        _new_conditions_basis(view, evaluation),
        _latency_basis(evaluation),
        tied if ties else "",
        f"{sure[:1].upper()}{sure[1:]}",
        compare_on_holdout(view),
        _name_unjudged(view),
        *(f"{remark}." for remark in foreign_runtimes(view)),
    )
    return tuple(sentence for sentence in sentences if sentence)


def on_all_images(evaluation: Evaluation) -> str:
    """Return what is known of the file that learns from all images, or why there is none;
    empty if not asked for.
    """
    made = evaluation.on_all
    if made is None:
        return ""
    if not made.file:
        return (
            f"It has not learnt from all images, but from all outside the hold-out: {made.reason}."
        )
    share = 100 * made.more / max(1, made.images - made.more)
    return (
        f"It has learnt from all {made.images:,} images, {made.more:,} ({share:.0f} %) more than"
        " the judged file. Its accuracy is not measured: each figure is of the judged file, the"
        " same network without the hold-out. Both files give the same answer to"
        f" {100 * made.same:.1f} % of {made.compared:,} validation images, which both have learnt"
        " from."
    )


def _accuracy_basis(evaluation: Evaluation) -> str:
    """Return on which images the accuracy was measured, and what had learnt from them."""
    quantity = evaluation.accuracy
    judged = evaluation.holdout_accuracy
    if quantity is None:
        return "Its accuracy is unknown."
    if evaluation.card_facts.as_it_is:
        return (
            "It was not trained here: what it has learnt from is not known. These images may be"
            " among it."
        )
    if judged is not None:
        file = (
            "The judged file"
            if evaluation.on_all and evaluation.on_all.file
            else "The file that ships"
        )
        held_out = text.show_holdout_images(evaluation)
        return (
            f"It was compared with the others on {quantity.n} validation images, after training on"
            f" the other images only. {file} was then run once on {held_out} of the hold-out."
            " These were used neither for training nor for selection: expect that accuracy on"
            " images like these."
        )
    if quantity.provenance is Provenance.MEASURED:
        sample = f" on {quantity.n} validation images" if quantity.n else ""
        return (
            f"Accuracy was measured{sample}, after training on the other images only. The hold-out"
            " was not used yet."
        )
    source = f" ({quantity.source})" if quantity.source else ""
    return (
        f"Accuracy is {quantity.provenance.value}{source}. It says nothing about your own images"
        " yet."
    )


def _unknown(view: RunView, why: str) -> str:
    less = ""
    if view.task.other_conditions:
        less = f" Expect less: {view.task.other_conditions}."
    return f"unknown, because {why}.{less} {TO_KNOW}"


def _new_conditions_basis(view: RunView, evaluation: Evaluation) -> str:
    """Return what the accuracy in new conditions rests on; empty where nothing is to say."""
    quantity = evaluation.new_conditions
    named = " top-1" if view.other_metric else ""
    unknown = view.unknown_conditions(evaluation)
    if unknown:
        return (
            "Its accuracy in new conditions (another visit, camera or day) is"
            f" {_unknown(view, unknown)}."
        )
    if quantity is None:
        return ""
    if quantity.provenance is Provenance.MEASURED:
        return (
            "The hold-out is of your own split: its figure holds in the conditions of its images."
            " No other figure is estimated for new conditions."
        )
    return (
        f"In new conditions (another visit, camera or day), about {quantity.value:.0f} %{named} is"
        f" expected, with 95 % confidence {text.interval(quantity, 0).replace(text.DASH, ' to ')}"
        f" %. This is an estimate: {quantity.source}."
    )


def _latency_basis(evaluation: Evaluation) -> str:
    """Return where the latency was measured, or how far it is only predicted."""
    quantity = evaluation.latency
    target = evaluation.configuration.target
    if quantity is None:
        return "Its latency is unknown."
    what_ran = f"{target.runtime}, {target.accelerator}, {plural(target.threads, 'thread')}"
    device = f"{text.name_place(target.device)} ({what_ran})"
    if quantity.provenance is Provenance.MEASURED:
        busy = " Other programs used the machine meanwhile: measure again before you rely on it."
        return f"Latency was measured on {device}.{busy if evaluation.contended else ''}"
    ends = text.interval(quantity)
    margin = ""
    if ends:
        margin = f", between {ends.replace(text.DASH, ' and ')} ms"
    return (
        f"Latency on {device} is {quantity.provenance.value}{margin}, not measured: try it there"
        " before you decide."
    )


def describe_certainty(view: RunView) -> str:
    """Return how often other images and timings would give the same pick, and what else;
    empty without another one.
    """
    chances = view.decision.chances
    if not chances or view.decision.runner_up is None:
        return ""
    again = (
        "the validation images and timings" if view.dataset else "the figures within their noise"
    )
    share = chances.get(view.pick_key, 0.0)
    # "99 % sure" beside files that are tied with the pick read as a contradiction,
    # so the draws speak for themselves.
    nearly = "" if share >= SURE else "The alternatives are nearly as good. "
    stays = (
        f"{nearly}With {again} drawn again, the pick stays in {show_probability(share)} of the"
        " draws"
    )
    by_key = {e.configuration.key: e for e in view.evaluations}
    others = []
    for key, chance in chances.items():
        if key != view.pick_key:
            others.append((by_key[key], chance))
    names = [
        f"{text.file(other)} ({show_probability(chance)})"
        for other, chance in others[:RIVALS_NAMED]
    ]
    left = sum(chance for _, chance in others[RIVALS_NAMED:])
    more = []
    if left:
        more = [f"{plural(len(others) - RIVALS_NAMED, 'other')} ({show_probability(left)})"]
    otherwise = ""
    if names:
        otherwise = f"; otherwise it is {', '.join((*names, *more))}"
    order = (
        " Files that did not run on the hold-out come after the others."
        if view.decision.unjudged
        else ""
    )
    return f"{stays}{otherwise}.{order}"


def find_holdout_rival(view: RunView) -> Evaluation | None:
    """Return the file within the limits that is best on the hold-out, if the pick is not.

    None where it is ahead by no more than one standard error of the difference:
    then nobody asks why.
    """
    pick = view.decision.pick
    if pick is None or pick.holdout_accuracy is None or not view.decision.feasible:
        return None
    chosen = pick.holdout_accuracy
    best = chosen
    rival = None
    for row in view.ok:
        figure = row.holdout_accuracy
        # Another number of threads of the pick is the same file.
        if figure is None or row.variant == pick.variant:
            continue
        # A few right answers are no reason to doubt a file that ran on many images.
        if (figure.n or 0) < (chosen.n or 0):
            continue
        if figure.value > best.value and view.limits.met_by(row):
            best = figure
            rival = row
    if best.value - chosen.value > _noise_between(best, chosen) / STANDARD_ERRORS:
        return rival
    return None


def _noise_between(first: Quantity, second: Quantity) -> float:
    """Return the half width in points of the 95 % interval of the difference of two accuracies."""
    return math.hypot(compute_half_width(first), compute_half_width(second))


def compare_on_holdout(view: RunView) -> str:
    """Return a sentence about the file that :func:`find_holdout_rival` finds; empty for none."""
    pick = view.decision.pick
    rival = find_holdout_rival(view)
    if (
        rival is None
        or pick is None
        or rival.holdout_accuracy is None
        or pick.holdout_accuracy is None
    ):
        return ""
    best = rival.holdout_accuracy
    more = best.value - pick.holdout_accuracy.value
    noise = _noise_between(best, pick.holdout_accuracy)
    costs = f"{show_latency(rival.latency)}, {show_bytes(rival.size_bytes)}"
    named = (
        f"{text.file(rival)} ({costs}) has {best.value:.1f} % on the hold-out, {more:.1f} points"
        " more than the pick"
    )
    if more <= noise:
        return (
            f"{named}. Chance explains up to {noise:.1f} on so few images, and validation chose"
            " the pick."
        )
    return (
        f"{named}, and chance explains up to {noise:.1f}: compare both files on more images before"
        " you ship one."
    )


def _name_unjudged(view: RunView) -> str:
    """Name the files on the front without a hold-out figure, and say why."""
    files = fastest_per_artefact(view.decision.front)
    without = [e for e in files if e.holdout_accuracy is None]
    if len(without) == len(files) or not without:
        return ""
    names = ", ".join(map(text.file, without[:NAMED]))
    more = ""
    if len(without) > NAMED:
        more = f" and {len(without) - NAMED} more"
    return (
        "Only files that could still become the pick, and one of each network on the front, ran"
        f" on the hold-out. Without a figure there: {names}{more}."
    )


@dataclass(frozen=True)
class DeviceResult:
    """One file on one device, which may be ``required`` although the question is not about it.

    The target is in words, and the latency is ``predicted 11.8 ms [10.2-13.9]``, or why the file
    does not run there. ``97 % sure`` or ``p90 12.1 ms`` is compared with the budget; it is empty
    where neither is known. ``source`` says how a latency was measured over a connection.
    """

    device: str
    target: str
    latency: str
    against_budget: str
    meets: bool
    required: bool = False
    source: str = ""

    @property
    def sentence(self) -> str:
        """The figures in a line: ``galaxy-s24: predicted 1.2 ms [0.9-1.6], over 99 % sure``."""
        also = " (required)" if self.required else ""
        return (
            f"{self.device}{also}:"
            f" {self.latency}{f', {self.against_budget}' if self.against_budget else ''}"
        )


@dataclass(frozen=True)
class DeviceDecision:
    """The decision for one device alone,
    and whether it picks the same artefact as the decision for all.
    """

    device: str
    decision: Decision
    same: bool


def device_results(view: RunView, evaluation: Evaluation) -> tuple[DeviceResult, ...]:
    """Return the results of an evaluation's file on every device of the question."""
    required = evaluation.required_figures or {}
    return (
        *(
            _result(view, device, figures, False)
            for device, figures in evaluation.device_figures.items()
        ),
        *(_result(view, device, figures, True) for device, figures in required.items()),
    )


def _result(view: RunView, device: str, figures: DeviceFigures, required: bool) -> DeviceResult:
    """Return the figures of the pick on one device in words."""
    probability = figures.budget_probability
    target = f"{figures.accelerator}, {plural(figures.threads, 'thread')}, {figures.runtime}"
    if figures.reason or figures.latency_ms is None:
        return DeviceResult(device, target, figures.reason or "not known", "", False, required)
    p90_ms = figures.p90_ms or figures.latency_ms
    limit = view.limits.latency_ms
    latency = (
        f"{figures.provenance}"
        f" {units.show_ms_interval(figures.latency_ms, figures.low_ms, figures.high_ms)}"
    )
    compared = (
        f"{show_probability(probability)} sure"
        if probability is not None
        else f"p90 {show_ms(p90_ms)}"
    )
    return DeviceResult(
        device,
        target,
        latency,
        compared,
        limit is None or p90_ms <= limit,
        required,
        figures.source,
    )


def device_decisions(view: RunView) -> tuple[DeviceDecision, ...]:
    """Return the decision for each device alone; empty where the question is about one device."""
    chosen = view.decision.pick.variant if view.decision.pick else None
    decisions = []
    for device, decision in view.by_device.items():
        is_same = (
            chosen is not None and decision.pick is not None and decision.pick.variant == chosen
        )
        decisions.append(DeviceDecision(device, decision, is_same))
    return tuple(decisions)


def foreign_runtimes(view: RunView, rows: Sequence[Evaluation] = ()) -> list[str]:
    """Return a sentence for each device whose latencies belong to a runtime
    that cannot run ``.tflite`` files.

    The front and the pick of the run count, and further ``rows`` that are shown.
    """
    from advisor.engine import list_foreign_runtimes

    pick = view.decision.pick
    fronts = list[Evaluation]()
    for decision in (view.decision, *view.by_device.values()):
        fronts += decision.front
    shown = [*rows, *([pick] if pick else ()), *fronts]
    runtimes = [
        (row.configuration.target.device, row.configuration.target.runtime) for row in shown
    ]
    runtimes += [
        (device, figures.runtime)
        for device, figures in (_figures_of(pick) if pick else {}).items()
    ]
    return list_foreign_runtimes(runtimes)


def runtimes_sentence(view: RunView) -> str:
    """Return the latencies of the pick in the runtimes of this machine;
    empty where it was measured in one only.

    For example ``LiteRT 1.10 ms, ONNX Runtime 1.90 ms (1.73 times as long)
    for the same model on this machine``.
    """
    from advisor.engine import name_runtime

    pick = view.decision.pick
    known = {}
    for device, figures in (_figures_of(pick) if pick else {}).items():
        title = name_runtime(device)
        if title:
            known[title] = figures
    times = {}
    for title, figures in known.items():
        if figures.latency_ms and not figures.reason:
            times[title] = figures.latency_ms
    if len(times) < 2:
        return ""
    first = next(iter(times.values()))
    longer = (f" ({ms / first:.2f} times as long)" if ms != first else "" for ms in times.values())
    parts = (
        f"{title} {show_ms(ms)}{more}"
        for (title, ms), more in zip(times.items(), longer, strict=True)
    )
    return f"{', '.join(parts)} for the same model on this machine"


def _figures_of(pick: Evaluation) -> dict[str, DeviceFigures]:
    """Return the figures on the devices of the question and on the required ones."""
    return {**pick.device_figures, **(pick.required_figures or {})}

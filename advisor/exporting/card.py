"""The model card: what the model is, its figures with where they came from, its data, its use and its licence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from advisor.core.escape import markdown as escaped
from advisor.core.evaluation import Evaluation
from advisor.core.latency_distribution import percent
from advisor.core.quantity import Provenance, Quantity
from advisor.core.relaxation import show_limit
from advisor.core.units import show_bytes, show_ms
from advisor.engine.history.loaded_run import LoadedRun
from advisor.exporting.model import ShippedModel
from advisor.exporting.settings import settings

LABELS_SHOWN = 50


def model_card(run: LoadedRun, evaluation: Evaluation, model: ShippedModel) -> str:
    """Return the card as Markdown; names of classes, cards and sources are escaped."""
    parts = (
        _identity(run, evaluation, model),
        _use(run, model),
        _figures(run, evaluation),
        _classes(evaluation),
        _data(run, evaluation),
        _handling(model),
        _licence(run, evaluation),
        _origin(run, evaluation),
    )
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _identity(run: LoadedRun, evaluation: Evaluation, model: ShippedModel) -> Iterable[str]:
    configuration = evaluation.configuration
    trained = "retrained head on the team's pictures" if configuration.training == "head" else "published weights"
    yield f"# {escaped(configuration.card)}, {escaped(configuration.compression)}"
    yield ""
    yield f"Image classifier of {len(model.labels)} classes: {escaped(configuration.card)}, {trained}, compressed as"
    yield f"{escaped(configuration.compression)}. Chosen by advisor in run {escaped(run.name)}:"
    yield ""
    yield f"> {escaped(run.decision.reason)}"
    if run.decision.pick is not None and run.decision.pick.configuration != configuration:
        yield ""
        yield f"This is not the pick of that run but {escaped(configuration.key)}, chosen by hand."


def _use(run: LoadedRun, model: ShippedModel) -> Iterable[str]:
    labels = ", ".join(escaped(label) for label in model.labels[:LABELS_SHOWN])
    more = f", and {len(model.labels) - LABELS_SHOWN} more (labels.txt)" if len(model.labels) > LABELS_SHOWN else ""
    yield "## Intended use"
    yield ""
    yield "One picture in, a probability for each class out. It answers with one of its classes whatever the picture"
    yield "shows: a picture of something else gets a label too. Not meant for decisions about people."
    yield ""
    yield f"Task: {escaped(run.question.task)}. Classes: {labels}{more}."


def _figures(run: LoadedRun, evaluation: Evaluation) -> Iterable[str]:
    target = evaluation.configuration.target
    yield "## Figures"
    yield ""
    threads = f"{target.threads} thread{'s'[: target.threads > 1]}"
    yield f"On {escaped(target.device)} with {escaped(target.runtime)}, {escaped(target.accelerator)}, {threads}."
    yield ""
    yield "| figure | value | 95 % interval (80 % where predicted) | n | where from |"
    yield "| --- | ---: | ---: | ---: | --- |"
    for name, quantity in _rows(evaluation):
        if quantity is not None:
            yield _row(name, quantity)
    limits = [f"{limit} {show_limit(limit, value)}" for limit, value in _limits(run)]
    yield ""
    yield f"Limits asked: {', '.join(limits) or 'none'}."
    yield from _by_device(evaluation)
    if evaluation.contended:
        yield ""
        yield "The machine was busy with something else when the latency was taken: take it again before relying on it."
    if evaluation.latency and evaluation.latency.provenance is not Provenance.MEASURED:
        yield ""
        provenance = evaluation.latency.provenance
        yield f"The latency is {provenance}, not measured: try it on the device before you rely on it."


def _by_device(evaluation: Evaluation) -> Iterable[str]:
    """The same file on every device of the question."""
    devices = settings(evaluation)
    if len(devices) < 2:
        return
    yield ""
    yield "| device | runs by | latency | chance to meet the budget |"
    yield "| --- | --- | ---: | ---: |"
    for device in devices:
        latency = f"{device.provenance} {show_ms(device.latency_ms)}" if device.latency_ms else "not known"
        chance = percent(device.chance) if device.chance is not None else ""
        runs_by = f"{device.runtime}, {device.accelerator}, {device.threads} threads"
        yield f"| {escaped(device.device)} | {escaped(runs_by)} | {latency} | {chance} |"


def _rows(evaluation: Evaluation) -> tuple[tuple[str, Quantity | None], ...]:
    top1 = "top-1 on validation, which chose it" if evaluation.holdout_accuracy else "top-1 accuracy"
    return (
        (top1, evaluation.accuracy),
        ("top-1 on the hold-out: what to expect", evaluation.holdout_accuracy),
        ("the same as phones take pictures (capture conditions)", evaluation.capture.holdout),
        ("latency, median", evaluation.latency),
        ("latency, 90th percentile", evaluation.latency_p90),
        ("file size", evaluation.size),
        ("peak memory", evaluation.memory),
        ("lost by compression", evaluation.drop),
    )


def _row(name: str, quantity: Quantity) -> str:
    ends = ""
    if quantity.low is not None and quantity.high is not None:
        ends = f"{_show(quantity.low, quantity.unit)} to {_show(quantity.high, quantity.unit)}"
    source = f"{quantity.provenance}{': ' + quantity.source if quantity.source else ''}"
    return f"| {name} | {_show(quantity.value, quantity.unit)} | {ends} | {quantity.n or ''} | {escaped(source)} |"


def _show(value: float, unit: str) -> str:
    if unit == "ms":
        return show_ms(value)
    return show_bytes(value) if unit == "bytes" else f"{value:.1f} {unit}"


def _limits(run: LoadedRun) -> list[tuple[str, float]]:
    limits = run.question.limits
    rows = (
        ("latency", limits.latency_ms),
        ("size", limits.size_bytes),
        ("drop", limits.max_drop_points),
        ("accuracy", limits.min_accuracy),
        ("memory", limits.memory_bytes),
    )
    return [(name, float(value)) for name, value in rows if value is not None]


def _classes(evaluation: Evaluation) -> Iterable[str]:
    recalls = (evaluation.holdout_answers or evaluation.answers).per_class_recall
    yield "## By class"
    yield ""
    if not recalls:
        yield "Not measured: the run had no pictures."
        return
    yield "| class | share of its hold-out pictures that were recognised |"
    yield "| --- | ---: |"
    for label, recall in recalls.items():
        yield f"| {escaped(label)} | {'no picture' if recall is None else f'{100 * recall:.0f} %'} |"


def _data(run: LoadedRun, evaluation: Evaluation) -> Iterable[str]:
    yield "## Data"
    yield ""
    counts: Mapping[str, int] = run.dataset.get("pictures_per_class") or {}
    if not counts:
        quantity = evaluation.accuracy
        source = f" ({escaped(quantity.source)})" if quantity and quantity.source else ""
        yield f"No pictures of the team's: the network is as it was published, its accuracy as quoted{source}."
        yield "It says nothing about other pictures."
        return
    name = PurePath(str(run.dataset.get("folder", ""))).name
    yield f"{sum(counts.values())} pictures of {len(counts)} classes (folder '{escaped(name)}', fingerprint"
    compared = run.dataset.get("validation")
    yield f"`{escaped(run.dataset.get('fingerprint', ''))}`): {run.dataset.get('train')} to train and calibrate,"
    if compared:
        yield f"{compared} to choose among candidates by, which the head that ships was then fitted to as well, and"
    yield f"{run.dataset.get('holdout')} held out for the accuracy above. The network below the head was trained on"
    yield "ImageNet by its authors."
    yield ""
    yield ", ".join(f"{escaped(label)}: {count}" for label, count in counts.items()) + "."


def _handling(model: ShippedModel) -> Iterable[str]:
    yield "## Input and output"
    yield ""
    yield f"RGB, upright, the whole picture resized to {model.size} x {model.size} (bilinear, antialiased), each value"
    yield f"(v - {model.mean:g}) / {model.std:g} as float32. Out: {len(model.labels)} probabilities in the order of"
    yield "labels.txt. The same stands in the file's own metadata, which MediaPipe's ImageClassifier reads."
    for edit in model.edits:
        yield ""
        yield f"Other than in the file that was measured (model\\_measured.tflite), {edit}. What the network computes"
        yield "is the same."


def _licence(run: LoadedRun, evaluation: Evaluation) -> Iterable[str]:
    yield "## Licence"
    yield ""
    licence = escaped(evaluation.card_facts.licence or "not stated")
    yield f"Network and weights: {licence}. They were trained on ImageNet, whose pictures may have terms of their own."
    if run.dataset:
        yield "The head was trained on the team's pictures: their terms apply too."


def _origin(run: LoadedRun, evaluation: Evaluation) -> Iterable[str]:
    weights: Any = (run.manifest.get("weights") or {}).get(evaluation.configuration.card) or {}
    digest = weights.get("sha256", "") if isinstance(weights, dict) else ""
    versions = run.manifest.get("versions") or {}
    yield "## How it was made"
    yield ""
    yield f"- advisor {escaped(run.manifest.get('advisor', 'of an unknown version'))}, run {escaped(run.name)},"
    yield f"  configuration {escaped(evaluation.configuration.key)}"
    yield f"- artefact as measured: SHA-256 `{escaped(evaluation.artefact_sha256)}`"
    if digest:
        yield f"- weights: SHA-256 `{escaped(digest)}`"
    yield f"- versions: {escaped(', '.join(f'{name} {version}' for name, version in versions.items()))}"

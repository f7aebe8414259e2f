"""The model card: identity, use, figures with provenance, data and licence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from advisor.core.escape import markdown as escaped
from advisor.core.evaluation import Evaluation
from advisor.core.figures import show_figure
from advisor.core.latency_distribution import percent
from advisor.core.quantity import Provenance, Quantity
from advisor.core.training import FINETUNE_ALL, FINETUNE_TOP, HEAD, HEAD_SUBSET, NONE
from advisor.core.units import show_bytes, show_ms
from advisor.engine.history.loaded_run import LoadedRun
from advisor.exporting.model import ShippedModel
from advisor.exporting.settings import settings

LABELS_SHOWN = 50

_TRAINED: Mapping[str, str] = {
    NONE: "published weights",
    HEAD_SUBSET: "head retrained on some of your images",
    HEAD: "head retrained on your images",
    FINETUNE_TOP: "last layers fine-tuned on your images",
    FINETUNE_ALL: "all layers fine-tuned on your images",
}


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
    trained = _TRAINED.get(configuration.training, configuration.training)
    yield f"# {escaped(configuration.card)}, {escaped(configuration.compression)}"
    yield ""
    yield f"Image classifier with {len(model.labels)} classes: {escaped(configuration.card)}, {trained}, compressed as"
    yield f"{escaped(configuration.compression)}. Selected by advisor in run {escaped(run.name)}:"
    yield ""
    yield f"> {escaped(run.decision.reason)}"
    if run.decision.pick is not None and run.decision.pick.configuration != configuration:
        yield ""
        yield f"This is not the pick of that run but {escaped(configuration.key)}, which was selected by hand."


def _use(run: LoadedRun, model: ShippedModel) -> Iterable[str]:
    labels = ", ".join(escaped(label) for label in model.labels[:LABELS_SHOWN])
    more = f", and {len(model.labels) - LABELS_SHOWN} more (labels.txt)" if len(model.labels) > LABELS_SHOWN else ""
    yield "## Intended use"
    yield ""
    yield "The input is one image, the output a probability for each class. An image of something else gets one of the"
    yield "classes too. Do not use the model for decisions about people."
    yield ""
    yield f"Task: {escaped(run.question.task)}. Classes: {labels}{more}."


def _figures(run: LoadedRun, evaluation: Evaluation) -> Iterable[str]:
    target = evaluation.configuration.target
    yield "## Figures"
    yield ""
    threads = f"{target.threads} thread{'s'[: target.threads > 1]}"
    yield f"On {escaped(target.device)} with {escaped(target.runtime)}, {escaped(target.accelerator)}, {threads}."
    yield ""
    yield "| figure | value | 95 % interval (80 % if predicted) | n | provenance |"
    yield "| --- | ---: | ---: | ---: | --- |"
    for name, quantity in _rows(evaluation):
        if quantity is not None:
            yield _row(name, quantity)
    budget = run.question.limits
    limits = [f"{name} {show_figure(name, value)}" for name, value in budget.limits.items()]
    yield ""
    yield f"Limits of the search: {', '.join(limits) or 'none'}."
    yield from _by_device(evaluation)
    if evaluation.contended:
        yield ""
        yield "Other programs used the machine during timing: measure the latency again before you rely on it."
    if evaluation.latency and evaluation.latency.provenance is not Provenance.MEASURED:
        yield ""
        provenance = evaluation.latency.provenance
        yield f"The latency is {provenance}, not measured: try it on the device before you rely on it."


def _by_device(evaluation: Evaluation) -> Iterable[str]:
    """Return the figures of the same file on every device of the search."""
    devices = settings(evaluation)
    if len(devices) < 2:
        return
    yield ""
    yield "| device | runtime | latency | probability of meeting the budget |"
    yield "| --- | --- | ---: | ---: |"
    for device in devices:
        latency = f"{device.provenance} {show_ms(device.latency_ms)}" if device.latency_ms else "unknown"
        probability = "" if device.budget_probability is None else percent(device.budget_probability)
        runs_by = f"{device.runtime}, {device.accelerator}, {device.threads} threads"
        yield f"| {escaped(device.device)} | {escaped(runs_by)} | {latency} | {probability} |"


def _rows(evaluation: Evaluation) -> tuple[tuple[str, Quantity | None], ...]:
    top1 = "top-1 on validation, used for selection" if evaluation.holdout_accuracy else "top-1 accuracy"
    return (
        (top1, evaluation.accuracy),
        ("top-1 on the hold-out (expect this)", evaluation.holdout_accuracy),
        ("top-1 on the hold-out under capture conditions", evaluation.capture.holdout),
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


def _classes(evaluation: Evaluation) -> Iterable[str]:
    recalls = (evaluation.holdout_answers or evaluation.answers).per_class_recall
    yield "## By class"
    yield ""
    if not recalls:
        yield "Not measured: the run had no images."
        return
    yield "| class | share of its hold-out images that were recognised |"
    yield "| --- | ---: |"
    for label, recall in recalls.items():
        yield f"| {escaped(label)} | {'no image' if recall is None else f'{100 * recall:.0f} %'} |"


def _data(run: LoadedRun, evaluation: Evaluation) -> Iterable[str]:
    yield "## Data"
    yield ""
    counts: Mapping[str, int] = run.dataset.get("pictures_per_class") or {}
    if not counts:
        quantity = evaluation.accuracy
        source = f" ({escaped(quantity.source)})" if quantity and quantity.source else ""
        yield f"The run had no images of yours. The network and its accuracy are as published{source}."
        yield "It says nothing about other images."
        return
    name = PurePath(str(run.dataset.get("folder", ""))).name
    yield f"{sum(counts.values())} images of {len(counts)} classes (folder '{escaped(name)}', fingerprint"
    compared = run.dataset.get("validation")
    yield f"`{escaped(run.dataset.get('fingerprint', ''))}`): {run.dataset.get('train')} for training and calibration,"
    if compared:
        yield f"{compared} to compare candidates (the shipped file was then trained on them too), and"
    yield f"{run.dataset.get('holdout')} held out for the accuracy above. The authors of the network pretrained it on"
    yield "ImageNet."
    yield ""
    yield ", ".join(f"{escaped(label)}: {count}" for label, count in counts.items()) + "."


def _handling(model: ShippedModel) -> Iterable[str]:
    yield "## Input and output"
    yield ""
    yield f"RGB, upright, the whole image resized to {model.size} x {model.size} (bilinear, antialiased), each value"
    yield f"(v - {model.mean:g}) / {model.std:g} as float32. The output has {len(model.labels)} probabilities"
    yield "in the order of labels.txt. The file's metadata says the same, and MediaPipe's ImageClassifier reads it."
    for edit in model.edits:
        yield ""
        yield f"Unlike in the measured file (model\\_measured.tflite), {edit}. The network computes the same values."


def _licence(run: LoadedRun, evaluation: Evaluation) -> Iterable[str]:
    yield "## Licence"
    yield ""
    licence = escaped(evaluation.card_facts.licence or "not stated")
    yield f"Network and weights: {licence}. They were trained on ImageNet, whose images may have other terms."
    if run.dataset:
        yield "The file was trained on your images: their terms apply too."


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

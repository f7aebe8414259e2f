"""Documents of a bundle: the model card with figures, data and licence, and the README with commands to try."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import DeviceFigures
from advisor.core.figures import show_figure
from advisor.core.metrics import METRICS
from advisor.core.quantity import percent
from advisor.core.tasks import TASKS
from advisor.core.training import recipe_of
from advisor.core.units import plural, show_bytes, show_ms
from advisor.engine.history.loaded_run import LoadedRun
from advisor.engine.question import Question
from advisor.exporting.shipping import ShippedModel, Shipping, parts_of
from advisor.exporting.snippets import benchmark_lines, benchmark_options, devices_of, render_template
from advisor.measurement.counting import NEAR
from advisor.reporting.risks import Risk, warnings

LABELS_SHOWN = 50

CONTENTS: Mapping[str, str] = {
    "model.tflite": "the model, with labels and normalization in its metadata",
    "model_measured.tflite": "the measured artefact, unchanged",
    "labels.txt": "one label per line, in the order of the output",
    "model_card.md": "figures with provenance, warnings, data, use, licence",
    "bundle.json": "the same facts for programs",
    "check.py": "checks every file and the model's answers to the test vectors",
    "test_vectors/": "images as raw RGB bytes, and the {answers} that the model computes for them",
    "android/": "Kotlin for an app",
    "ios/": "Swift for an app",
    "python/": "a program that {does}",
    "edgetpu/": "a program for a Coral Edge TPU",
}
"""Content of each file or folder of a bundle, without the parts of integrations; the task's words are filled in."""

CHECKSUMS: Mapping[str, str] = {"SHA256SUMS": "sha256sum -c SHA256SUMS"}


def model_card(run: LoadedRun, evaluation: Evaluation, model: ShippedModel, found: Sequence[Risk]) -> str:
    """Return the card as Markdown, with the risks ``found``; names of classes, cards and sources are escaped."""
    configuration, pick = evaluation.configuration, run.decision.pick
    weights: Any = (run.manifest.get("weights") or {}).get(configuration.card) or {}
    versions = run.manifest.get("versions") or {}
    return render_template(
        run.question.of_task.shipping().card,
        run=run,
        task=run.question.of_task,
        evaluation=evaluation,
        configuration=configuration,
        target=configuration.target,
        threads=plural(configuration.target.threads, "thread"),
        trained=recipe_of(configuration.training).result or configuration.training,
        selected_by_hand=pick is not None and pick.configuration != configuration,
        model=model,
        near=NEAR,
        labels=model.labels,
        labels_shown=LABELS_SHOWN,
        told_apart=evaluation.unknown is not None and model.labels[-1:] == (evaluation.unknown.label,),
        warnings=warnings(found),
        risks=[risk for risk in found if risk not in warnings(found)],
        figures=list(_figures(run.question, evaluation)),
        limits=[f"{name} {show_figure(name, value)}" for name, value in run.question.limits.limits.items()],
        devices=devices_of(evaluation),
        latency=_latency,
        share=_share,
        probability=_probability,
        answers=evaluation.holdout_answers or evaluation.answers,
        counts=run.dataset.get("boxes_per_class") or run.dataset.get("pictures_per_class") or {},
        images=sum((run.dataset.get("pictures_per_class") or {}).values()),
        folder=PurePath(str(run.dataset.get("folder", ""))).name,
        weights_sha256=weights.get("sha256", "") if isinstance(weights, dict) else "",
        versions=", ".join(f"{name} {version}" for name, version in versions.items()),
    )


def _figures(question: Question, evaluation: Evaluation) -> Iterator[tuple[str, str, str, int | None, str]]:
    """Return name, value, interval, number of images or runs, and provenance of each known figure."""
    metric, usual = question.of_task.metric, TASKS[question.task].metric
    judged = evaluation.holdout_answers or evaluation.answers
    part = "hold-out" if evaluation.holdout_answers else "validation part"
    others = [name for name in METRICS if name != question.metric and name in judged.metrics]
    rows = (
        (f"{metric}{' on validation, used for selection' if evaluation.holdout_accuracy else ''}", evaluation.accuracy),
        (f"{metric} on the hold-out (images like these)", evaluation.holdout_accuracy),
        *((f"{METRICS[name].label} on the {part}", judged.metrics[name]) for name in others),
        (f"{usual} in new conditions (another visit, camera or day)", evaluation.new_conditions),
        (f"{usual} on the hold-out under capture conditions", evaluation.capture.holdout),
        ("latency, median", evaluation.latency),
        ("latency, 90th percentile", evaluation.latency_p90),
        ("file size", evaluation.size),
        ("peak memory", evaluation.memory),
        ("lost by compression", evaluation.drop),
    )
    for name, quantity in rows:
        if quantity is None:
            continue
        ends = ""
        if quantity.low is not None and quantity.high is not None:
            ends = f"{_show(quantity.low, quantity.unit)} to {_show(quantity.high, quantity.unit)}"
        source = f"{quantity.provenance}{': ' + quantity.source if quantity.source else ''}"
        yield name, _show(quantity.value, quantity.unit), ends, quantity.n, source


def _show(value: float, unit: str) -> str:
    if unit == "ms":
        return show_ms(value)
    return show_bytes(value) if unit == "bytes" else f"{value:.1f} {unit}"


def _share(value: float | None) -> str:
    return "none" if value is None else f"{100 * value:.0f} %"


def _latency(device: DeviceFigures) -> str:
    return f"{device.provenance} {show_ms(device.latency_ms)}" if device.latency_ms else "unknown"


def _probability(device: DeviceFigures) -> str:
    return "" if device.budget_probability is None else percent(device.budget_probability)


def readme(shipping: Shipping, evaluation: Evaluation, files: Iterable[str]) -> str:
    """Return README.md for a bundle of ``files``."""
    present = {path.partition("/")[0] + "/" if "/" in path else path for path in files} | CHECKSUMS.keys()
    parts = parts_of([name.removesuffix("/") for name in present])
    known = {**CONTENTS, **{f"{name}/": part.CONTENT for name, part in parts.items()}, **CHECKSUMS}
    (device, own), *others = devices_of(evaluation).items()
    return render_template(
        "README.md.j2",
        configuration=evaluation.configuration,
        contents={
            name: content.format(answers=shipping.answers, does=shipping.does)
            for name, content in known.items()
            if name in present
        },
        program=shipping.snippets["python"],
        device=device,
        benchmark_lines=benchmark_lines(own),
        benchmark_options=benchmark_options,
        others=others,
    )

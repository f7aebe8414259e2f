"""Code for the app, with the measured threads, delegate and loading; commands that time a file on its devices."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from jinja2 import Environment, PackageLoader, StrictUndefined

from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import DeviceFigures
from advisor.core.expectation import figures_of
from advisor.core.units import markdown, plain, plural, show_ms
from advisor.exporting.shipping import ShippedModel, Shipping
from advisor.measurement.counting import NEAR


def render_template(template: str, package: str = "advisor.exporting", **values: object) -> str:
    """Return a template of a package with its variables; the filter ``md`` escapes untrusted text in Markdown."""
    return _environment(package).get_template(template).render(**values)


def render_html(template: str, package: str, **values: object) -> str:
    """Return a template of HTML with its variables, which are escaped."""
    return _environment(package, escape=True).get_template(template).render(**values)


@cache
def _environment(package: str, escape: bool = False) -> Environment:
    environment = Environment(
        autoescape=escape,  # noqa: S701 (source code and Markdown, unlike HTML, escape where they need it)
        loader=PackageLoader(package),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = markdown
    return environment


PLATFORMS = ("android", "ios", "python")

DELEGATES: Mapping[str, tuple[str, ...]] = {"android": ("cpu", "gpu"), "ios": ("cpu", "gpu"), "python": ("cpu",)}
"""Accelerators that the code of each platform supports."""


def render(shipping: Shipping, platform: str, model: ShippedModel, evaluation: Evaluation) -> tuple[str, str]:
    """Return path within the bundle and content of the snippet for ``android``, ``ios`` or ``python``.

    Args:
        shipping: what a bundle of the task has.
        platform: one of :data:`PLATFORMS`.
        model: the shipped model.
        evaluation: the exported evaluation.
    """
    path = shipping.snippets[platform]
    return path, render_template(
        f"{path.rpartition('/')[2]}.j2",
        folder=path.rpartition("/")[0],
        gpu=evaluation.configuration.target.accelerator == "gpu",
        size=model.size,
        mean=repr(model.mean),
        std=repr(model.std),
        threshold=repr(model.threshold),
        least_of=by_place(model, model.thresholds.by_class),
        may_show=by_place(model, model.thresholds.recall),
        near=NEAR,
        threads=evaluation.configuration.target.threads,
        remark=_remark(evaluation, platform),
    )


def edgetpu(path: str, measured: str, mean: tuple[float, ...], std: tuple[float, ...]) -> str:
    """Return the snippet for a Coral Edge TPU.

    Args:
        path: path within the bundle.
        measured: name of the file with int8 input and output.
        mean: normalization of RGB values 0..255.
        std: as ``mean``.
    """
    return render_template(
        f"{path.rpartition('/')[2]}.j2",
        integer_model=measured,
        compiled=measured.replace(".tflite", "_edgetpu.tflite"),
        means=repr(list(mean)),
        stds=repr(list(std)),
    )


def by_place(model: ShippedModel, scores: Mapping[str, float]) -> dict[int, float]:
    """Return scores by the place of their label."""
    return {place: scores[label] for place, label in enumerate(model.labels) if label in scores}


def _remark(evaluation: Evaluation, platform: str) -> str:
    """Return a line that says where the settings come from, and whether the code supports them."""
    target = evaluation.configuration.target
    threads = plural(target.threads, "thread")
    figure = f", {show_ms(evaluation.latency.value)} {evaluation.latency.provenance}" if evaluation.latency else ""
    best = f"Best on {target.device} with {threads}, {target.accelerator}, {target.runtime}{figure}."
    devices = devices_of(evaluation).items()
    others = [f"{name}: {figures.accelerator}, threads {figures.threads}" for name, figures in devices][1:]
    best += f" Other devices: {'; '.join(others)}." if others else ""
    if target.accelerator in DELEGATES[platform]:
        return plain(best)
    return plain(f"{best} This code runs on the CPU: measure the latency there.")


_ON_ACCELERATORS: Mapping[str, str] = MappingProxyType(
    {"cpu": "--use_xnnpack=true", "gpu": "--use_gpu=true", "npu": "--use_nnapi=true"}
)
"""Options of ``benchmark_model`` that put a model on an accelerator (its own help text)."""


def devices_of(evaluation: Evaluation) -> dict[str, DeviceFigures]:
    """Return the figures on every device that the evaluation's file runs on; the evaluation's own device is first."""
    own = {evaluation.configuration.target.device: figures_of(evaluation)}
    known = {**own, **evaluation.device_figures, **(evaluation.required_figures or {})}
    return {device: figures for device, figures in known.items() if not figures.reason}


def benchmark_options(figures: DeviceFigures) -> str:
    """Return the options of ``benchmark_model`` for a device."""
    delegate = _ON_ACCELERATORS.get(figures.accelerator, _ON_ACCELERATORS["cpu"])
    return f"--num_threads={figures.threads} {delegate} --warmup_runs=10 --num_runs=200 --max_secs=30"


def benchmark_lines(figures: DeviceFigures) -> tuple[str, ...]:
    """Return the commands that time the model on an Android phone and on a computer with benchmark_model."""
    options = benchmark_options(figures)
    return (
        "adb push model.tflite benchmark_model /data/local/tmp/",
        "adb shell chmod +x /data/local/tmp/benchmark_model",
        f"adb shell /data/local/tmp/benchmark_model --graph=/data/local/tmp/model.tflite {options}",
        f"./benchmark_model --graph=model.tflite {options}",
    )

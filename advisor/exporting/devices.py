"""Figures of a file on each of its devices, and the options to time it there."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import DeviceFigures
from advisor.core.worst_case import figures_of

DELEGATES: Mapping[str, str] = MappingProxyType(
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
    delegate = DELEGATES.get(figures.accelerator, DELEGATES["cpu"])
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

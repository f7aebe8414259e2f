"""Decide which files a target runs. Searches, benchmarks and calibrations use the same rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.devices.profiles.values import DeviceTarget

TFLITE_RUNTIMES = frozenset({"tflite", "tflite-micro", "tflite-runtime", "ai-edge-litert"})
"""Runtimes that run a ``.tflite`` file without converting it."""

MEASURABLE_RUNTIMES = TFLITE_RUNTIMES - {"tflite-micro"}
"""Runtimes that the agent and ``benchmark_model`` measure over a connection."""

PRECISIONS_FOR: Mapping[str, tuple[str, ...]] = {
    "float16": ("float16", "float32"),
    "int8": ("int8",),
    "int16x8": ("int16x8",),
}
"""For each form, the precisions of which a target needs at least one. Every other form needs ``float32``."""

SINGLE_ARITHMETIC = ("npu", "tpu")
"""Accelerators that compute in one arithmetic. The mixed arithmetic of ``dynamic_int8`` runs on the CPU instead."""


def form_incompatibility(form: str, target: DeviceTarget) -> str:
    """Return why a target does not run files of a form, such as ``takes int8, not float32``; empty if it does."""
    if form == "dynamic_int8" and target.accelerator in SINGLE_ARITHMETIC:
        return "does not compute floats with 8-bit weights"
    if set(PRECISIONS_FOR.get(form, ("float32",))) & set(target.precisions):
        return ""
    return f"takes {', '.join(target.precisions)}, not {form}"

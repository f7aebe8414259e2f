"""Describe how fast a target's processor computes, in the arithmetic that its runtime uses."""

from __future__ import annotations

import math
import re

from advisor.devices.profiles import TFLITE_RUNTIMES, DeviceProfile, DeviceTarget
from advisor.devices.profiles.cores import Core, find_core

HALF_PRECISION = frozenset({"ncnn", "mnn"})
"""Runtimes that compute float32 files in 16-bit float on cores that can (Armv8.2 FP16); all others compute float32."""

UNSTATED_THREADS = "-unstated-threads"
"""End of the name of a target whose source does not state the number of threads."""

_HEXAGON = re.compile(r"^Hexagon v(\d+)\b")


def runtime_family(runtime: str) -> str:
    """Return the name that the versions and packages of one runtime share; LiteRT is TensorFlow Lite."""
    return "litert" if runtime in TFLITE_RUNTIMES else runtime


def arithmetic(runtime: str, precision: str) -> str:
    """Return the arithmetic (``float32``, ``float16`` or ``int8``) of a CPU runtime for files of a precision."""
    if precision in ("int8", "int16x8"):
        return "int8"
    return "float16" if precision == "float16" or runtime in HALF_PRECISION else "float32"


def target_vector(profile: DeviceProfile, target: DeviceTarget, precision: str) -> tuple[float, ...] | None:
    """Return the features of a target's processor, None if it is not known; the length depends on the kind.

    Returns:
        For a CPU: the logarithm of 10^9 multiply-accumulates per second of the cores that run, in the arithmetic of
        the runtime; the logarithm of the sum of their clocks in GHz; the logarithm of the threads; the share of the
        cores that issue in order. For a Hexagon NPU, its generation (75 for ``Hexagon v75``).
    """
    if target.accelerator == "npu":
        generation = _HEXAGON.match(profile.npu)
        return (float(generation[1]),) if generation else None
    running = running_cores(profile, target)
    if not running:
        return None
    form = arithmetic(target.runtime, precision)
    return (
        math.log(sum(ghz * core.macs_per_cycle(form) for core, ghz in running)),
        math.log(sum(ghz for _, ghz in running)),
        math.log(target.threads),
        sum(core.in_order for core, _ in running) / len(running),
    )


def running_cores(profile: DeviceProfile, target: DeviceTarget) -> list[tuple[Core, float]]:
    """Return the cores that run, each with its clock in GHz: the fastest ones, or the slowest of ``-little``.

    The list is empty if the target is no CPU, if a core is unknown, or if the number of threads is not stated.
    """
    if target.accelerator != "cpu" or target.name.endswith(UNSTATED_THREADS):
        return []
    cores: list[tuple[Core, float]] = []
    for cluster in profile.cores:
        core = find_core(cluster.core)
        if core is None:
            return []
        cores += [(core, (cluster.max_mhz or core.mhz) / 1000)] * cluster.count
    return (cores[::-1] if target.name.endswith("-little") else cores)[: target.threads]

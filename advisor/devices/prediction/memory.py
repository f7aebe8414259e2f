"""Predict the memory that a file takes on a device from its content; nothing runs."""

from __future__ import annotations

from advisor.core.file_features import FileFeatures
from advisor.core.quantity import Provenance, Quantity
from advisor.devices.profiles import MICRO_RUNTIME

RUNTIME_BYTES = 1.9e6
SLACK = 1.06
"""Memory of the runtime on a CPU, and the factor that its kernels add to arena and weights. Both are fitted to the
private memory of processes that ran 53 files (six networks, six forms; LiteRT 2, XNNPACK). Median error: 4 %."""

WIDEST = 1.2
"""The prediction of all 53 files was within this factor."""


def arena_of(file: FileFeatures, runtime: str) -> int:
    """Return the bytes of the arena that a runtime needs; TensorFlow Lite Micro keeps more in it than activations."""
    return file.micro_arena_bytes or file.arena_bytes if runtime == MICRO_RUNTIME else file.arena_bytes


def predicted_memory(file: FileFeatures, kind: str, runtime: str = "") -> Quantity | None:
    """Return the peak memory in bytes of one file on one target; None if its weights were not counted.

    Args:
        file: features of the file.
        kind: ``cpu``, ``gpu``, ``npu`` or ``mcu`` (:class:`advisor.devices.latency.table.Column`).
        runtime: the runtime of a microcontroller.
    """
    if not file.weight_bytes:
        return None
    if kind == "mcu":
        micro = runtime == MICRO_RUNTIME
        source = "tensor arena of TensorFlow Lite Micro" if micro else "arena of its activations"
        source += ", computed from their lifetimes; its weights stay in flash"
        return Quantity(float(arena_of(file, runtime)), "bytes", Provenance.PREDICTED, source=source)
    if kind != "cpu":
        source = "activations and weights as stored, without the memory of the driver"
        return Quantity(float(file.arena_bytes + file.weight_bytes), "bytes", Provenance.PREDICTED, source=source)
    value = RUNTIME_BYTES + SLACK * (file.arena_bytes + file.weight_bytes + file.held_bytes)
    source = "activations, weights as stored and as the kernels hold them, the runtime"
    return Quantity(value, "bytes", Provenance.PREDICTED, value / WIDEST, value * WIDEST, source=source)

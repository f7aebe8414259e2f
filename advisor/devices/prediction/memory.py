"""What a file will take of a device's memory, computed from the file: nothing is run."""

from __future__ import annotations

from advisor.core.file_features import FileFeatures
from advisor.core.quantity import Provenance, Quantity

RUNTIME_BYTES = 1.9e6
SLACK = 1.06
"""On a CPU the runtime itself, and what its kernels add to arena and weights: fitted to the private memory of fresh
processes that ran 53 files (six networks, six forms; LiteRT 2 with XNNPACK). The median error was 4 %."""

WIDEST = 1.2
"""All 53 lay within this factor."""


def predicted_memory(file: FileFeatures, kind: str) -> Quantity | None:
    """Return the peak memory in bytes of one file on one target; None where the file was not read for it.

    Args:
        file: what the file holds.
        kind: ``cpu``, ``gpu``, ``npu`` or ``mcu`` (:class:`advisor.devices.latency.table.Column`).
    """
    if not file.weight_bytes:
        return None
    if kind == "mcu":
        source = "arena of its activations, from their lifetimes; its weights stay in flash"
        return Quantity(float(file.arena_bytes), "bytes", Provenance.PREDICTED, source=source)
    if kind != "cpu":
        source = "activations and weights as stored; what the driver adds is not known"
        return Quantity(float(file.arena_bytes + file.weight_bytes), "bytes", Provenance.PREDICTED, source=source)
    value = RUNTIME_BYTES + SLACK * (file.arena_bytes + file.weight_bytes + file.held_bytes)
    source = "activations, weights as stored and as the kernels hold them, the runtime"
    return Quantity(value, "bytes", Provenance.PREDICTED, value / WIDEST, value * WIDEST, source=source)

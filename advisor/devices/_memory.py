"""Predict the peak memory of a file on a target, from its arena and its weights.

The engine calls :func:`predict_memory_on` for each configuration on a device that is not measured.
A runtime of this machine and a device that is connected are measured instead.
"""

from advisor.core import FileFeatures, Provenance, Quantity
from advisor.devices._latency.table import column_of
from advisor.devices._profiles import DeviceProfile, DeviceTarget

RUNTIME_BYTES = 4.5e6
"""Memory of the runtime on a CPU: the median of what processes took besides, in which LiteRT 2 ran
files of nine networks in up to five forms with XNNPACK. It is 3 MB less while another process has
the runtime's library loaded.
"""

WIDEST = 1.2


def predict_memory_on(
    profile: DeviceProfile, target: DeviceTarget, file: FileFeatures
) -> Quantity | None:
    """Return the peak memory in bytes of one file on a target of a device;
    None if its weights were not counted.
    """
    return predict_memory(file, column_of(profile, target, file.form).kind, target)


def predict_memory(file: FileFeatures, kind: str, target: DeviceTarget) -> Quantity | None:
    """Return the peak memory in bytes of one file on one target;
    None if its weights were not counted.

    ``kind`` is that of the target's column: ``cpu``, ``gpu``, ``npu`` or ``mcu``.
    """
    if not file.weight_bytes:
        return None
    # Weights stay in flash, so only the arena takes memory.
    if kind == "mcu":
        source = "arena of its activations"
        if target.is_micro:
            source = "tensor arena of TensorFlow Lite Micro"
        source += ", computed from their lifetimes; its weights stay in flash"
        return Quantity(float(target.arena_of(file)), "bytes", Provenance.PREDICTED, source=source)
    # What a driver of a GPU or an NPU holds besides is not known.
    if kind != "cpu":
        source = "activations and weights as stored, without the memory of the driver"
        return Quantity(
            float(file.arena_bytes + file.weight_bytes),
            "bytes",
            Provenance.PREDICTED,
            source=source,
        )
    value = RUNTIME_BYTES + file.arena_bytes + file.weight_bytes + file.held_bytes
    source = "activations, weights as stored, what the kernels hold besides, the runtime"
    return Quantity(
        value, "bytes", Provenance.PREDICTED, value / WIDEST, value * WIDEST, source=source
    )

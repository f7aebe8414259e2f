"""Compute the features of a processor that latency depends on: the speed of its cores, or its generation."""

from __future__ import annotations

import math
import re

from advisor.devices.profiles import DeviceProfile, DeviceTarget

# Multiply-accumulates per cycle of one core: (32-bit float, the narrowest float that the kernels use). Width and number
# of the SIMD pipes are from the vendors' optimisation guides; 16-bit arithmetic (Armv8.2 and later) doubles them.
_LANES: dict[str, tuple[float, float]] = {
    "Cortex-A7": (2, 2), "Cortex-A17": (4, 4), "Cortex-A35": (2, 2), "Cortex-A53": (4, 4), "Cortex-A55": (4, 8),
    "Cortex-A57": (6, 6), "Cortex-A72": (6, 6), "Cortex-A73": (6, 6), "Cortex-A75": (8, 16), "Cortex-A76": (8, 16),
    "Cortex-A77": (8, 16), "Cortex-A78": (8, 16), "Cortex-A78AE": (8, 16), "Cortex-A710": (8, 16),
    "Cortex-A715": (8, 16), "Cortex-A720": (8, 16), "Cortex-A510": (4, 8), "Cortex-A520": (4, 8),
    "Cortex-X1": (16, 32), "Cortex-X2": (16, 32), "Cortex-X3": (16, 32), "Cortex-X4": (16, 32), "Oryon": (16, 32),
    "Kryo": (6, 6), "Cyclone": (8, 8), "Denver 2": (8, 8), "Carmel": (8, 16), "M3 performance": (16, 32),
    "M3 efficiency": (8, 16), "Tremont": (4, 4), "SiFive U74": (0.5, 0.5), "Cortex-M4": (0.5, 0.5),
    "Cortex-M7": (1, 1), "Cortex-M33": (0.5, 0.5), "Cortex-M55": (4, 8), "Xtensa LX6": (0.5, 0.5),
    "Xtensa LX7": (1, 1), "RISC-V": (0.5, 0.5), "AVX2": (16, 16), "AVX-512": (32, 32), "SSE": (4, 4),
}  # fmt: skip
_TYPICAL = (4.0, 8.0)
_DESIGN = re.compile(r"\(([\w-]+)\)$")

_HEXAGON = re.compile(r"^Hexagon v(\d+)\b")


def target_vector(profile: DeviceProfile, target: DeviceTarget) -> tuple[float, ...] | None:
    """Return the features of a target's processor, None if it is not known; the length depends on the kind.

    Returns:
        For a CPU, the logarithms of: 10^9 multiply-accumulates per second of the cores that run, and of the fastest of
        them, its clock in GHz, the number of threads, and the fastest core's multiply-accumulates per cycle. For a
        Hexagon NPU, its generation (75 for ``Hexagon v75``).
    """
    if target.accelerator == "npu":
        generation = _HEXAGON.match(profile.npu)
        return (float(generation[1]),) if generation else None
    cores = [(c.core, c.max_mhz) for c in profile.cores for _ in range(c.count) if c.max_mhz]
    if target.accelerator != "cpu" or not cores:
        return None
    if target.name.endswith("-little"):
        cores = cores[::-1]
    running = cores[: target.threads]
    rates = [mhz / 1000 * _lanes(core)[1] for core, mhz in running if mhz]
    first, mhz = running[0]
    return (
        math.log(sum(rates)),
        math.log(max(rates)),
        math.log((mhz or 1000) / 1000),
        math.log(target.threads),
        math.log(_lanes(first)[1]),
    )


def _lanes(core: str) -> tuple[float, float]:
    """Return the figures of a core; brackets contain the design behind a vendor's name: ``Kryo 485 (A76)``."""
    match = _DESIGN.search(core)
    if match:
        return _LANES.get(f"Cortex-{match[1]}") or _LANES.get(match[1], _TYPICAL)
    return _LANES.get(core, _TYPICAL)


def silicon(profile: DeviceProfile) -> str:
    """Return the name of the silicon without variants: RK3588S is RK3588, and Snapdragon 855+ is Snapdragon 855."""
    return re.sub(r"(?<=\d)[S+]$", "", profile.soc.split(" for ")[0])

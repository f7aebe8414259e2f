"""Describe this machine as a device profile."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import psutil

from advisor.devices.profiles.measurements import PRECISIONS
from advisor.devices.profiles.values import HOST, Cluster, DeviceProfile, DeviceTarget
from advisor.isolation.resources import usable_cores

_CPUINFO = Path("/proc/cpuinfo")
_MAX_FREQUENCY = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
_RUNTIME = "ai-edge-litert"


def host_profile() -> DeviceProfile:
    """Return the profile of this machine: its processor, its memory, and the installed LiteRT runtime."""
    cores = usable_cores()
    targets = tuple(
        DeviceTarget(f"cpu-x{threads}", _RUNTIME, "cpu", threads, version(_RUNTIME), PRECISIONS)
        for threads in sorted({1, min(4, cores), cores})
    )
    return DeviceProfile(
        name=HOST,
        title=f"This machine ({platform.system()} {platform.machine()})",
        kind="computer",
        soc=processor_name(),
        isa=platform.machine(),
        cores=(Cluster(f"{processor_name()}{_vectors()}", cores, _max_mhz()),),
        memory_bytes=psutil.virtual_memory().total,
        targets=targets,
        default_target=f"cpu-x{min(4, cores)}",
        sources=("read from the operating system",),
    )


def processor_name() -> str:
    """Return the processor's name from the operating system."""
    stated = {key: value for key, value in _cpuinfo() if value}
    for key in ("model name", "Hardware", "Model"):  # x86 also has a "model", which is a number
        if key in stated:
            return stated[key]
    return platform.processor() or platform.machine() or "unknown processor"


def _max_mhz() -> int | None:
    """Return the highest clock in MHz, None if the system does not tell."""
    if _MAX_FREQUENCY.is_file():
        return int(_MAX_FREQUENCY.read_text()) // 1000 or None
    clocks = [float(value) for key, value in _cpuinfo() if key == "cpu MHz" and value]
    return round(max(clocks)) if clocks else None


def _vectors() -> str:
    """Return the vector extension of an x86 processor as a suffix; empty if it is not known."""
    flags = next((set(value.split()) for key, value in _cpuinfo() if key == "flags"), set())
    for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2"), ("sse2", "SSE")):
        if flag in flags:
            return f" ({name})"
    return ""


def _cpuinfo() -> list[tuple[str, str]]:
    if not _CPUINFO.is_file():
        return []
    lines = _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    return [(key.strip(), value.strip()) for key, _, value in (line.partition(":") for line in lines)]

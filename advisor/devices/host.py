"""The machine that the advisor runs on, as a device profile."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

from advisor.devices.measurements import PRECISIONS
from advisor.devices.profiles import HOST, Cluster, DeviceProfile, DeviceTarget

_CPUINFO = Path("/proc/cpuinfo")
_RUNTIMES = (("ai-edge-litert", "ai_edge_litert"), ("tflite-runtime", "tflite_runtime"))


def host_profile() -> DeviceProfile:
    """Describe this machine: its processor, its memory, and the LiteRT runtime that is installed."""
    runtime, version = _runtime()
    cores = usable_cores()
    targets = tuple(
        DeviceTarget(f"cpu-x{threads}", runtime, "cpu", threads, version, PRECISIONS)
        for threads in sorted({1, min(4, cores), cores})
    )
    return DeviceProfile(
        name=HOST,
        title=f"This machine ({platform.system()} {platform.machine()})",
        kind="computer",
        soc=processor_name(),
        isa=platform.machine(),
        cores=(Cluster(processor_name(), cores),),
        memory_bytes=_memory_bytes(),
        targets=targets,
        default_target=f"cpu-x{min(4, cores)}",
        sources=("read from the operating system",),
    )


def usable_cores() -> int:
    """Return how many cores this process may run on (less than the machine's in a container)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor_name() -> str:
    """Return the processor's name as the operating system states it."""
    if _CPUINFO.is_file():
        for line in _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip().lower() in ("model name", "hardware", "model") and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "unknown processor"


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def _runtime() -> tuple[str, str]:
    for distribution, _ in _RUNTIMES:
        try:
            return distribution, metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return _RUNTIMES[0][0], ""

"""Describe this machine as a device: its processor, memory and the installed LiteRT.

``runtimes.py`` lists the device as ``host``. The estimates of a search before its first timing
call :func:`host_profile`, too. The profile is never written to a file.

Other modules read three of the texts. The title has the system in brackets, which
:func:`.on_this_machine` takes over. What follows the processor's name in brackets, such as
``Zen 4`` or ``AVX-512 VNNI``, must be a name in ``device_profiles/cores.yaml``. The names of the
targets, such as ``cpu-x4``, are in stored runs.
"""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import psutil

from advisor.devices._profiles.measurements import PRECISIONS
from advisor.devices._profiles.values import HOST, Cluster, DeviceProfile, DeviceTarget
from advisor.isolation import usable_cores

_CPUINFO = Path("/proc/cpuinfo")
_MAX_FREQUENCY = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
_RUNTIME = "ai-edge-litert"
_ZEN = {("AuthenticAMD", "25"): "Zen 4", ("AuthenticAMD", "26"): "Zen 5"}
"""Designs with AVX-512 by vendor and family. Family 25 is also Zen 3, which has no AVX-512; Zen 4
computes it at half the width of a register.
"""

_VECTORS = (
    ("avx512_vnni", "AVX-512 VNNI"),
    ("avx512f", "AVX-512"),
    ("avx_vnni", "AVX2 VNNI"),
    ("avx2", "AVX2"),
    ("sse2", "SSE"),
)


def host_profile() -> DeviceProfile:
    """Return the profile of this machine:
    its processor, its memory, and the installed LiteRT runtime.
    """
    cores = usable_cores()
    release = version(_RUNTIME)
    targets = []
    for threads in sorted({1, min(4, cores), cores}):
        name = f"cpu-x{threads}"
        targets.append(
            DeviceTarget(name, _RUNTIME, "cpu", threads, release, PRECISIONS, kernels="xnnpack")
        )
    return DeviceProfile(
        name=HOST,
        title=f"This machine ({platform.system()} {platform.machine()})",
        kind="computer",
        soc=processor_name(),
        isa=platform.machine(),
        cores=(Cluster(f"{processor_name()}{_read_vectors()}", cores, _read_max_mhz()),),
        memory_bytes=psutil.virtual_memory().total,
        targets=tuple(targets),
        default_target=f"cpu-x{min(4, cores)}",
        sources=("read from the operating system",),
    )


def processor_name() -> str:
    """Return the processor's name from the operating system."""
    stated = {key: value for key, value in _read_cpuinfo() if value}
    # x86 also has a "model", which is a number.
    for key in ("model name", "Hardware", "Model"):
        if key in stated:
            return stated[key]
    return platform.processor() or platform.machine() or "unknown processor"


def _read_max_mhz() -> int | None:
    """Return the highest clock in MHz, None if the system does not tell:
    a virtual machine states the base clock.
    """
    if _MAX_FREQUENCY.is_file():
        return int(_MAX_FREQUENCY.read_text()) // 1000 or None
    # Reversed, so that the first processor's line wins.
    if "hypervisor" in dict(_read_cpuinfo()[::-1]).get("flags", "").split():
        return None
    clocks = []
    for key, value in _read_cpuinfo():
        if key == "cpu MHz" and value:
            clocks.append(float(value))
    return round(max(clocks)) if clocks else None


def _read_vectors() -> str:
    """Return the vector extension of an x86 processor as a suffix; empty if it is not known."""
    stated = dict(_read_cpuinfo()[::-1])
    flags = set(stated.get("flags", "").split())
    design = _ZEN.get((stated.get("vendor_id", ""), stated.get("cpu family", "")))
    # The name of the design says more than the flags: Zen 4 computes AVX-512 at half the width.
    if "avx512f" in flags and design:
        return f" ({design})"
    for flag, name in _VECTORS:
        if flag in flags:
            return f" ({name})"
    return ""


def _read_cpuinfo() -> list[tuple[str, str]]:
    if not _CPUINFO.is_file():
        return []
    lines = _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    entries = (line.partition(":") for line in lines)
    return [(key.strip(), value.strip()) for key, _, value in entries]

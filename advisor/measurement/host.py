"""Describe this machine, with a fingerprint that changes only if its speed may change."""

import hashlib
import json
import platform
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from advisor.core.codec import Written
from advisor.isolation.resources import usable_cores

# Instruction sets that decide which kernels XNNPACK and the builtin kernels use.
_FEATURES = (
    *("sse4_1", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx_vnni"),
    *("avx512_bf16", "avx512_fp16", "amx_int8", "amx_tile"),
    *("neon", "asimd", "asimdhp", "asimddp", "fphp", "i8mm", "bf16", "sve", "sve2", "sme"),
)


@dataclass(frozen=True)
class Host(Written):
    """The machine that measures.

    Attributes:
        cpu: processor model.
        architecture: ``x86_64``, ``aarch64``, ...
        cores: number of processors that this process may use.
        memory_bytes: installed memory.
        system: operating system.
        features: instruction sets that the kernels use.
        virtual: whether it is a virtual machine, None if unknown.
        governor: frequency governor of the first processor, empty if there is none (often in virtual machines).
    """

    entries = ("*", "fingerprint")

    cpu: str
    architecture: str
    cores: int
    memory_bytes: int
    system: str
    features: tuple[str, ...]
    virtual: bool | None
    governor: str

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits, from all that the speed depends on: processor, features, cores and memory (in GiB)."""
        memory_gib = round(self.memory_bytes / 2**30)
        parts = [self.cpu, self.architecture, self.cores, self.features, memory_gib]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        memory_gib = self.memory_bytes / 2**30
        return f"{self.cpu}, {self.cores} cores, {memory_gib:.0f} GiB, {self.system}"


@lru_cache(maxsize=1)
def describe() -> Host:
    """Return the description of this machine; it is read once per process."""
    import psutil

    fields = _cpuinfo()
    flags = set((fields.get("flags") or fields.get("Features") or "").split())
    return Host(
        cpu=fields.get("model name") or fields.get("Hardware") or platform.processor() or platform.machine(),
        architecture=platform.machine(),
        cores=usable_cores(),
        memory_bytes=int(psutil.virtual_memory().total),
        system=_system(),
        features=tuple(name for name in _FEATURES if name in flags),
        virtual="hypervisor" in flags if flags else None,
        governor=read_text(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
    )


def _cpuinfo() -> dict[str, str]:
    """Return the rows of the first processor in /proc/cpuinfo."""
    fields: dict[str, str] = {}
    for line in read_text(Path("/proc/cpuinfo")).splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    return fields


def _system() -> str:
    """Return the operating system and its version, such as ``Debian GNU/Linux 12 (bookworm)``."""
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}"


def read_text(path: Path) -> str:
    """Return the text of a file, empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""

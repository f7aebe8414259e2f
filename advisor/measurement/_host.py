"""Describe this machine, with a fingerprint that changes only if its speed may change,
and observe how busy it is.

Timings and runs carry the :class:`Host`. Its fingerprint is a part of the keys of timings in the
cache: with another one, files are timed again. ``advisor benchmark`` waits for a quiet machine.
"""

import contextlib
import hashlib
import json
import os
import platform
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from advisor.core import UsageError, Written, plural, show_bytes
from advisor.isolation import (
    GPU_DRIVER,
    CallLimits,
    ChildPool,
    ChildProcess,
    Scratch,
    agent,
    free_bytes,
    read_quota_cores,
    usable_cores,
)

# Instruction sets that decide which kernels XNNPACK and the builtin kernels use.
_X86_FEATURES = (
    "sse4_1",
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512_vnni",
    "avx_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_int8",
    "amx_tile",
)
_ARM_FEATURES = (
    "neon",
    "asimd",
    "asimdhp",
    "asimddp",
    "fphp",
    "i8mm",
    "bf16",
    "sve",
    "sve2",
    "sme",
)

OBSERVED_S = 0.5
PATIENCE_S = 5.0
# Processors that others may take from the threads: the usual load of a desktop.
TOLERATED = 0.5
# With these drivers, `powersave` still raises the frequency during work (kernel pages of
# intel_pstate and amd-pstate).
SCALING_POWERSAVE = frozenset({"intel_pstate", "amd-pstate-epp", "amd_pstate_epp"})

# The process ends shortly after its parent.
_BURN = (
    "import os, sys\nparent = int(sys.argv[1])\nwhile os.getppid() == parent:\n   "
    " sum(range(100_000))\n"
)


@dataclass(frozen=True)
class Host(Written):
    """The machine that measures."""

    entries = ("*", "fingerprint")

    cpu: str  #: processor model
    architecture: str  #: ``x86_64``, ``aarch64``, ...
    cores: int  #: number of processors that this process may use
    memory_bytes: int  #: installed memory
    system: str  #: operating system
    features: tuple[str, ...]  #: instruction sets that the kernels use
    virtual: bool | None  #: whether it is a virtual machine, None if unknown
    #: frequency governor of the first processor,
    #: empty if there is none (often in virtual machines).
    governor: str

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits, from all that the speed depends on:
        processor, features, cores and memory (in GiB).
        """
        # In GiB, because a kernel update changes the exact number, and not the speed.
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

    fields: dict[str, str] = {}  # of the first processor
    for line in read_text(Path("/proc/cpuinfo")).splitlines():
        name, _, value = line.partition(":")
        # The file repeats its lines for each processor.
        fields.setdefault(name.strip(), value.strip())
    flags = set((fields.get("flags") or fields.get("Features") or "").split())
    stated_cpu = fields.get("model name") or fields.get("Hardware")
    return Host(
        cpu=stated_cpu or platform.processor() or platform.machine(),
        architecture=platform.machine(),
        cores=usable_cores(),
        memory_bytes=int(psutil.virtual_memory().total),
        system=_read_system(),
        features=tuple(name for name in (*_X86_FEATURES, *_ARM_FEATURES) if name in flags),
        virtual="hypervisor" in flags if flags else None,
        governor=read_text(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
    )


def trains_on(driver: Path = GPU_DRIVER) -> str:
    """Return what a training on this machine uses, for the record of a run:
    the GPUs by name, or why it is the CPU.

    TensorFlow is not imported: that takes seconds.
    """
    names = []
    for card_folder in sorted(driver.iterdir()) if driver.is_dir() else ():
        for line in read_text(card_folder / "information").splitlines():
            key, _, value = line.partition(":")
            if key == "Model":
                names.append(value.strip())
    if not names:
        return "CPU: no GPU is visible"
    shown = ", ".join(names)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    names_gpu = visible[:1].isdigit() or visible.startswith(("GPU-", "MIG-"))
    # An empty text or -1 hides all GPUs from CUDA.
    if not names_gpu:
        return f"CPU: CUDA_VISIBLE_DEVICES hides {shown}"
    with contextlib.suppress(PackageNotFoundError):
        version("tensorflow-cpu")
        return f"CPU: tensorflow-cpu does not use {shown}"
    return f"GPU: {shown}"


def _read_system() -> str:
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


def describe_memory() -> str:
    """Return in words how much memory is free, and how many addresses ``ulimit -v`` allows."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    allowed = ""
    if limit != resource.RLIM_INFINITY:
        allowed = f", and ulimit -v allows {show_bytes(limit)} of addresses"
    return f"{show_bytes(free_bytes())} are free{allowed}"


def require_memory(what: str, needed_bytes: int, address_bytes: int) -> None:
    """Raise UsageError if memory for work, or the addresses that libraries reserve for it,
    are not there.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    has_addresses = limit == resource.RLIM_INFINITY or limit >= address_bytes
    if free_bytes() >= needed_bytes and has_addresses:
        return
    needs = f"{show_bytes(needed_bytes)} of memory and {show_bytes(address_bytes)} of addresses"
    raise UsageError(
        f"{what} needs {needs}: {describe_memory()}", "end other programs, or raise the limit"
    )


def try_runtime() -> bool:
    """Load the runtime in a child process, and return whether the child has a network.

    Raises StageError: no child process can be started, or it cannot load the runtime.
    """
    with Scratch() as folder, ChildPool(folder / "log.txt") as pool:
        # A cheap call, for which the child has to load the runtime's native library.
        pool.call("ai_edge_litert.interpreter:OpResolverType", 0, limits=CallLimits(seconds=60))
        return bool(pool.call("advisor.isolation._child:has_network"))


@dataclass(frozen=True)
class Conditions:
    """The state of the machine before a measurement."""

    cores: int  #: number of processors that this process may use
    others_cores: float | None  #: how many of them other processes kept busy, None if unknown
    governor: str = ""  #: frequency governor of the first processor, empty if there is none
    driver: str = ""  #: its frequency driver
    quota_cores: float | None = None  #: processors that CPU quotas allow, None if there is none

    def objections(self, threads: int) -> tuple[str, ...]:
        """Return the reasons why a timing with this many threads would be meaningless."""
        reasons = []
        tolerated = max(0, self.cores - threads) + TOLERATED
        if self.others_cores is not None and self.others_cores > tolerated:
            busy = f"{self.others_cores:.1f} of {self.cores} processors busy"
            reasons.append(
                f"other processes keep {busy}, and the timing needs {plural(threads, 'thread')}"
            )
        if self.governor == "powersave" and self.driver not in SCALING_POWERSAVE:
            reasons.append(
                f"the frequency governor '{self.governor}' holds the processors at their lowest"
                " frequency"
            )
        if self.quota_cores is not None and self.quota_cores < threads:
            reasons.append(
                f"a CPU quota allows {self.quota_cores:g} processors, fewer than the {threads}"
                " asked for"
            )
        return tuple(reasons)


def observe_load(seconds: float = OBSERVED_S) -> Conditions:
    """Observe the machine for ``seconds`` and return its conditions."""
    load = agent.Load()
    time.sleep(seconds)
    reading = load.result()
    frequency = Path("/sys/devices/system/cpu/cpu0/cpufreq")
    return Conditions(
        cores=reading["cores"],
        others_cores=reading["others_cores"],
        governor=read_text(frequency / "scaling_governor"),
        driver=read_text(frequency / "scaling_driver"),
        quota_cores=read_quota_cores(),
    )


def require_quiet(
    threads: Sequence[int], force: bool, patience_s: float = PATIENCE_S
) -> Conditions:
    """Return the conditions as soon as the machine is quiet enough for timing;
    ``force`` does not wait for that.

    UsageError if it is not quiet enough after ``patience_s``.
    """
    end = time.monotonic() + patience_s
    while True:
        conditions = observe_load()
        objections = conditions.objections(max(threads))
        if force or not objections:
            return conditions
        if time.monotonic() >= end:
            raise UsageError(
                f"not timed: {'; '.join(objections)}",
                "stop other programs or use fewer threads; with --force, advisor measures, and the"
                " verdict says so",
            )


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep ``count`` processors busy as long as the context lasts."""
    # Without the site packages, so that the load is there at once.
    command = [sys.executable, "-I", "-S", "-c", _BURN, str(os.getpid())]
    children = [ChildProcess(command) for _ in range(count)]
    try:
        yield
    finally:
        for child in children:
            child.kill()

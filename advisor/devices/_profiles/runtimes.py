"""Runtimes of this machine besides LiteRT, as devices:
always connected, measured and never predicted.

To add a runtime, register an object with the members of :class:`LocalRuntime`,
such as a :class:`PackagedRuntime`.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, lru_cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

import psutil
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from advisor.core import UsageError, install_extra, list_registered, load_integration
from advisor.devices._profiles.measurements import PRECISIONS
from advisor.devices._profiles.values import HOST, Cluster, DeviceProfile, DeviceTarget
from advisor.isolation import usable_cores
from advisor.store import read_yaml, shipped_folder

if TYPE_CHECKING:
    from advisor.devices._connections.protocol import Connection


LITERT = f"{HOST}:litert"  # Another name of ``host``: this machine's LiteRT
RUNTIMES = "advisor.runtimes"  # Entry points of :class:`LocalRuntime`

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

CORES_FILE = "cores.yaml"

_DOT = 4.0
_I8MM = 8.0
_NARROW = 2.0
"""8-bit multiply-accumulates per float32 lane:
dot product, matrix multiplication, and widening multiplication.
"""

_DESIGN = re.compile(r"\(([^()]+)\)\s*$")
_MOST_NEAREST = 3
_BY_ARM = "41:"  # The implementer Arm in :attr:`Core.parts`


class LocalRuntime(Protocol):
    """A runtime of this machine that a search can name as a device."""

    @property
    def name(self) -> str:
        """The name of the device, such as ``host:onnxruntime``."""

    @property
    def title(self) -> str:
        """The name of the runtime for people, such as ``ONNX Runtime``."""

    def profile(self) -> DeviceProfile:
        """Return the device with its targets; a runtime that is not installed has no version."""

    def versions(self, target: DeviceTarget) -> Mapping[str, str]:
        """Return the versions of all that latencies on a target depend on;
        empty texts for what is not installed.
        """

    def missing(self) -> tuple[str, str]:
        """Return why the runtime cannot run here and how to get it; two empty texts if it can."""

    def connect(self, target: DeviceTarget) -> Connection:
        """Return what measures files with this runtime."""


@dataclass(frozen=True)
class PackagedRuntime:
    """A runtime of this machine's CPU that packages of Python bring,
    and that runs files or their exports.
    """

    runtime: str  #: its name; the device is called ``host:`` and this
    title: str  #: its name for people
    packages: tuple[str, ...]  #: what makes the exports and runs them
    extra: str  #: the extra that installs these
    precisions: tuple[str, ...]  #: what it computes in
    forms: tuple[str, ...]  #: forms of files whose exports compute the same
    connection: Connection  #: measures files
    #: the package whose version it has; empty if this is called like the runtime
    package: str = ""

    @property
    def name(self) -> str:
        """The name of the device."""
        return f"{HOST}:{self.runtime}"

    def profile(self) -> DeviceProfile:
        """See :class:`LocalRuntime`."""
        host = host_profile()
        in_runtime = partial(
            replace,
            runtime=self.runtime,
            version=find_version(self.package or self.runtime),
            precisions=self.precisions,
            forms=self.forms,
            # Those of the host's targets are LiteRT's own.
            kernels="",
        )
        targets = tuple(map(in_runtime, host.targets))
        return replace(
            host, name=self.name, title=on_this_machine(self.title, host), targets=targets
        )

    def versions(self, target: DeviceTarget | None = None) -> Mapping[str, str]:
        """See :class:`LocalRuntime`; they are those of an exporter, too."""
        del target
        return {package: find_version(package) for package in self.packages}

    def missing(self) -> tuple[str, str]:
        """See :class:`LocalRuntime`."""
        lacking = [package for package, version in self.versions().items() if not version]
        return (f"needs {', '.join(lacking)}", install_extra(self.extra)) if lacking else ("", "")

    def connect(self, target: DeviceTarget) -> Connection:
        """See :class:`LocalRuntime`."""
        del target
        return self.connection


@cache
def local_runtimes() -> Mapping[str, LocalRuntime]:
    """Return the runtimes by the names of their devices."""
    runtimes: list[LocalRuntime] = [
        load_integration(RUNTIMES, name) for name in list_registered(RUNTIMES)
    ]
    return {runtime.name: runtime for runtime in runtimes}


def on_this_machine(runtime: str, host: DeviceProfile) -> str:
    """Return the title of a runtime with this machine's processor,
    which the title of its profile names in brackets.
    """
    return f"{runtime} on this machine ({host.title.partition('(')[2]}"


def find_version(package: str) -> str:
    """Return the version of a package, or of its build for CPUs alone;
    empty if it is not installed.
    """
    for name in (package, f"{package}-cpu"):
        with suppress(PackageNotFoundError):
            return version(name)
    return ""


def canonical(device: str) -> str:
    """Return the name of a device; ``host:litert`` is ``host``."""
    return HOST if device == LITERT else device


def runtime_of(selector: str) -> LocalRuntime | None:
    """Return the runtime of a device of this machine by ``device`` or ``device:target``;
    None for another device.
    """
    return local_runtimes().get(selector) or local_runtimes().get(selector.rpartition(":")[0])


def title_of(selector: str) -> str:
    """Return the name of a runtime of this machine for people, with a named target;
    empty for another device.
    """
    if canonical(selector) == HOST:
        return "LiteRT"
    runtime = runtime_of(selector)
    if runtime is None:
        return ""
    return (
        runtime.title
        if selector == runtime.name
        else f"{runtime.title} {selector.rpartition(':')[2]}"
    )


def require_runtime(profile: DeviceProfile) -> LocalRuntime | None:
    """Return the runtime of a device of this machine, or None;
    refuse one that cannot run here (UsageError).
    """
    runtime = local_runtimes().get(profile.name)
    if runtime is not None:
        problem, hint = runtime.missing()
        if problem:
            raise UsageError(f"{runtime.name} {problem}", hint)
    return runtime


def profiles_here() -> dict[str, DeviceProfile]:
    """Return the profiles of this machine and of its runtimes by name."""
    return {
        HOST: host_profile(),
        **{name: runtime.profile() for name, runtime in local_runtimes().items()},
    }


def host_profile() -> DeviceProfile:
    """Return the profile of this machine:
    its processor, its memory, and the installed LiteRT runtime.
    """
    cores = usable_cores()
    targets = tuple(
        DeviceTarget(
            f"cpu-x{threads}",
            _RUNTIME,
            "cpu",
            threads,
            version(_RUNTIME),
            PRECISIONS,
            kernels="xnnpack",
        )
        for threads in sorted({1, min(4, cores), cores})
    )
    return DeviceProfile(
        name=HOST,
        title=f"This machine ({platform.system()} {platform.machine()})",
        kind="computer",
        soc=processor_name(),
        isa=platform.machine(),
        cores=(Cluster(f"{processor_name()}{_read_vectors()}", cores, _read_max_mhz()),),
        memory_bytes=psutil.virtual_memory().total,
        targets=targets,
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


Figure = Literal["macs", "fp16", "dot", "i8mm", "in_order", "int8"]


@dataclass(frozen=True)
class Core:
    """A core and its arithmetic per cycle."""

    name: str  # its name, such as ``Cortex-A76``
    macs: float  # float32 multiply-accumulates per cycle
    mhz: float  # usual highest clock, used where a profile states none
    fp16: bool = False  # computes in 16-bit float
    dot: bool = False  # has an 8-bit dot product
    i8mm: bool = False  # has an 8-bit matrix multiplication
    in_order: bool = False  # issues instructions in program order
    int8: float | None = None  # 8-bit multiply-accumulates per cycle if the flags do not give them
    source: str = ""  # where the figures are from
    assumed: tuple[str, ...] = ()  # names of the figures that no source confirms
    # Implementer and part number in ``/proc/cpuinfo``, such as ``41:d0b``.
    parts: tuple[str, ...] = ()

    def macs_per_cycle(self, arithmetic: str) -> float:
        """Return the multiply-accumulates per cycle in ``float32``,
        ``float16`` or ``int8`` (the fastest it has).
        """
        if arithmetic == "int8":
            if self.int8 is not None:
                return self.int8
            if self.i8mm:
                return self.macs * _I8MM
            return self.macs * (_DOT if self.dot else _NARROW)
        return self.macs * (2 if arithmetic == "float16" and self.fp16 else 1)


class CoreSchema(BaseModel):
    """One entry of ``cores.yaml``."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    macs: float = Field(gt=0, le=1024)
    mhz: float = Field(ge=1, le=10_000)
    fp16: bool = False
    dot: bool = False
    i8mm: bool = False
    in_order: bool = False
    int8: float | None = Field(default=None, gt=0, le=8192)
    names: tuple[str, ...] = Field(default=(), strict=False)
    source: str = Field(min_length=1)
    assumed: tuple[Figure, ...] = Field(default=(), strict=False)
    parts: tuple[Annotated[str, Field(pattern=r"^[0-9a-f]{2}:[0-9a-f]{3}$")], ...] = Field(
        default=(), strict=False
    )


@lru_cache(maxsize=4)
def read_cores(path: Path | None = None) -> dict[str, Core]:
    """Return the known cores by their names without case, spaces and hyphens;
    a core has one or more names.

    ``path`` is the file to read, by default the shipped one.
    UsageError if it is not valid, or two cores share a name.
    """
    document = read_yaml(path or shipped_folder("device_profiles") / CORES_FILE)
    if not isinstance(document.values, Mapping):
        raise UsageError(
            f"'{document.path}' has no cores", "give a mapping of names to the figures of a core"
        )
    cores: dict[str, Core] = {}
    for name, values in document.values.items():
        try:
            data = CoreSchema.model_validate(values)
        except ValidationError as error:
            raise UsageError(
                f"{document.at((name,))}: {error.errors()[0]['msg']} ({name})",
                f"keys of a core: {', '.join(CoreSchema.model_fields)}",
            ) from error
        core = Core(name, **data.model_dump(exclude={"names"}))
        for core_name in (name, *data.names):
            if _key(core_name) in cores:
                raise UsageError(
                    f"{document.at((name,))}: the core '{core_name}' is listed twice",
                    "remove one of them",
                )
            cores[_key(core_name)] = core
    return cores


def find_core(name: str) -> Core | None:
    """Return the core of a name, None if it is unknown:
    ``Cortex-A72``, ``cortex a72``, or ``Kryo 485 (A76)``.

    Brackets contain the design behind a vendor's name, where ``A76`` is short for ``Cortex-A76``.
    """
    known = read_cores()
    wanted = _design(name)
    return known.get(_key(wanted)) or known.get(_key(f"Cortex-{wanted}"))


def arm_cores() -> dict[str, Core]:
    """Return Arm's own cores by their part numbers in ``/proc/cpuinfo``, such as ``0xd0b``."""
    return {
        f"0x{part[3:]}": core
        for part, core in _cores_by_part().items()
        if part.startswith(_BY_ARM)
    }


def find_core_of_part(implementer: str, part: str) -> Core | None:
    """Return the core with an implementer and a part number as ``/proc/cpuinfo`` has them;
    None if it is unknown.
    """
    return _cores_by_part().get(f"{implementer.removeprefix('0x')}:{part.removeprefix('0x')}")


@cache
def _cores_by_part() -> Mapping[str, Core]:
    cores = {}
    for core in read_cores().values():
        for part in core.parts:
            cores[part] = core
    return cores


def core_named(name: str) -> Core:
    """Return the core of a name, as :func:`find_core`;
    the UsageError for an unknown one names the nearest ones.
    """
    core = find_core(name)
    if core:
        return core
    known = read_cores()
    matches = get_close_matches(_key(_design(name)), known, n=2 * _MOST_NEAREST, cutoff=0.5)
    near = list(dict.fromkeys(known[match].name for match in matches))[:_MOST_NEAREST]
    raise UsageError(
        f"unknown core '{name}'" + (f" (nearest: {', '.join(near)})" if near else ""),
        "write a known core, or the known design in brackets: 'Maker X1 (Cortex-A76)'; or leave"
        " the cores out",
    )


def core_remarks(names: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence for each core that is unknown,
    or some of whose figures no source confirms.
    """
    remarks = []
    for name in dict.fromkeys(names):
        core = find_core(name)
        if core is None:
            remarks.append(
                f"Core '{name}' is not known, so a prediction takes the mean of its kind"
            )
        elif core.assumed:
            remarks.append(
                f"{core.name}: {', '.join(core.assumed)} not looked up: an assumption from the"
                " family"
            )
    return tuple(remarks)


def _design(name: str) -> str:
    design = _DESIGN.search(name)
    return design[1] if design else name


def _key(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name.casefold())

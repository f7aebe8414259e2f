"""Describe a device: its hardware, its targets and the forms that they run, its limits and its known latencies."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from advisor.core.errors import UsageError, nearest
from advisor.core.evaluation import Target
from advisor.devices.profiles.measurements import Kernel, Measurement

if TYPE_CHECKING:
    from advisor.devices.connections.protocol import Connection


HOST = "host"
KINDS = ("phone", "board", "module", "accelerator", "microcontroller", "computer")
NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"
"""Pattern for the names of devices, targets and runtimes; such names are safe in file names and on a command line."""

MICRO_RUNTIME = "tflite-micro"  # TensorFlow Lite Micro, whose interpreter also runs on this machine
WEB_RUNTIME = "litert-web"  # LiteRT in WebAssembly, for browsers: the npm package ``@litertjs/core``

TFLITE_RUNTIMES = frozenset({"tflite", MICRO_RUNTIME, WEB_RUNTIME, "tflite-runtime", "ai-edge-litert"})
"""Runtimes that run a ``.tflite`` file without converting it."""

MEASURABLE_RUNTIMES = TFLITE_RUNTIMES - {MICRO_RUNTIME}
"""Runtimes that the agent and ``benchmark_model`` measure over a connection."""


def runtime_remark(device: str, runtime: str) -> str:
    """Return a remark if latencies are those of a runtime that does not run ``.tflite`` files, empty if it does.

    Args:
        device: name of the device, or of its target.
        runtime: the runtime, with or without a version: ``ncnn`` or ``tflite==2.17.0``.
    """
    name = runtime.partition("==")[0]
    if name in TFLITE_RUNTIMES:
        return ""
    return f"{device}: the latencies are those of {name}, which does not run .tflite files; take them as a guide"


_PRECISIONS_FOR: Mapping[str, tuple[str, ...]] = {
    "float16": ("float16", "float32"),
    "int8": ("int8",),
    "int16x8": ("int16x8",),
}
"""Precisions by form: a target needs at least one of them. Every other form needs ``float32``."""


@dataclass(frozen=True)
class Cluster:
    """A group of equal cores of a processor."""

    core: str  # name of the core, such as ``Cortex-A76``
    count: int  # number of such cores
    max_mhz: int | None = None  # highest clock in MHz, None if it is not known


@dataclass(frozen=True)
class DeviceLimits:
    """Hard limits of a device; None means no limit."""

    arena_bytes: int | None = None  # memory for activations (the RAM of a microcontroller)
    flash_bytes: int | None = None  # storage for the model
    package_bytes: int | None = None  # size of the application that an app store or a team allows

    @property
    def file_bytes(self) -> int | None:
        """The largest file: the smaller one of flash and package; None without either."""
        return min((each for each in (self.flash_bytes, self.package_bytes) if each is not None), default=None)


@dataclass(frozen=True)
class DeviceTarget:
    """One way to run a model on the device.

    Attributes:
        name: unique within the profile, such as ``tflite-cpu-x4``.
        runtime: name of the runtime: ``tflite``, ``qnn``, ``ncnn``, ...
        version: its version, empty if the source does not state it.
        accelerator: ``cpu``, ``gpu``, ``npu``, ``tpu``.
        threads: CPU threads; 1 for an accelerator.
        precisions: forms of artefact that it runs (:data:`advisor.devices.profiles.measurements.PRECISIONS`).
        operators: names of the operators that it supports; empty if it supports all or the list is not known.
        forms: the only forms of files that it runs; empty if its precisions decide.
    """

    name: str
    runtime: str
    accelerator: str
    threads: int = 1
    version: str = ""
    precisions: tuple[str, ...] = ("float32",)
    operators: tuple[str, ...] = ()
    forms: tuple[str, ...] = field(default=(), repr=False)

    def of(self, device: str) -> Target:
        """Return the target that evaluations on ``device`` carry."""
        runtime = f"{self.runtime}=={self.version}" if self.version else self.runtime
        return Target(device, runtime, self.accelerator, self.threads)

    def incompatibility(self, form: str) -> str:
        """Return why the target does not run files of a form, such as ``takes int8, not float32``; empty if it does.

        Searches, benchmarks and calibrations use this rule.
        """
        if self.forms and form not in self.forms:
            return f"takes {', '.join(self.forms)}, not {form}"
        # NPUs and TPUs compute in one arithmetic. The mixed arithmetic of dynamic_int8 runs on the CPU instead.
        if form == "dynamic_int8" and self.accelerator in ("npu", "tpu"):
            return "does not compute floats with 8-bit weights"
        if set(_PRECISIONS_FOR.get(form, ("float32",))) & set(self.precisions):
            return ""
        return f"takes {', '.join(self.precisions)}, not {form}"


@dataclass(frozen=True)
class DeviceProfile:
    """One device.

    Attributes:
        name: short name used in commands, such as ``raspberry-pi-4``.
        title: its name as people read it.
        kind: one of :data:`KINDS`.
        soc: system on chip.
        isa: instruction set of its CPU, such as ``armv8.2-a``.
        cores: clusters of cores, fastest first; empty if not known.
        npu: name of its neural accelerator, or empty.
        memory_bytes: RAM, None if not known.
        storage_bytes: storage, None if not known.
        targets: the ways to run a model on it.
        default_target: the target that the device's name alone means.
        limits: hard limits.
        sources: origin of the facts.
        measurements: known latencies.
        kernels: operators that were timed alone on it.
        connection: the connection to it, None if the profile names none. Predictions do not depend on it.
        origin: the file that it was read from, None for this machine.
    """

    name: str
    title: str
    kind: str
    soc: str
    targets: tuple[DeviceTarget, ...]
    default_target: str
    isa: str = ""
    cores: tuple[Cluster, ...] = ()
    npu: str = ""
    memory_bytes: int | None = None
    storage_bytes: int | None = None
    limits: DeviceLimits = field(default_factory=DeviceLimits)
    sources: tuple[str, ...] = ()
    measurements: tuple[Measurement, ...] = field(default=(), repr=False)
    kernels: tuple[Kernel, ...] = field(default=(), repr=False)
    connection: ConnectionSettings | None = field(default=None, repr=False, compare=False)
    origin: Path | None = field(default=None, compare=False)

    def target(self, name: str = "") -> DeviceTarget:
        """Return the target called ``name``, or the default one if ``name`` is empty.

        Raises:
            UsageError: the device has no such target. The error names the nearest one.
        """
        wanted = name or self.default_target
        for target in self.targets:
            if target.name == wanted:
                return target
        names = [target.name for target in self.targets]
        raise UsageError(
            f"{self.name} has no target '{wanted}'{nearest(wanted, names)}", f"targets: {', '.join(names)}"
        )

    def fingerprint(self) -> str:
        """Return the SHA-256 of everything in the profile, including its measurements and kernels."""
        parts = (self, self.measurements, self.kernels) if self.kernels else (self, self.measurements)
        return hashlib.sha256(repr(parts).encode()).hexdigest()


_MOST_MACS, _FEWEST_MACS = 128.0, 0.02
"""Multiply-accumulates a core and cycle: AVX-512 VNNI computes 128 of int8; the slowest shipped CPU reaches 0.1."""

_BEYOND = 20.0
"""A latency this many times below or above every shipped one of the model on such a unit has a wrong unit."""

Bounds = Mapping[tuple[str, str], tuple[float, float]]


def bounds_of(profiles: Iterable[DeviceProfile]) -> Bounds:
    """Return the shortest and longest usable latency (ms) by kind of unit and model."""
    found: dict[tuple[str, str], tuple[float, float]] = {}
    for profile in profiles:
        units = {target.name: _unit(profile, target) for target in profile.targets}
        for row in profile.measurements:
            if row.usable:
                key = units[row.target], row.model
                low, high = found.get(key, (row.latency_ms, row.latency_ms))
                found[key] = min(low, row.latency_ms), max(high, row.latency_ms)
    return found


def implausible(
    profile: DeviceProfile, shipped: Sequence[DeviceProfile], bounds: Bounds, macs: Mapping[str, float]
) -> Iterator[UsageError]:
    """Yield one error for each contradiction: cores against the SoC, and latencies of a target in a wrong unit.

    Args:
        profile: the profile.
        shipped: the shipped profiles.
        bounds: their latencies (:func:`bounds_of`).
        macs: multiply-accumulates by model, as far as they are known.
    """
    yield from _contradicting_cores(profile, shipped)
    for target in profile.targets:
        yield from _wrong_unit(profile, target, bounds, macs)


def _contradicting_cores(profile: DeviceProfile, shipped: Sequence[DeviceProfile]) -> Iterator[UsageError]:
    same = [other for other in shipped if _plain(other.soc) == _plain(profile.soc) and other.cores]
    for cluster in profile.cores:
        if same and not any(_holds(other.cores, cluster, profile.cores) for other in same):
            cores = ", ".join(f"{each.count} x {each.core}" for each in same[0].cores)
            yield UsageError(
                f"{profile.origin or profile.name}: the cores {cluster.count} x {cluster.core} contradict the SoC "
                f"{profile.soc}, which has {cores}",
                f"correct soc or cores; {same[0].name} has this SoC",
            )


def _holds(cores: Sequence[Cluster], cluster: Cluster, stated: Sequence[Cluster]) -> bool:
    """Return whether a SoC has at least as many cores of a cluster's name as the profile states."""
    wanted = sum(each.count for each in stated if _names(each) & _names(cluster))
    return sum(each.count for each in cores if _names(each) & _names(cluster)) >= wanted


def _names(cluster: Cluster) -> set[str]:
    """Return the names of a core: brackets contain the design behind a vendor's name, such as ``Kryo 485 (A76)``."""
    design = re.search(r"\((?:Cortex-)?([\w-]+)\)$", cluster.core)
    bare = _plain(re.sub(r"\(.*\)", "", cluster.core))
    return {bare, "cortex" + _plain(design[1])} if design else {bare}


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", text.casefold())


def _wrong_unit(
    profile: DeviceProfile, target: DeviceTarget, bounds: Bounds, macs: Mapping[str, float]
) -> Iterator[UsageError]:
    rows = [row for row in profile.measurements if row.usable and row.target == target.name]
    unit = _unit(profile, target)
    factors = []
    for row in rows:
        shortest, longest = _possible_ms(profile, target, macs.get(row.model))
        low, high = bounds.get((unit, row.model), (0.0, float("inf")))
        shortest, longest = max(shortest, low / _BEYOND), min(longest, high * _BEYOND)
        factors.append(min(row.latency_ms / shortest, 1.0) if shortest else 1.0)
        factors[-1] *= max(row.latency_ms / longest, 1.0)
    if factors and median(factors) != 1.0:
        short = median(factors) < 1
        path = profile.origin.with_suffix(".csv") if profile.origin else profile.name
        yield UsageError(
            f"{path}: the latencies on {target.name} are too {'short' if short else 'long'} for this processor; "
            f"the column latency_ms is in milliseconds and looks like {'seconds' if short else 'microseconds'}",
            "correct the unit, or flag the rows",
        )


def _unit(profile: DeviceProfile, target: DeviceTarget) -> str:
    return "mcu" if profile.kind == "microcontroller" else target.accelerator


def _possible_ms(profile: DeviceProfile, target: DeviceTarget, macs: float | None) -> tuple[float, float]:
    """Return the shortest and longest latency (ms) that a CPU can need, without limits if it is not known."""
    clocks = [c.max_mhz for c in profile.cores for _ in range(c.count) if c.max_mhz]
    if target.accelerator != "cpu" or profile.kind == "microcontroller" or not clocks or not macs:
        return 0.0, float("inf")
    cycles_per_ms = sum(sorted(clocks, reverse=True)[: target.threads]) * 1e3
    return macs / (cycles_per_ms * _MOST_MACS), macs / (cycles_per_ms * _FEWEST_MACS)


DELEGATES: Mapping[str, tuple[str, ...]] = {"cpu": (), "gpu": ("--use_gpu=true",), "npu": ("--use_nnapi=true",)}
"""Options of ``benchmark_model`` that put a model on an accelerator (its own help text)."""


@dataclass(frozen=True)
class ConnectionSettings:
    """The connection to a device: over ssh, over adb, or this machine itself."""

    ssh: str = ""  # host, ``user@host`` or a name of the user's ssh configuration
    adb: str = ""  # serial of an attached phone
    here: bool = False  # the device is this machine
    port: int | None = None  # port for ssh, None for that of the ssh configuration
    python: str = "python3"  # Python interpreter on the device, for ssh
    benchmark_model: Path | None = None  # the binary for the phone, for adb
    cores: str = ""  # hexadecimal mask of the cores to pin it to, for adb

    @classmethod
    def from_options(
        cls,
        ssh: str = "",
        adb: str = "",
        here: bool = False,
        python: str = "python3",
        benchmark_model: str | Path | None = None,
        cores: str = "",
    ) -> ConnectionSettings | None:
        """Return the settings that these options describe, or None if they name no connection.

        Raises:
            UsageError: there are options for adb but no serial.
        """
        if ssh or adb or here:
            binary = Path(benchmark_model) if benchmark_model else None
            return cls(ssh, adb, here, None, python, binary, cores)
        if benchmark_model or cores:
            raise UsageError("--benchmark-model and --cores need --adb", "name the phone by its serial: --adb SERIAL")
        return None

    def connect(self, accelerator: str = "cpu") -> Connection:
        """Return the connection object; it does not contact the device yet.

        Args:
            accelerator: kind of the target; the agent measures on the CPU only.

        Raises:
            UsageError: the settings name no connection or several, or one that is not valid.
        """
        if sum(map(bool, (self.ssh, self.adb, self.here))) != 1:
            raise UsageError("the connection is not clear", "give one of --ssh, --adb and --here")
        if self.adb:
            return self._adb(accelerator)
        if accelerator != "cpu":
            raise UsageError(
                f"over {'ssh' if self.ssh else 'the host'} the agent measures CPU targets only, not '{accelerator}'",
                "name a CPU target of the device, or connect to a phone over adb",
            )
        if self.ssh:
            from advisor.devices.connections.agent import SshConnection

            return SshConnection(self.ssh, self.python, self.port)
        from advisor.devices.connections.agent import HostConnection

        return HostConnection()

    def _adb(self, accelerator: str) -> Connection:
        from advisor.devices.connections.adb import AdbConnection

        if accelerator not in DELEGATES:
            raise UsageError(
                f"benchmark_model has no option for '{accelerator}'", f"it has options for: {', '.join(DELEGATES)}"
            )
        if self.benchmark_model is None or not self.benchmark_model.is_file():
            raise UsageError(
                f"--benchmark-model: '{self.benchmark_model or ''}' is not a file",
                "download TensorFlow Lite's benchmark_model for the phone's processor",
            )
        return AdbConnection(self.adb, self.benchmark_model, self.cores, DELEGATES[accelerator])

"""Describe a device: its hardware, its targets and the forms that they run, its limits and its known latencies."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core import Target, UsageError, nearest
from advisor.devices._profiles.measurement import Measurement
from advisor.devices._profiles.measurements import Kernel

if TYPE_CHECKING:
    from advisor.devices._connections.protocol import Connection


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

KERNELS = ("xnnpack", "ruy", "reference")
"""Kernels with which builds of TensorFlow Lite compute on a CPU: one network may take 1.9 times as long with others."""

_TITLES = {"xnnpack": "XNNPACK", "ruy": "ruy", "reference": "reference kernels"}

MEASURED_KERNELS = "xnnpack"  # Kernels of the builds that the agent and ``benchmark_model`` measure

_PRECISIONS_FOR: Mapping[str, tuple[str, ...]] = {
    "float16": ("float16", "float32"),
    "int8": ("int8",),
    "int16x8": ("int16x8",),
}
"""Precisions by form: a target needs at least one of them. Every other form needs ``float32``."""

WAYS = ("ssh", "adb")
"""Keys of a profile's connection that lead to the device; a connection has one of them."""

DELEGATES: Mapping[str, tuple[str, ...]] = {"cpu": (), "gpu": ("--use_gpu=true",), "npu": ("--use_nnapi=true",)}
"""Options of ``benchmark_model`` that put a model on an accelerator (its own help text)."""


def runtime_remark(device: str, runtime: str) -> str:
    """Return a remark if latencies are those of a runtime that does not run ``.tflite`` files, empty if it does.

    ``device`` is the name of the device, or of its target; ``runtime`` may have a version: ``tflite==2.17.0``.
    """
    name = runtime.partition("==")[0]
    if name in TFLITE_RUNTIMES:
        return ""
    return f"{device}: the latencies are those of {name}, which does not run .tflite files; take them as a guide"


@dataclass(frozen=True)
class Cluster:
    """A group of equal cores of a processor."""

    core: str  #: name of the core, such as ``Cortex-A76``
    count: int  #: number of such cores
    max_mhz: int | None = None  #: highest clock in MHz, None if it is not known


@dataclass(frozen=True)
class DeviceLimits:
    """Hard limits of a device; None means no limit."""

    arena_bytes: int | None = None  #: memory for activations (the RAM of a microcontroller)
    flash_bytes: int | None = None  #: storage for the model
    package_bytes: int | None = None  #: size of the application that an app store or a team allows

    @property
    def file_bytes(self) -> int | None:
        """The largest file: the smaller one of flash and package; None without either."""
        return min((limit for limit in (self.flash_bytes, self.package_bytes) if limit is not None), default=None)


@dataclass(frozen=True)
class DeviceTarget:
    """One way to run a model on the device."""

    name: str  #: unique within the profile, such as ``tflite-cpu-x4``
    runtime: str  #: name of the runtime: ``tflite``, ``qnn``, ``ncnn``, ...
    accelerator: str  #: ``cpu``, ``gpu``, ``npu``, ``tpu``
    threads: int = 1  #: CPU threads; 1 for an accelerator
    version: str = ""  #: its version, empty if the source does not state it
    #: forms of artefact that it runs (:data:`advisor.devices.PRECISIONS`)
    precisions: tuple[str, ...] = ("float32",)
    #: names of the operators that it supports; empty if it supports all or the list is not known
    operators: tuple[str, ...] = ()
    #: the only forms of files that it runs; empty if its precisions decide
    forms: tuple[str, ...] = field(default=(), repr=False)
    kernels: str = ""  #: what its build computes with on a CPU, one of :data:`KERNELS`; empty if it is not known

    def of(self, device: str) -> Target:
        """Return the target that evaluations on ``device`` carry; its kernels are a part of the version."""
        version = "+".join(filter(None, (self.version, self.kernels)))
        runtime = f"{self.runtime}=={version}" if version else self.runtime
        return Target(device, runtime, self.accelerator, self.threads)

    def incompatibility(self, form: str) -> str:
        """Return why the target does not run files of a form, such as ``takes int8, not float32``; empty if it does."""
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
    """One device."""

    name: str  #: short name used in commands, such as ``raspberry-pi-4``
    title: str  #: its name as people read it
    kind: str  #: one of :data:`KINDS`
    soc: str  #: system on chip
    targets: tuple[DeviceTarget, ...]  #: the ways to run a model on it
    default_target: str  #: the target that the device's name alone means
    isa: str = ""  #: instruction set of its CPU, such as ``armv8.2-a``
    cores: tuple[Cluster, ...] = ()  #: clusters of cores, fastest first; empty if not known
    npu: str = ""  #: name of its neural accelerator, or empty
    memory_bytes: int | None = None  #: RAM, None if not known
    storage_bytes: int | None = None  #: storage, None if not known
    limits: DeviceLimits = field(default_factory=DeviceLimits)  #: hard limits
    sources: tuple[str, ...] = ()  #: origin of the facts
    measurements: tuple[Measurement, ...] = field(default=(), repr=False)  #: known latencies
    kernels: tuple[Kernel, ...] = field(default=(), repr=False)  #: operators that were timed alone on it
    #: the SoC whose cores alone describe a phone that nobody measured; empty if a profile file describes the device
    predicted_from: str = field(default="", repr=False)
    #: the connection to it, None if the profile names none. Predictions do not depend on it
    connection: ConnectionSettings | None = field(default=None, repr=False, compare=False)
    origin: Path | None = field(default=None, repr=False, compare=False)  #: its file, None for this machine

    def target(self, name: str = "") -> DeviceTarget:
        """Return the target called ``name``, or the default one if it is empty; an error names the nearest one."""
        wanted = name or self.default_target
        targets = {target.name: target for target in self.targets}
        if wanted not in targets:
            raise UsageError(
                f"{self.name} has no target '{wanted}'{nearest(wanted, targets)}", f"targets: {', '.join(targets)}"
            )
        return targets[wanted]

    def build_remark(self, target: DeviceTarget) -> str:
        """Return which build of TensorFlow Lite the latencies of a CPU target belong to; empty if it is not known."""
        if not target.kernels or self.name == HOST:
            return ""
        narrow = "armhf" in target.version
        wide = not narrow and (not self.isa or self.isa.startswith(("armv8", "armv9", "x86-64")))
        bits = ", 64-bit" if wide else ", 32-bit"
        if not self.isa and not narrow:
            bits = ""  # The profile does not say what the processor is
        installed = ", the build in the package ai-edge-litert" if target.kernels == KERNELS[0] and wide else ""
        runtime = "LiteRT" if target.kernels == KERNELS[0] else "TensorFlow Lite"
        others = [
            f"{self.name}:{target_alike.name}"
            for target_alike in self.targets
            if (target_alike.threads, bool(target_alike.kernels), target_alike.name != target.name)
            == (target.threads, True, True)
        ]
        named = f"; others may take up to 1.9 times as long: {', '.join(others)}" if others else ""
        return f"{self.name}: {runtime} {target.version} with {_TITLES[target.kernels]}{bits}{installed}{named}"

    def fingerprint(self) -> str:
        """Return the SHA-256 of everything in the profile, including its measurements and kernels."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        parts = (self, self.measurements, self.kernels) if self.kernels else (self, self.measurements)
        return hashlib.sha256(repr(parts).encode()).hexdigest()


@dataclass(frozen=True)
class ConnectionSettings:
    """The connection to a device: over ssh, over adb, or this machine itself."""

    ssh: str = ""  #: host, ``user@host`` or a name of the user's ssh configuration
    adb: str = ""  #: serial of an attached phone
    here: bool = False  #: the device is this machine
    port: int | None = None  #: port for ssh, None for that of the ssh configuration
    python: str = "python3"  #: Python interpreter on the device, for ssh
    benchmark_model: Path | None = None  #: the binary for the phone, for adb
    cores: str = ""  #: hexadecimal mask of the cores to pin it to, for adb

    @property
    def ways(self) -> tuple[str, ...]:
        """Those of :data:`WAYS` that the settings name: one, if they are valid and not of this machine."""
        return tuple(way for way in WAYS if getattr(self, way))

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
        """Return the settings that these options describe, or None if they name no connection."""
        if ssh or adb or here:
            binary = Path(benchmark_model) if benchmark_model else None
            return cls(ssh=ssh, adb=adb, here=here, python=python, benchmark_model=binary, cores=cores)
        if benchmark_model or cores:
            raise UsageError("--benchmark-model and --cores need --adb", "name the phone by its serial: --adb SERIAL")
        return None

    def connect(self, accelerator: str = "cpu") -> Connection:
        """Return the connection to a target of this kind; it does not contact the device yet.

        UsageError if the settings name no connection or several, one that is not valid, or an accelerator for the
        agent.
        """
        if len(self.ways) + self.here != 1:
            raise UsageError("the connection is not clear", "give one of --ssh, --adb and --here")
        from advisor.devices._connections.adb import AdbConnection
        from advisor.devices._connections.agent import HostConnection, SshConnection

        if not self.adb:
            if accelerator == "cpu":
                return SshConnection(self.ssh, self.python, self.port) if self.ssh else HostConnection()
            raise UsageError(
                f"over {'ssh' if self.ssh else 'the host'} the agent measures CPU targets only, not '{accelerator}'",
                "name a CPU target of the device, or connect to a phone over adb",
            )
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

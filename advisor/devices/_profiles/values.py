"""A device as a value: its hardware, its targets and the forms that they run, its limits and its
known latencies.

Nearly every room holds these values. Their fields, with names and order, are a part of
:meth:`DeviceProfile.fingerprint`, which is a part of keys in the cache and of stored runs: a new
field that is shown in ``repr`` makes all earlier results new ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from advisor.core import FileFeatures, Target, UsageError, listed, nearest, plural
from advisor.devices._connections.settings import ConnectionSettings
from advisor.devices._profiles.measurement import Measurement
from advisor.devices._profiles.measurements import Kernel

HOST = "host"

APPLE = "Apple"
"""The first word of the systems on chip of Apple's phones."""
KINDS = ("phone", "board", "module", "accelerator", "microcontroller", "computer")
NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"
"""Pattern for the names of devices, targets and runtimes;
such names are safe in file names and on a command line.
"""

# TensorFlow Lite Micro, whose interpreter also runs on this machine.
MICRO_RUNTIME = "tflite-micro"
# The package of LiteRT for Python.
_LITERT = "ai-edge-litert"
# LiteRT in WebAssembly, for browsers: the npm package ``@litertjs/core``.
WEB_RUNTIME = "litert-web"

TFLITE_RUNTIMES = frozenset({"tflite", MICRO_RUNTIME, WEB_RUNTIME, "tflite-runtime", _LITERT})
"""Runtimes that run a ``.tflite`` file without converting it."""

MEASURABLE_RUNTIMES = TFLITE_RUNTIMES - {MICRO_RUNTIME}
"""Runtimes that the agent and ``benchmark_model`` measure over a connection."""

KERNELS = ("xnnpack", "ruy", "reference")
"""Kernels with which builds of TensorFlow Lite compute on a CPU:
one network may take 1.9 times as long with others.
"""

# What an answer says of them.
_OTHER_BUILDS = "others may take up to 1.9 times as long"

_TITLES = {"xnnpack": "XNNPACK", "ruy": "ruy", "reference": "reference kernels"}

_PROCESSORS = {"cpu": "CPU", "gpu": "GPU", "npu": "NPU", "tpu": "Edge TPU"}

# Kernels of the builds that the agent and ``benchmark_model`` measure.
MEASURED_KERNELS = "xnnpack"

_PRECISIONS_FOR: Mapping[str, tuple[str, ...]] = {
    "float16": ("float16", "float32"),
    "int8": ("int8",),
    "int16x8": ("int16x8",),
}
"""Precisions by form: a target needs at least one of them. Every other form needs ``float32``."""


def runtime_remark(device: str, runtime: str) -> str:
    """Return a remark if latencies are those of a runtime that does not run ``.tflite`` files,
    empty if it does.

    ``device`` is the name of the device, or of its target; ``runtime`` may have a version:
    ``tflite==2.17.0``.
    """
    name = runtime.partition("==")[0]
    if name in TFLITE_RUNTIMES:
        return ""
    return (
        f"{device}: the latencies are those of {name}, which does not run .tflite files; take them"
        " as a guide"
    )


def _describe_accelerator(target: DeviceTarget) -> str:
    """Return the accelerator and the runtime of a target,
    and what happens to operators that it does not take.
    """
    release = f" {target.version}" if target.version else ""
    return (
        f"latencies are those of its {_PROCESSORS[target.accelerator]}, {target.runtime}{release};"
        " operators that it does not take run on the CPU and may take longer"
    )


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
        limits = [limit for limit in (self.flash_bytes, self.package_bytes) if limit is not None]
        return min(limits, default=None)


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
    #: what its build computes with on a CPU, one of :data:`KERNELS`; empty if it is not known
    kernels: str = ""

    @property
    def measurable(self) -> bool:
        """True if the agent or ``benchmark_model`` measures its runtime over a connection."""
        return self.runtime in MEASURABLE_RUNTIMES

    @property
    def takes_tflite(self) -> bool:
        """True if its runtime runs ``.tflite`` files."""
        return self.runtime in TFLITE_RUNTIMES

    @property
    def is_micro(self) -> bool:
        """True for TensorFlow Lite Micro, which keeps more in its arena than activations."""
        return self.runtime == MICRO_RUNTIME

    def arena_of(self, file: FileFeatures) -> int:
        """Return the bytes of the arena that a file needs."""
        if self.is_micro:
            return file.micro_arena_bytes or file.arena_bytes
        return file.arena_bytes

    def of(self, device: str) -> Target:
        """Return the target that evaluations on ``device`` carry;
        its kernels are a part of the version.
        """
        # The kernels change latencies as a release does, so evaluations must tell them apart.
        version = "+".join(filter(None, (self.version, self.kernels)))
        runtime = f"{self.runtime}=={version}" if version else self.runtime
        return Target(device, runtime, self.accelerator, self.threads)

    def incompatibility(self, form: str) -> str:
        """Return why the target does not run files of a form, such as ``takes int8, not float32``;
        empty if it does.
        """
        if self.forms and form not in self.forms:
            return f"takes {', '.join(self.forms)}, not {form}"
        # NPUs and TPUs compute in one arithmetic.
        # The mixed arithmetic of dynamic_int8 runs on the CPU instead.
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
    #: operators that were timed alone on it
    kernels: tuple[Kernel, ...] = field(default=(), repr=False)
    #: the SoC whose cores alone describe a phone that nobody measured;
    #: empty if a profile file describes the device
    predicted_from: str = field(default="", repr=False)
    #: whether its file states no kind, so the cores or the connection tell it
    is_kind_assumed: bool = field(default=False, repr=False, compare=False)
    #: the connection to it, None if the profile names none. Predictions do not depend on it
    connection: ConnectionSettings | None = field(default=None, repr=False, compare=False)
    #: its file, None for this machine
    origin: Path | None = field(default=None, repr=False, compare=False)

    def target(self, name: str = "") -> DeviceTarget:
        """Return the target called ``name``, or the default one if it is empty;
        an error names the nearest one.

        A kind of processor, such as ``npu``, names the target of :meth:`find_on`.
        """
        wanted = name or self.default_target
        target = self._find_target(wanted)
        if target is None:
            targets = [target.name for target in self.targets]
            raise UsageError(
                f"{self.name} has no target '{wanted}'{nearest(wanted, targets)}",
                f"targets: {', '.join(targets)}",
            )
        return target

    def has_target(self, name: str) -> bool:
        """Return whether :meth:`target` knows a name."""
        return self._find_target(name) is not None

    def _find_target(self, name: str) -> DeviceTarget | None:
        named = {target.name: target for target in self.targets}
        return named.get(name) or self.find_on(name)

    def find_on(self, accelerator: str) -> DeviceTarget | None:
        """Return the target of a kind of processor, ``cpu``, ``gpu``, ``npu`` or ``tpu``;
        None if there is none.

        Of several, it is the default one, else one that runs ``.tflite`` files,
        on the most threads.
        """
        on_it = [target for target in self.targets if target.accelerator == accelerator]

        def rank(target: DeviceTarget) -> tuple[bool, bool, int]:
            return (
                target.name == self.default_target,
                target.takes_tflite,
                target.threads,
            )

        return max(on_it, key=rank, default=None)

    def measurements_on(self, target: DeviceTarget) -> list[Measurement]:
        """Return the latencies on a target that predictions may use."""
        rows = []
        for row in self.measurements:
            if row.usable and row.target == target.name:
                rows.append(row)
        return rows

    def build_remark(self, target: DeviceTarget) -> str:
        """Return which processor, threads and build latencies belong to,
        and the names of other processors.

        It is empty for this machine, microcontrollers and runtimes
        that do not run ``.tflite`` files.
        """
        if self.name == HOST or self.kind == "microcontroller":
            return ""
        if not target.takes_tflite:
            return ""
        if target.accelerator == "cpu":
            described = self._describe_build(target)
        else:
            described = _describe_accelerator(target)
        others = []
        foreign = []
        for kind, title in _PROCESSORS.items():
            other = self.find_on(kind)
            if other is None or kind == target.accelerator:
                continue
            selector = f"{self.name}:{kind}"
            if other.takes_tflite:
                others.append(selector)
            else:
                runtimes = listed(sorted(self._list_runtimes(kind)))
                foreign.append(
                    f"; its {title} is described for {runtimes}, not for .tflite files: {selector}"
                )
        named = f"; other processors: {', '.join(others)}" if others else ""
        return f"{self.name}: {described}{named}{''.join(foreign)}"

    def remark_other_builds(self, target: DeviceTarget) -> str:
        """Return that other builds of the runtime on a CPU target may be slower; empty without
        any in the profile.
        """
        if target.accelerator != "cpu" or not self._list_other_builds(target):
            return ""
        return f"{_name_build(target)}; {_OTHER_BUILDS}"

    def _list_other_builds(self, target: DeviceTarget) -> tuple[str, ...]:
        """Return the targets, as ``device:target``, that run a file on as many threads in another
        build.
        """
        others = []
        for other in self.targets:
            if other.kernels and other.threads == target.threads and other.name != target.name:
                others.append(f"{self.name}:{other.name}")
        return tuple(others)

    def _list_runtimes(self, accelerator: str) -> set[str]:
        """Return the runtimes of the targets on a kind of processor."""
        return {target.runtime for target in self.targets if target.accelerator == accelerator}

    def _describe_build(self, target: DeviceTarget) -> str:
        """Return the threads and the build of a CPU target, and the targets with other builds."""
        threads = f"CPU with {plural(target.threads, 'thread')}"
        if not target.kernels:
            missing = "its kernels" if target.version else "its release and kernels"
            return f"{threads}, {_name_build(target)}; {missing} are not stated"
        narrow = "armhf" in target.version
        wide = not narrow and self.isa.startswith(("armv8", "armv9", "x86-64"))
        bits = ", 64-bit" if wide else ", 32-bit"
        if not self.isa and not narrow:
            bits = "; the profile states no isa, so 32 or 64 bits are not known"
        usual = target.kernels == KERNELS[0]
        # A phone takes its build from the app, and not from a package of Python.
        installed = ""
        if usual and wide and self.kind != "phone":
            installed = ", the build in the package ai-edge-litert"
        others = self._list_other_builds(target)
        named = f"; {_OTHER_BUILDS}: {', '.join(others)}" if others else ""
        return f"{threads}, {_name_build(target)}{bits}{installed}{named}"

    @property
    def is_android(self) -> bool:
        """Return whether the device is a phone with Android."""
        return self.kind == "phone" and not self.soc.startswith(APPLE)

    @property
    def connecting_option(self) -> str:
        """The option of a command that connects the device: ``--adb usb``;
        empty if this machine, no connection, or an app alone reaches it.
        """
        if self.name == HOST:
            return ""
        if self.kind in ("board", "module", "computer"):
            return "--ssh USER@ADDRESS"
        return "--adb usb" if self.is_android else ""

    def fingerprint(self) -> str:
        """Return the SHA-256 of the profile with its measurements and kernels."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        # Without kernels the hash is that of versions that knew none, so runs from then still fit.
        parts: tuple[object, ...] = (self, self.measurements)
        if self.kernels:
            parts = (*parts, self.kernels)
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def _name_build(target: DeviceTarget) -> str:
    """Return runtime, release and kernels of a CPU target, as far as the profile states them."""
    is_litert = target.runtime == _LITERT or target.kernels == KERNELS[0]
    runtime = "LiteRT" if is_litert else "TensorFlow Lite"
    release = f" {target.version}" if target.version else ""
    kernels = f" with {_TITLES[target.kernels]}" if target.kernels else ""
    return f"{runtime}{release}{kernels}"

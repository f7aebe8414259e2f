"""Describe a device: its hardware, its targets, its limits and its known latencies."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.errors import UsageError, nearest
from advisor.core.evaluation import Target
from advisor.devices.profiles.measurements import Measurement

if TYPE_CHECKING:
    from advisor.devices.connections.settings import ConnectionSettings

HOST = "host"
NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"
"""Names of devices, targets and runtimes: safe as file names and on a command line."""


@dataclass(frozen=True)
class Cluster:
    """Equal cores of a processor.

    Attributes:
        core: name of the core, such as ``Cortex-A76``.
        count: number of such cores.
        max_mhz: highest clock, MHz, or None where it is not stated.
    """

    core: str
    count: int
    max_mhz: int | None = None


@dataclass(frozen=True)
class Limits:
    """Hard limits of a device; None is no limit.

    Attributes:
        arena_bytes: memory that activations may take (a microcontroller's RAM).
        flash_bytes: storage that the model may take.
        package_bytes: size of the application that a store or a team allows.
    """

    arena_bytes: int | None = None
    flash_bytes: int | None = None
    package_bytes: int | None = None


@dataclass(frozen=True)
class DeviceTarget:
    """One way to run a model on the device.

    Attributes:
        name: unique within the profile, such as ``tflite-cpu-x4``.
        runtime: name of the runtime: ``tflite``, ``qnn``, ``ncnn``, ...
        version: its version as far as the source states it, or empty.
        accelerator: ``cpu``, ``gpu``, ``npu``, ``tpu``.
        threads: CPU threads; 1 for an accelerator.
        precisions: forms of artefact that it takes (:data:`advisor.devices.profiles.measurements.PRECISIONS`).
        operators: names of the operators that it takes, empty where all or unknown.
    """

    name: str
    runtime: str
    accelerator: str
    threads: int = 1
    version: str = ""
    precisions: tuple[str, ...] = ("float32",)
    operators: tuple[str, ...] = ()

    def of(self, device: str) -> Target:
        """Return the identity under which evaluations on ``device`` are kept."""
        runtime = f"{self.runtime}=={self.version}" if self.version else self.runtime
        return Target(device, runtime, self.accelerator, self.threads)


@dataclass(frozen=True)
class DeviceProfile:
    """One device.

    Attributes:
        name: short name used in commands, such as ``raspberry-pi-4``.
        title: its name for people.
        kind: ``phone``, ``board``, ``module``, ``accelerator``, ``microcontroller``, ``computer``.
        soc: system on chip.
        isa: instruction set of its CPU, such as ``armv8.2-a``.
        cores: clusters of cores, fastest first; empty where not stated.
        npu: name of its neural accelerator, or empty.
        memory_bytes: RAM, or None where not stated.
        storage_bytes: storage, or None.
        targets: the ways to run a model on it.
        default_target: the one meant by the device's name alone.
        limits: hard limits.
        sources: where the facts come from.
        measurements: known latencies.
        connection: how it is reached where the profile says so; no part of what predictions rest on.
        origin: the file it was read from, None for the host.
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
    limits: Limits = field(default_factory=Limits)
    sources: tuple[str, ...] = ()
    measurements: tuple[Measurement, ...] = field(default=(), repr=False)
    connection: ConnectionSettings | None = field(default=None, repr=False, compare=False)
    origin: Path | None = field(default=None, compare=False)

    def target(self, name: str = "") -> DeviceTarget:
        """Return the target called ``name``, the default one where it is empty.

        Raises:
            UsageError: the device has no such target; the nearest is named.
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
        """Return the SHA-256 of everything the profile says, measurements included."""
        return hashlib.sha256(repr((self, self.measurements)).encode()).hexdigest()

"""Device profiles: what a device is, what it runs, its limits, and what is known of its latencies."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from advisor.core.errors import UsageError, nearest
from advisor.core.evaluation import Target
from advisor.devices.connections.reach import Reach
from advisor.devices.measurements import Measurement, read_measurements

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
        precisions: forms of artefact that it takes (:data:`advisor.devices.measurements.PRECISIONS`).
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
    connection: Reach | None = field(default=None, repr=False, compare=False)
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


class Profiles(Mapping[str, DeviceProfile]):
    """Device profiles by name, and ``device:target`` selections from them."""

    def __init__(self, profiles: Iterable[DeviceProfile]) -> None:
        self._by_name = {profile.name: profile for profile in profiles}

    def __getitem__(self, name: str) -> DeviceProfile:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def profile(self, name: str) -> DeviceProfile:
        """Return the profile called ``name``.

        Raises:
            UsageError: there is none; the nearest is named.
        """
        if name not in self._by_name:
            raise UsageError(
                f"unknown device '{name}'{nearest(name, self._by_name)}", "advisor devices list shows them all"
            )
        return self._by_name[name]

    def select(self, selector: str) -> tuple[DeviceProfile, DeviceTarget]:
        """Return the device and target of ``"galaxy-s24"`` (its default target) or ``"galaxy-s24:qnn-npu"``.

        Raises:
            UsageError: unknown device or target; the nearest is named.
        """
        device, _, target = selector.partition(":")
        profile = self.profile(device)
        return profile, profile.target(target)


def load_profiles(folders: Sequence[Path] = (), *, builtin: bool = True) -> Profiles:
    """Load the profiles that ship with the product, those of ``folders``, and the host.

    A folder's profile replaces a shipped one of the same name; two folders may not both have it.

    Args:
        folders: the team's own folders of ``*.yaml`` (with ``*.csv`` of the same stem beside them).
        builtin: include the shipped profiles.

    Raises:
        UsageError: a folder that is missing, or a profile or CSV that is refused, with file and line.
    """
    from advisor.devices.host import host_profile
    from advisor.devices.paths import shipped_profiles

    found = {HOST: host_profile()}
    if builtin:
        found.update(_read_folder(shipped_profiles()))
    own: dict[str, DeviceProfile] = {}
    for folder in folders:
        for name, profile in _read_folder(folder).items():
            if name in own:
                raise UsageError(f"the device '{name}' is in {own[name].origin} and in {profile.origin}")
            own[name] = profile
    return Profiles({**found, **own}.values())


def _read_folder(folder: Path) -> dict[str, DeviceProfile]:
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder of device profiles", "give a folder that holds *.yaml files")
    return {profile.name: profile for profile in map(read_profile, sorted(folder.glob("*.yaml")))}


def read_profile(path: Path) -> DeviceProfile:
    """Read one profile and the measurements beside it.

    Raises:
        UsageError: unknown keys, impossible figures, a name that is not the file's, duplicate targets: with file and
            line.
    """
    from advisor.devices.located_yaml import read_yaml
    from advisor.devices.schema import profile_from

    profile = profile_from(read_yaml(path))
    rows = path.with_suffix(".csv")
    if not rows.is_file():
        return profile
    names = [target.name for target in profile.targets]
    return replace(profile, measurements=read_measurements(rows, names))

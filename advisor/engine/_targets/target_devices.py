"""Select the devices that a question names, each with one target of its profile.

``select_targets`` is called once, when the parts of a question are resolved. The ``label`` of a
device is what the user typed: evaluations carry it, and it is in the keys of
``evaluations.jsonl``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core import HOST, AmbiguousInput, Reading, Target, UsageError
from advisor.devices import (
    DeviceProfile,
    DeviceTarget,
    LocalRuntime,
    Profiles,
    SeveralPhones,
    host_profile,
    listing,
    load_known_devices,
    local_runtimes,
    phone_remarks,
    runtime_remark,
)
from advisor.engine._pipeline.materials import LocalTarget
from advisor.engine._question.values import Question
from advisor.measurement import interpreter_of

if TYPE_CHECKING:
    from advisor.devices import Connection
    from advisor.engine._question.values import Execution


@dataclass(frozen=True)
class TargetDevice:
    """One target of one device; ``label`` is the device as the user named it,
    and evaluations carry this name.
    """

    label: str
    profile: DeviceProfile
    target: DeviceTarget

    @property
    def identity(self) -> Target:
        """The target that evaluations on this device carry."""
        return self.target.of(self.label)

    @property
    def connections(self) -> dict[str, str]:
        """The option that connects the device by its label; empty without one."""
        connection = "" if self.runtime or self.in_cloud else self.profile.connecting_option
        return {self.label: connection} if connection else {}

    @property
    def runtime(self) -> LocalRuntime | None:
        """The runtime of this machine that the device is; it is measured without a prediction.
        None for another.
        """
        return local_runtimes().get(self.profile.name)

    @property
    def local(self) -> LocalTarget | None:
        """The target if files run on this machine for it:
        it is a runtime, or has an interpreter here. None if not.
        """
        if self.runtime is None:
            # Microcontrollers run nowhere here, but their interpreter does: it checks the arena.
            interpreter = interpreter_of(self.target.runtime)
            if interpreter is None or not interpreter.available():
                return None
        return LocalTarget(self.profile.name, self.target)

    @property
    def in_cloud(self) -> bool:
        """True if the device is in a cloud:
        it is measured beside the search, and keeps its prediction otherwise.
        """
        return self.profile.connection is not None and self.profile.connection.in_cloud

    def allow_upload(self, execution: Execution) -> TargetDevice:
        """Return the device with what may be sent to it if it is in a cloud."""
        connection = self.profile.connection
        if connection is None or not connection.in_cloud:
            return self
        allowed = connection.allow_upload(vars(execution))
        return replace(self, profile=replace(self.profile, connection=allowed))

    def connect(self) -> Connection:
        """Return what measures files on the device, which is connected."""
        if self.runtime is not None:
            return self.runtime.connect(self.target)
        assert self.profile.connection is not None, "the device is connected"
        return self.profile.connection.connect(self.target.accelerator)

    @staticmethod
    def select(
        selectors: Sequence[str], folders: Sequence[Path], option: str
    ) -> tuple[TargetDevice, ...]:
        """Return the device and target of each ``device`` or ``device:target``.

        An unknown one, this machine, and a runtime of it that is not installed are UsageErrors.
        """
        if not selectors:
            return ()
        profiles = load_known_devices(folders)
        return tuple(_select_device(selector, profiles, option) for selector in selectors)


@dataclass(frozen=True)
class TargetDevices:
    """The devices that the models of one search must run on:
    this machine (``host``), those of ``--device``, then the others.
    """

    host: bool
    devices: tuple[TargetDevice, ...] = ()

    @property
    def in_cloud(self) -> tuple[TargetDevice, ...]:
        """The devices of clouds."""
        return tuple(device for device in self.devices if device.in_cloud)

    def allow_upload(self, execution: Execution) -> TargetDevices:
        """Return the devices with what may be sent to those of clouds."""
        devices = tuple(device.allow_upload(execution) for device in self.devices)
        return replace(self, devices=devices)

    @property
    def lead(self) -> TargetDevice | None:
        """The device whose configurations the study proposes; None if it is this machine."""
        return None if self.host else self.devices[0]

    @property
    def remarks(self) -> tuple[str, ...]:
        """Limits of the latencies: an unknown processor of this machine, a phone that nobody
        measured, or a runtime that is not for the files.
        """
        texts = list[str]()
        if self.host:
            texts += listing.list_remarks(host_profile())
        for device in self.devices:
            texts += remarks_of(device)
        # Several targets of one device have the same remarks.
        return tuple(dict.fromkeys(texts))


def select_targets(question: Question) -> TargetDevices:
    """Return the devices of a question;
    a UsageError if one, or a folder of profiles, is unknown or not valid.
    """
    for folder in question.profiles:
        if not folder.is_dir():
            raise UsageError(
                f"--profiles: '{folder}' is not a folder", "give a folder that holds *.yaml files"
            )
    # The option that named a device: each device once, `--device` first.
    options = dict.fromkeys(question.devices, "--device")
    options.pop(HOST, None)
    for selector in question.limits.must_run_on:
        if selector not in question.devices:
            options[selector] = "--must-run-on"
    # Reading all profiles takes a second, which a search for this machine alone need not pay.
    profiles = load_known_devices(question.profiles) if options else Profiles(())
    targets = list[TargetDevice]()
    for selector, option in options.items():
        try:
            device = _select_device(selector, profiles, option)
        except UsageError as error:
            # Only --device can be asked again on a terminal;
            # for --must-run-on the error lists the phones.
            several = error.__cause__
            if isinstance(several, SeveralPhones) and option == "--device":
                raise _ask_phone(selector, question.devices, error.message, several) from None
            raise
        targets += at_threads(device, question.thread_counts)
    return TargetDevices(HOST in question.devices, tuple(targets))


def _ask_phone(
    selector: str, selectors: Sequence[str], message: str, error: SeveralPhones
) -> AmbiguousInput:
    """Return the question which phone a name means; the other devices of the question stay."""
    _name, colon, target = selector.partition(":")
    readings = []
    for phone in error.phones:
        chosen = []
        for other in selectors:
            chosen.append(f"{phone.slug}{colon}{target}" if other == selector else other)
        meaning = f"the {phone.title}"
        if phone.soc not in phone.title:
            meaning += f" with the {phone.soc}"
        readings.append(Reading({"device": ",".join(chosen)}, meaning))
    return AmbiguousInput(
        message, readings, "name the phone by its code, which Settings > About phone shows"
    )


def at_threads(device: TargetDevice, counts: Sequence[int]) -> tuple[TargetDevice, ...]:
    """Return a runtime of this machine once for each thread count, as ``host`` is measured;
    another device as it is.
    """
    # A target that the user named, such as host:onnxruntime:cpu-x1, keeps its own thread count.
    is_named = device.label != device.profile.name
    if device.runtime is None or is_named or device.target.accelerator != "cpu":
        return (device,)
    names = {count: f"cpu-x{count}" for count in counts}
    for target in device.profile.targets:
        if (target.runtime, target.accelerator) == (device.target.runtime, "cpu"):
            names[target.threads] = target.name
    devices = []
    # The most threads first: the first device is the one that the study proposes.
    for count in sorted(counts, reverse=True):
        target = replace(device.target, name=names[count], threads=count)
        devices.append(replace(device, target=target))
    return tuple(devices)


def _select_device(selector: str, profiles: Profiles, option: str) -> TargetDevice:
    try:
        profile, target = profiles.require_installed(selector)
        if profile.name == HOST:
            raise UsageError(
                f"'{selector}' is this machine, which is measured and not predicted", "remove it"
            )
        return TargetDevice(selector, profile, target)
    except UsageError as error:
        # With its cause, by which select_targets knows that several phones have this name.
        raise UsageError(f"{option}: {error.message}", error.hint) from error


def remarks_of(device: TargetDevice) -> tuple[str, ...]:
    """Return what limits the latencies on a device:
    nothing was measured on it, or what :func:`remark_of` tells.
    """
    remarks = []
    for remark in phone_remarks(device.profile, device.target):
        remarks.append(f"{device.label}: {remark}")
    remarks.append(remark_of(device))
    remarks.append(listing.remark_unmeasured(device.profile, device.target))
    return tuple(filter(None, remarks))


def remark_of(device: TargetDevice) -> str:
    """Return which build latencies belong to, or that they are another runtime's,
    or that arenas are only computed.
    """
    if device.runtime is not None:
        return ""
    interpreter = interpreter_of(device.target.runtime)
    place = f"{device.profile.name}:{device.target.name}"
    other_runtime = runtime_remark(place, device.target.runtime)
    # At most one remark: another runtime makes the build unimportant.
    if other_runtime or interpreter is None or interpreter.available():
        return other_runtime or device.profile.build_remark(device.target)
    return (
        f"{device.label}: files are not run in {interpreter.NAME}, arenas are computed;"
        f" {interpreter.INSTALL}"
    )

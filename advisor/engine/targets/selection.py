"""Select the devices of a question: this machine, and the devices that latency is measured or predicted for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.core.figures import HOST
from advisor.devices.profiles import TFLITE_RUNTIMES, DeviceProfile, DeviceTarget, Profiles
from advisor.engine.question import Question
from advisor.engine.targets.compatibility import TargetDevice


@dataclass(frozen=True)
class TargetDevices:
    """The devices that the models of one search must run on.

    Attributes:
        host: whether this machine is one of them.
        devices: the other devices: first those of ``--device``, then those of ``--must-run-on``.
    """

    host: bool
    devices: tuple[TargetDevice, ...] = ()

    @property
    def lead(self) -> TargetDevice | None:
        """The device whose configurations the study proposes; None if it is this machine."""
        return None if self.host else self.devices[0]


def select_targets(question: Question) -> TargetDevices:
    """Return the devices of a question.

    Raises:
        UsageError: a device or target is unknown (the error names the nearest), or a profile is not valid.
    """
    names = [device for device in question.devices if device != HOST]
    required = [device for device in question.limits.must_run_on if device not in question.devices]
    devices = select_devices(names, question.profiles, "--device")
    also = select_devices(required, question.profiles, "--must-run-on")
    return TargetDevices(HOST in question.devices, (*devices, *also))


def select_devices(selectors: Sequence[str], folders: Sequence[Path], option: str) -> tuple[TargetDevice, ...]:
    """Return the device and target of each ``device`` or ``device:target``.

    Raises:
        UsageError: a device or target is unknown (the error names the nearest), or it is this machine.
    """
    if not selectors:
        return ()
    from advisor.devices.profiles.team import known_devices

    profiles = known_devices(folders)
    return tuple(_select(selector, profiles, option) for selector in selectors)


def _select(selector: str, profiles: Profiles, option: str) -> TargetDevice:
    if selector.partition(":")[0] == HOST:
        raise UsageError(f"{option}: 'host' is this machine, which is measured and not predicted", "remove it")
    try:
        return TargetDevice(selector, *prefer_tflite(selector, *profiles.select(selector)))
    except UsageError as error:
        raise UsageError(f"{option}: {error.message}", error.hint) from None


def prefer_tflite(selector: str, profile: DeviceProfile, target: DeviceTarget) -> tuple[DeviceProfile, DeviceTarget]:
    """Return a target that runs ``.tflite`` files if the selector names no target and the device has one."""
    if ":" in selector or target.runtime in TFLITE_RUNTIMES:
        return profile, target
    tflite = [other for other in profile.targets if other.runtime in TFLITE_RUNTIMES]
    return profile, max(tflite, key=lambda other: other.threads, default=target)


def runtime_remark(device: TargetDevice) -> str:
    """Return a remark if a target's latencies are those of another runtime; empty if it runs ``.tflite`` files."""
    if device.target.runtime in TFLITE_RUNTIMES:
        return ""
    return (
        f"the latencies are those of {device.profile.name}:{device.target.name}: {device.target.runtime} does not run "
        ".tflite files, so they are only a guide"
    )

"""The devices of a question: which are at hand, and which are predicted for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.core.figures import HOST
from advisor.devices.profiles import DeviceProfile, DeviceTarget, Profiles
from advisor.devices.profiles.compatibility import TFLITE_RUNTIMES
from advisor.engine.question import Question
from advisor.engine.targets.compatibility import TargetDevice


@dataclass(frozen=True)
class Targets:
    """Where the models of one search are to run.

    Attributes:
        host: this machine is among the devices asked about.
        places: the other devices, those first that are asked about, then those that the pick must run on as well.
    """

    host: bool
    places: tuple[TargetDevice, ...] = ()

    @property
    def lead(self) -> TargetDevice | None:
        """The device whose configurations the study is told of where this machine is not asked about."""
        return None if self.host else self.places[0]


def chosen_targets(question: Question) -> Targets:
    """Return the devices of a question.

    Raises:
        UsageError: an unknown device or target (the nearest is named), or a profile that is refused.
    """
    others = [device for device in question.devices if device != HOST]
    asked = places_of(others, question.profiles, "--device")
    required = [device for device in question.limits.must_run_on if device not in question.devices]
    return Targets(HOST in question.devices, (*asked, *places_of(required, question.profiles, "--must-run-on")))


def places_of(selectors: Sequence[str], folders: Sequence[Path], option: str) -> tuple[TargetDevice, ...]:
    """Return the place of each ``device`` or ``device:target``.

    Raises:
        UsageError: an unknown one (the nearest is named), or this machine, which is no place to predict for.
    """
    if not selectors:
        return ()
    from advisor.devices.profiles.team import known_devices

    profiles = known_devices(folders)
    return tuple(_place(selector, profiles, option) for selector in selectors)


def _place(selector: str, profiles: Profiles, option: str) -> TargetDevice:
    if selector.partition(":")[0] == HOST:
        raise UsageError(f"{option}: 'host' is this machine, which is measured, not predicted", "leave it out")
    try:
        return TargetDevice(selector, *for_tflite(selector, *profiles.select(selector)))
    except UsageError as error:
        raise UsageError(f"{option}: {error.message}", error.hint) from None


def for_tflite(selector: str, profile: DeviceProfile, target: DeviceTarget) -> tuple[DeviceProfile, DeviceTarget]:
    """Where a device is named without a target, prefer one that runs the artefacts as they are."""
    if ":" in selector or target.runtime in TFLITE_RUNTIMES:
        return profile, target
    fitting = [other for other in profile.targets if other.runtime in TFLITE_RUNTIMES]
    return profile, max(fitting, key=lambda other: other.threads, default=target)


def runtime_remark(place: TargetDevice) -> str:
    """Say where a target's latencies are another runtime's; empty where it runs ``.tflite`` files as they are."""
    if place.target.runtime in TFLITE_RUNTIMES:
        return ""
    return (
        f"the latencies are those of {place.profile.name}:{place.target.name}: {place.target.runtime} does not run "
        ".tflite files as they are, so take them as a guide"
    )

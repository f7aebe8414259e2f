"""Choose the devices that ``advisor reevaluate`` answers for, and connect to them.

The command makes one ``Devices`` from its options. Its runs share the predictor and the
connections, so that each device is asked once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from advisor.core import HOST, UsageError
from advisor.devices import Profiles, canonical, listing, load_known_devices
from advisor.engine._history.connected import (
    LIMIT_S,
    MOST_FILES,
    NO_UPLOAD,
    ConnectedDevice,
    Measuring,
    is_measurable,
)
from advisor.engine._targets.device_prediction import DevicePredictor
from advisor.engine._targets.target_devices import TargetDevice

if TYPE_CHECKING:
    from advisor.devices import ConnectionSettings


class NamedDevice(NamedTuple):
    """A device with the name that the user gave it, which may differ from its profile's."""

    selector: str
    device: TargetDevice


@dataclass(frozen=True)
class Devices:
    """The devices to re-evaluate for, as the user named them, their predictor,
    and how they are measured.
    """

    named: tuple[NamedDevice, ...] = ()
    measuring: Measuring = field(default_factory=Measuring)
    profiles: Profiles = field(default_factory=lambda: Profiles(()))
    _connected: dict[str, ConnectedDevice] = field(default_factory=dict, init=False)

    @classmethod
    def choose(
        cls,
        selectors: Sequence[str],
        folders: Sequence[Path],
        settings: ConnectionSettings | None = None,
        *,
        upload: Mapping[str, Any] = NO_UPLOAD,
        most_files: int = MOST_FILES,
        limit_s: float = LIMIT_S,
    ) -> Devices:
        """Return the named devices, also those in ``folders``;
        without names all of ``folders`` and of the team.

        A device that the options connect to is asked at once: a wrong phone is an error before any
        work. The other arguments are those of :class:`Measuring`.
        """
        measuring = Measuring(settings, upload, most_files, limit_s)
        profiles = load_known_devices(folders)
        names = selectors or listing.list_own_devices(profiles)
        if HOST in map(canonical, names):
            raise UsageError(
                "--device: 'host' is this machine, which is measured, not predicted",
                "leave it out",
            )
        if settings is not None:
            only = _select_connected(settings, selectors, profiles)
            devices = cls((only,), measuring, profiles)
            devices.connect(only.selector, only.device)
            return devices
        named = []
        for name in names:
            profile, target = profiles.require_installed(name)
            named.append(NamedDevice(name, TargetDevice(profile.name, profile, target)))
        return cls(tuple(named), measuring, profiles)

    def connect(self, selector: str, device: TargetDevice) -> ConnectedDevice | None:
        """Return the connection to a device, which is asked once for all runs;
        None if its files are predicted.
        """
        if not self.measuring.may_measure(device):
            return None
        if selector not in self._connected:
            self._connected[selector] = ConnectedDevice(
                selector, device, self.measuring, self.profiles
            )
        return self._connected[selector]

    @cached_property
    def predictor(self) -> DevicePredictor:
        """The predictor of latencies; all runs of the command share what it remembers."""
        return DevicePredictor()


def _select_connected(
    settings: ConnectionSettings, selectors: Sequence[str], profiles: Profiles
) -> NamedDevice:
    """Return the one device that the options connect to;
    without a name, the phone says what it is.

    UsageError if they do not name one device that the connection fits,
    or another phone is attached.
    """
    option = f"--{settings.way}"
    if not selectors and settings.way == "adb":
        attached = profiles.describe_attached(settings)
        try:
            profiles.profile(attached.name)
        except UsageError:
            # No profile has this phone: it is known by what it says of itself.
            device = TargetDevice(attached.name, attached, attached.target())
            return NamedDevice(attached.name, device)
        # A phone that people call by a name is that device, whether or not it is attached.
        selectors = [attached.name]
    if len(selectors) != 1:
        problem = f"{len(selectors)} devices are named" if selectors else "no device is named"
        raise UsageError(
            f"{option} connects to one device, and {problem}",
            "name the one that it is: --device NAME",
        )
    (selector,) = selectors
    profile, target = profiles.require_installed(selector)
    device = TargetDevice(profile.name, profile, target)
    if device.runtime is not None or device.in_cloud:
        place = "this machine" if device.runtime is not None else "a device of a cloud"
        raise UsageError(
            f"{option} does not lead to {selector}, which is {place}", f"leave out {option}"
        )
    if not is_measurable(device):
        raise UsageError(
            f"{profile.name}:{target.name} runs {target.runtime}, which cannot be measured"
            " over a connection",
            f"name a target with TensorFlow Lite, or leave out {option} for a prediction",
        )
    return NamedDevice(selector, device)

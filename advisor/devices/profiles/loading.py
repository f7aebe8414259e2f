"""Load device profiles from folders, and select a device and a target by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from advisor.core.errors import UsageError, nearest
from advisor.devices.profiles.cores import CORES_FILE
from advisor.devices.profiles.measurements import read_measurements
from advisor.devices.profiles.values import HOST, DeviceProfile, DeviceTarget
from advisor.store.files import shipped_folder


class Profiles(dict[str, DeviceProfile]):
    """Device profiles by name, which a ``device:target`` text can select."""

    def __init__(self, profiles: Iterable[DeviceProfile]) -> None:
        super().__init__((profile.name, profile) for profile in profiles)

    def profile(self, name: str) -> DeviceProfile:
        """Return the profile called ``name``.

        Raises:
            UsageError: there is none. The error names the nearest one.
        """
        if name not in self:
            raise UsageError(f"unknown device '{name}'{nearest(name, self)}", "advisor devices list shows them all")
        return self[name]

    def select(self, selector: str) -> tuple[DeviceProfile, DeviceTarget]:
        """Return the device and target of ``"galaxy-s24"`` (its default target) or ``"galaxy-s24:qnn-npu"``.

        Raises:
            UsageError: the device or target is unknown. The error names the nearest one.
        """
        device, _, target = selector.partition(":")
        profile = self.profile(device)
        return profile, profile.target(target)


def shipped_profiles() -> Path:
    """Return the folder of the shipped profiles."""
    return shipped_folder("device_profiles")


def load_profiles(folders: Iterable[Path] = ()) -> Profiles:
    """Load the profile of this machine, the shipped profiles and those in ``folders``.

    A profile in a folder replaces a shipped one of the same name. Two folders must not contain the same name.

    Args:
        folders: folders with ``*.yaml`` files, each with an optional ``*.csv`` of the same name.

    Raises:
        UsageError: a folder is missing, or a profile or CSV is not valid; the error names file and line.
    """
    from advisor.devices.profiles.host import host_profile

    found = {HOST: host_profile(), **_read_folder(shipped_profiles())}
    own: dict[str, DeviceProfile] = {}
    for folder in folders:
        for name, profile in _read_folder(folder).items():
            if name in own:
                raise UsageError(
                    f"the device '{name}' is in both {own[name].origin} and {profile.origin}", "keep one of the two"
                )
            found.pop(name, None)
            own[name] = profile
    return Profiles([*found.values(), *own.values()])


def _read_folder(folder: Path) -> dict[str, DeviceProfile]:
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder of device profiles", "give a folder that holds *.yaml files")
    paths = (path for path in sorted(folder.glob("*.yaml")) if path.name != CORES_FILE)
    return {profile.name: profile for profile in map(read_profile, paths)}


def read_profile(path: Path) -> DeviceProfile:
    """Read one profile and the measurements in the CSV file of the same name.

    Raises:
        UsageError: the profile has an unknown key, an impossible figure, another name than its file, or a target twice;
            the error names file and line.
    """
    from advisor.devices.profiles.schema import profile_from
    from advisor.devices.profiles.validation import MAX_YAML_BYTES
    from advisor.store.yamlfile import read_yaml

    profile = profile_from(read_yaml(path, MAX_YAML_BYTES))
    rows = path.with_suffix(".csv")
    if not rows.is_file():
        return profile
    names = [target.name for target in profile.targets]
    return replace(profile, measurements=read_measurements(rows, names))

"""Load device profiles from folders, and select a device and a target by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from advisor.core.errors import UsageError, nearest
from advisor.devices.profiles.measurements import read_measurements
from advisor.devices.profiles.values import HOST, DeviceProfile, DeviceTarget


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
    from advisor.devices.profiles.host import host_profile
    from advisor.devices.profiles.paths import shipped_profiles

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
    from advisor.devices.profiles.located_yaml import read_yaml
    from advisor.devices.profiles.schema import profile_from

    profile = profile_from(read_yaml(path))
    rows = path.with_suffix(".csv")
    if not rows.is_file():
        return profile
    names = [target.name for target in profile.targets]
    return replace(profile, measurements=read_measurements(rows, names))

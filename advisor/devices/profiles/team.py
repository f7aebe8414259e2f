"""The team's own device profiles: where they lie, and how one is added or removed without touching the shipped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.catalog.user_catalogue import config_root
from advisor.core.errors import UsageError, nearest
from advisor.devices.profiles.loading import Profiles, load_profiles, read_profile
from advisor.devices.profiles.paths import shipped_profiles
from advisor.devices.profiles.values import HOST, NAME_PATTERN, DeviceProfile


@dataclass(frozen=True)
class Added:
    """A profile that was taken into the team's folder.

    Attributes:
        profile: what was read.
        path: the file that now holds it.
        replaced: True where a profile of this name was there before.
        hides_shipped: True where the product ships one of this name, which is no longer used.
    """

    profile: DeviceProfile
    path: Path
    replaced: bool
    hides_shipped: bool


def own_folder() -> Path:
    """Return the team's own folder of profiles, whether or not it is there."""
    return config_root() / "device_profiles"


def folder_of(profile: DeviceProfile) -> Path:
    """Return the folder that takes a changed ``profile``: its own, or the team's where it ships with the product."""
    if profile.origin is None or profile.origin.resolve().parent == shipped_profiles().resolve():
        return own_folder()
    return profile.origin.parent


def known_devices(folders: Sequence[Path] = ()) -> Profiles:
    """Load the shipped profiles, those of the team's own folder where there is one, those of ``folders``, and the host.

    Raises:
        UsageError: a folder that is missing, a profile that is refused, or a device that two folders have.
    """
    own = own_folder()
    return load_profiles(distinct([*([own] if own.is_dir() else []), *folders]))


def add_profile(file: Path, folder: Path | None = None, *, replace: bool = False) -> Added:
    """Check the profile ``file`` with the CSV beside it and write both into ``folder``.

    Args:
        file: a YAML file, named after the device.
        folder: takes the profile; the team's own folder where it is None.
        replace: overwrite a profile of the same name.

    Raises:
        UsageError: a profile that is refused (with file and line), one that is there already, or a folder that is the
            product's own or cannot be written to.
    """
    from advisor.devices.profiles.writing import write_profile

    folder = folder or own_folder()
    _refuse_shipped(folder, "--into")
    profile = read_profile(file)
    path = folder / f"{profile.name}.yaml"
    try:
        there = path.exists()
        if there and path.samefile(file):
            raise UsageError(f"{file} lies in {folder} already", f"advisor devices show {profile.name} reads it there")
        if there and not replace:
            raise UsageError(f"the device '{profile.name}' is in {path} already", "replace it with --force")
        written = write_profile(profile, folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written to: {error.strerror}", "name another with --into") from error
    return Added(profile, written, there, profile.name in _names(shipped_profiles()))


def remove_profile(name: str, folder: Path | None = None) -> tuple[Path, ...]:
    """Remove the profile ``name`` with its measurements from ``folder`` (the team's own where None).

    A profile that can no longer be read can still be removed.

    Returns:
        the files that are gone.

    Raises:
        UsageError: it is not there (the nearest is named), it ships with the product, or it cannot be removed.
    """
    folder = folder or own_folder()
    _refuse_shipped(folder, "--from")
    names = _names(folder)
    if name not in names or not re.fullmatch(NAME_PATTERN, name):
        raise _not_there(name, folder, names)
    files = [path for path in (folder / f"{name}.yaml", folder / f"{name}.csv") if path.is_file()]
    try:
        for path in files:
            path.unlink()
    except OSError as error:
        raise UsageError(f"{path} cannot be removed: {error.strerror}") from error
    return tuple(files)


def _not_there(name: str, folder: Path, names: Sequence[str]) -> UsageError:
    if name == HOST:
        return UsageError("'host' is this machine: it has no file to remove")
    if name in _names(shipped_profiles()):
        return UsageError(
            f"the device '{name}' ships with advisor: only profiles of your own in {folder} can be removed",
            "add one of the same name to use it instead",
        )
    listed = f"devices there: {', '.join(names)}" if names else "there are no devices"
    return UsageError(f"there is no device '{name}' in {folder}{nearest(name, names)}", listed)


def _refuse_shipped(folder: Path, option: str) -> None:
    if folder.resolve() == shipped_profiles().resolve():
        raise UsageError(f"{option}: {folder} holds the shipped profiles, which stay as they are", "name your own")


def _names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.yaml"))


def distinct(folders: Iterable[Path]) -> list[Path]:
    """Return the folders, one that is named twice once."""
    return list({folder.resolve(): folder for folder in folders}.values())

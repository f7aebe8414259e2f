"""Find, add and remove the team's own device profiles; the shipped ones stay unchanged."""

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
    """A profile that was added to the team's folder.

    Attributes:
        profile: the profile as read.
        path: the file that now contains it.
        replaced: whether a profile of this name was there before.
        hides_shipped: whether it replaces a shipped profile of this name.
    """

    profile: DeviceProfile
    path: Path
    replaced: bool
    hides_shipped: bool


def own_folder() -> Path:
    """Return the team's own folder of profiles; it may not exist."""
    return config_root() / "device_profiles"


def folder_of(profile: DeviceProfile) -> Path:
    """Return the folder to write a changed ``profile`` to: its own folder, or the team's for a shipped profile."""
    if profile.origin is None or profile.origin.resolve().parent == shipped_profiles().resolve():
        return own_folder()
    return profile.origin.parent


def known_devices(folders: Sequence[Path] = ()) -> Profiles:
    """Load the shipped profiles, the team's own ones, those in ``folders``, and the profile of this machine.

    Raises:
        UsageError: a folder is missing, a profile is not valid, or two folders contain the same device.
    """
    own = own_folder()
    return load_profiles(distinct([*([own] if own.is_dir() else []), *folders]))


def add_profile(file: Path, folder: Path | None = None, *, replace: bool = False) -> Added:
    """Check the profile ``file`` and the CSV of the same name, and copy both into ``folder``.

    Args:
        file: a YAML file, named after the device.
        folder: where to copy the profile; None for the team's own folder.
        replace: whether to overwrite a profile of the same name.

    Raises:
        UsageError: the profile is not valid (the error names file and line), it exists already, or the folder is that
            of the shipped profiles or is not writable.
    """
    from advisor.devices.profiles.writing import write_profile

    folder = folder or own_folder()
    _refuse_shipped(folder, "--into")
    profile = read_profile(file)
    path = folder / f"{profile.name}.yaml"
    try:
        there = path.exists()
        if there and path.samefile(file):
            raise UsageError(f"{file} is already in {folder}", f"use it as it is: advisor devices show {profile.name}")
        if there and not replace:
            raise UsageError(f"the device '{profile.name}' already exists in {path}", "replace it with --force")
        written = write_profile(profile, folder)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}", "name another folder with --into") from error
    return Added(profile, written, there, profile.name in _names(shipped_profiles()))


def remove_profile(name: str, folder: Path | None = None) -> tuple[Path, ...]:
    """Remove the profile ``name`` and its measurements, and return the removed files.

    A profile that is no longer readable can still be removed.

    Args:
        name: name of the device.
        folder: where the profile is; None for the team's own folder.

    Raises:
        UsageError: it does not exist (the error names the nearest), it is a shipped one, or it cannot be removed.
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
        return UsageError("'host' is this machine, which has no profile file to remove")
    if name in _names(shipped_profiles()):
        return UsageError(
            f"the device '{name}' ships with advisor; only your own profiles in {folder} can be removed",
            "add your own profile of the same name to replace it",
        )
    listed = f"devices there: {', '.join(names)}" if names else "there are no devices"
    return UsageError(f"there is no device '{name}' in {folder}{nearest(name, names)}", listed)


def _refuse_shipped(folder: Path, option: str) -> None:
    if folder.resolve() == shipped_profiles().resolve():
        raise UsageError(
            f"{option}: {folder} contains the shipped profiles, which must not change", "name your own folder"
        )


def _names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.yaml"))


def distinct(folders: Iterable[Path]) -> list[Path]:
    """Return the folders without repeats."""
    return list({folder.resolve(): folder for folder in folders}.values())

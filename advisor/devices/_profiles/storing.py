"""Add, write and remove the profiles of a team, and load all known ones.

A profile is ``NAME.yaml``, its measurements ``NAME.csv``, its timed kernels ``NAME.kernels.csv``,
all in one folder. They are replaced as whole files, and what was written is read again first.
Shipped profiles never change.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from advisor.catalog import config_root
from advisor.core import UsageError, nearest
from advisor.devices._profiles.listing import is_own_profile
from advisor.devices._profiles.loading import Profiles, load_profiles, read_checked_profile
from advisor.devices._profiles.measurements import SUFFIX, write_kernels, write_measurements
from advisor.devices._profiles.reading import find_shipped_profiles, read_profile
from advisor.devices._profiles.runtimes import local_runtimes
from advisor.devices._profiles.values import HOST, NAME_PATTERN, DeviceProfile


@dataclass(frozen=True)
class NewDevice:
    """A profile that was added to the team's folder."""

    profile: DeviceProfile  #: the profile as read
    path: Path  #: the file that now contains it
    replaced: bool  #: True if it replaced a profile of this name there
    hides_shipped: bool  #: True if it is used instead of a shipped profile of this name


def own_folder() -> Path:
    """Return the team's own folder of profiles; it may not exist."""
    return config_root() / "device_profiles"


def folder_of(profile: DeviceProfile) -> Path:
    """Return the folder to write a changed ``profile`` to:
    its own folder, or the team's for a shipped profile.
    """
    if profile.origin and is_own_profile(profile):
        return profile.origin.parent
    return own_folder()


def load_known_devices(folders: Sequence[str | Path] = ()) -> Profiles:
    """Load the shipped profiles, the team's own ones, those in ``folders``,
    and the profile of this machine.

    UsageError if a folder of ``folders`` has no profile:
    it may be another one than the user meant.
    """
    own_folders = [own_folder()] if own_folder().is_dir() else []
    chosen = list(map(Path, folders))
    # A team's folder that is also named on the command line is read once:
    # two folders must not hold one name.
    by_path = {os.path.realpath(folder): folder for folder in (*own_folders, *chosen)}
    profiles = load_profiles(by_path.values())
    for folder in chosen:
        if not any(folder.glob("*.yaml")):
            raise UsageError(
                f"'{folder}' has no device profile", "give a folder that holds *.yaml files"
            )
    return profiles


def add_profile(
    file: str | Path, into: str | Path | None = None, *, replace: bool = False
) -> NewDevice:
    """Check a profile and copy it with its measurements; see :func:`advisor.devices.add`."""
    folder = Path(into) if into else own_folder()
    _refuse_shipped(folder, "--into")
    profile = read_checked_profile(Path(file))
    path = folder / f"{profile.name}.yaml"
    try:
        exists = path.exists()
        # Copying a file onto itself would replace it by what was read,
        # without the user's comments.
        if exists and path.samefile(file):
            raise UsageError(
                f"{file} is already in {folder}",
                f"use it as it is: advisor devices show {profile.name}",
            )
        if exists and not replace:
            raise UsageError(
                f"the device '{profile.name}' already exists in {path}", "replace it with --force"
            )
        return store_profile(profile, folder)
    except OSError as error:
        raise UsageError(
            f"cannot write to {folder}: {error.strerror}", "name another folder with --into"
        ) from error


def store_profile(profile: DeviceProfile, folder: Path) -> NewDevice:
    """Write a profile to a folder of the user's, in place of one with its name;
    UsageError if it cannot be written.
    """
    _refuse_shipped(folder, "--into")
    exists = (folder / f"{profile.name}.yaml").exists()
    written = write_profile(profile, folder)
    return NewDevice(
        profile, written, exists, profile.name in _list_names(find_shipped_profiles())
    )


def remove_profile(name: str, from_: str | Path | None = None) -> tuple[Path, ...]:
    """Remove a profile, readable or not, with its measurements;
    see :func:`advisor.devices.remove`.
    """
    folder = Path(from_) if from_ else own_folder()
    _refuse_shipped(folder, "--from")
    names = _list_names(folder)
    # The name becomes a path, and a name with `..` would remove files elsewhere.
    if name not in names or not re.fullmatch(NAME_PATTERN, name):
        raise _missing_error(name, folder, names)
    possible = [folder / f"{name}{ending}" for ending in (".yaml", ".csv", SUFFIX)]
    files = [path for path in possible if path.is_file()]
    try:
        for path in files:
            path.unlink()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be removed: {error.strerror}", "check the permissions of the folder"
        ) from error
    return tuple(files)


def write_profile(profile: DeviceProfile, folder: Path) -> Path:
    """Write ``profile`` as ``<name>.yaml`` with its measurements and kernels,
    and return the YAML file's path.

    Each file is replaced as a whole, so a profile is never half written. UsageError if the profile
    does not match the schema, or the folder is not writable.
    """
    import yaml

    if profile.name == HOST or profile.name in local_runtimes():
        raise UsageError(
            f"the profile of '{profile.name}' is not written, because it is read from the machine",
            "give the device another name",
        )
    if not re.fullmatch(NAME_PATTERN, profile.name):
        raise UsageError(
            f"'{profile.name}' is not a valid device name",
            "use lower-case letters, digits, '.', '-' and '_'",
        )
    text = yaml.safe_dump(_build_document(profile), sort_keys=False, allow_unicode=True, width=120)
    path, rows, timed = (f"{profile.name}{ending}" for ending in (".yaml", ".csv", SUFFIX))
    staging = folder / f".{profile.name}.new"
    try:
        staging.mkdir(parents=True, exist_ok=True)
        (staging / path).write_text(text, encoding="utf-8")
        write_measurements(staging / rows, profile.measurements)
        write_kernels(staging / timed, profile.kernels)
        # What was written is read before it replaces anything:
        # a profile that cannot be read would break each command.
        read_profile(staging / path)
        (staging / rows).replace(folder / rows)
        if profile.kernels:
            (staging / timed).replace(folder / timed)
        else:
            (folder / timed).unlink(missing_ok=True)
        # The YAML file comes last: a profile without it does not exist,
        # so an interruption leaves the old one or none.
        (staging / path).replace(folder / path)
    except OSError as error:
        raise UsageError(
            f"cannot write to {folder}: {error.strerror}",
            "check its permissions and the free space",
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return folder / path


def _build_document(profile: DeviceProfile) -> dict[str, object]:
    """Return the YAML document without unknown facts."""
    sizes = {"memory": profile.memory_bytes, "storage": profile.storage_bytes}
    limits = {name.removesuffix("_bytes"): size for name, size in asdict(profile.limits).items()}
    connection = {}
    settings = profile.connection
    if settings:
        connection = asdict(settings)
        # A profile is shared: it says where a device is, and never what may be sent there.
        del connection["upload"]
        connection[connection.pop("way")] = connection.pop("address")
        connection["python"] = settings.python if settings.way == "ssh" else ""
        # Relative paths would count from the folder of the profile,
        # and not from where the user typed it.
        connection["benchmark_model"] = (
            str(settings.benchmark_model.absolute()) if settings.benchmark_model else ""
        )
    return _drop_unknown(
        {
            "name": profile.name,
            "title": profile.title,
            # A later version may know better what a device is that its file does not say.
            "kind": "" if profile.is_kind_assumed else profile.kind,
            "soc": profile.soc,
            "isa": profile.isa,
            "npu": profile.npu,
            "cores": [_drop_unknown(asdict(cluster)) for cluster in profile.cores],
            **{name: size and f"{size}B" for name, size in sizes.items()},
            "limits": _drop_unknown({name: size and f"{size}B" for name, size in limits.items()}),
            "targets": [_drop_unknown(asdict(target)) for target in profile.targets],
            "default_target": profile.default_target,
            "connection": _drop_unknown(connection),
            "sources": profile.sources,
        }
    )


def _drop_unknown(facts: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in facts.items() if value not in (None, "", (), [], {})}


def _missing_error(name: str, folder: Path, names: Sequence[str]) -> UsageError:
    if name == HOST or name in local_runtimes():
        return UsageError(
            f"'{name}' is this machine, which has no profile file",
            "advisor devices list shows those that have one",
        )
    if name in _list_names(find_shipped_profiles()):
        return UsageError(
            f"the device '{name}' ships with advisor; only your own profiles in {folder} can be"
            " removed",
            "add your own profile of the same name to replace it",
        )
    listed = f"devices there: {', '.join(names)}" if names else "there are no devices"
    return UsageError(f"there is no device '{name}' in {folder}{nearest(name, names)}", listed)


def _refuse_shipped(folder: Path, option: str) -> None:
    if folder.resolve() == find_shipped_profiles().resolve():
        raise UsageError(
            f"{option}: {folder} contains the shipped profiles, which must not change",
            "name your own folder",
        )


def _list_names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.yaml"))

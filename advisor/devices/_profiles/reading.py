"""Read one profile with its measurements and kernels, and the shipped ones.

Nothing is compared here: ``plausibility.py`` does that with the profiles of a team.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType

from advisor.core import Problems, UsageError
from advisor.devices._profiles.cores import CORES_FILE
from advisor.devices._profiles.measurement import Measurement
from advisor.devices._profiles.measurements import (
    SUFFIX,
    Kernel,
    read_kernels,
    read_measurements,
)
from advisor.devices._profiles.values import (
    DeviceProfile,
)
from advisor.store import shipped_folder


def find_shipped_profiles() -> Path:
    """Return the folder of the shipped profiles."""
    return shipped_folder("device_profiles")


def find_shipped_fleets() -> tuple[Path, ...]:
    """Return the tables of the shipped fleets."""
    return tuple(sorted((find_shipped_profiles() / "fleets").glob("*.csv")))


@cache
def load_shipped() -> Mapping[str, DeviceProfile]:
    """Return the shipped profiles by name; a process reads them once."""
    return MappingProxyType(read_folder(find_shipped_profiles(), read_profile))


def read_profile(path: Path, models: Collection[str] | None = None) -> DeviceProfile:
    """Read one profile, the measurements in the CSV file of the same name, and its kernels.

    ``models`` are the names of the known models; None accepts every name. The UsageError has one
    line with file and line for each problem.
    """
    from advisor.devices._profiles.file_kind import MAX_YAML_BYTES
    from advisor.devices._profiles.schema import profile_from
    from advisor.store import YamlDocument

    problems = Problems()
    profile = None
    with problems.collected():
        profile = profile_from(YamlDocument.read(path, MAX_YAML_BYTES))
    names = [target.name for target in profile.targets] if profile else None
    measurements: tuple[Measurement, ...] = ()
    rows = path.parent / f"{path.stem}.csv"
    if rows.is_file():
        with problems.collected():
            measurements = read_measurements(rows, names, models)
    kernels: tuple[Kernel, ...] = ()
    timed = path.parent / f"{path.stem}{SUFFIX}"
    if timed.is_file() and names:
        with problems.collected():
            kernels = read_kernels(timed, names)
    problems.raise_any()
    assert profile is not None
    return replace(profile, measurements=measurements, kernels=kernels)


def read_folder(folder: Path, read: Callable[[Path], DeviceProfile]) -> dict[str, DeviceProfile]:
    """Return the profiles of a folder by name; ``read`` returns the profile of a file."""
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is not a folder of device profiles", "give a folder that holds *.yaml files"
        )
    paths = []
    for path in sorted(folder.glob("*.yaml")):
        if path.name != CORES_FILE:
            paths.append(path)
    return {profile.name: profile for profile in map(read, paths)}

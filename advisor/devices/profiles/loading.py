"""Load device profiles from folders, and select a device and a target by name."""

import csv
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from advisor.core.errors import Problems, UsageError, nearest
from advisor.devices.profiles.measurements import SUFFIX, Kernel, Measurement, read_kernels, read_measurements
from advisor.devices.profiles.runtimes import CORES_FILE, LITERT, canonical, local_runtimes
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
        known = canonical(name)
        if known not in self:
            raise self._unknown(name)
        return self[known]

    def select(self, selector: str) -> tuple[DeviceProfile, DeviceTarget]:
        """Return the device and target of ``"galaxy-s24"`` (its default target) or ``"galaxy-s24:qnn-npu"``.

        Raises:
            UsageError: the device or target is unknown. The error names the nearest one.
        """
        name = canonical(selector)
        if name in self:
            return self[name], self[name].target()
        device, _, target = name.rpartition(":")
        profile = self.profile(device or name)
        if device == HOST and target not in [each.name for each in profile.targets]:
            raise self._unknown(name)
        return profile, profile.target(target)

    def _unknown(self, name: str) -> UsageError:
        return UsageError(
            f"unknown device '{name}'{nearest(name, (LITERT, *self))}", "advisor devices list shows them all"
        )


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
    from advisor.devices.profiles.runtimes import host_profile

    shipped = read_folder(shipped_profiles())
    found = {HOST: host_profile(), **{name: each.profile() for name, each in local_runtimes().items()}, **shipped}
    own: dict[str, DeviceProfile] = {}
    for folder in folders:
        for name, profile in read_folder(folder, tuple(shipped.values())).items():
            if name in own:
                raise UsageError(
                    f"the device '{name}' is in both {own[name].origin} and {profile.origin}", "keep one of the two"
                )
            found.pop(name, None)
            own[name] = profile
    return Profiles([*found.values(), *own.values()])


def read_folder(folder: Path, shipped: Sequence[DeviceProfile] = ()) -> dict[str, DeviceProfile]:
    """Return the profiles in a folder by name, compared with the shipped ones if these are given."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder of device profiles", "give a folder that holds *.yaml files")
    paths = [path for path in sorted(folder.glob("*.yaml")) if path.name != CORES_FILE]
    read = partial(checked_profile, shipped=shipped) if shipped else read_profile
    return {profile.name: profile for profile in map(read, paths)}


def checked_profile(path: Path, shipped: Sequence[DeviceProfile]) -> DeviceProfile:
    """Read one profile, and compare it with the shipped ones.

    Args:
        path: the YAML file.
        shipped: the shipped profiles.

    Raises:
        UsageError: see :func:`read_profile`; or a row names an unknown model, the latencies of a target are in another
            unit, or the cores contradict the SoC. The error has one line for each.
    """
    from advisor.devices.profiles.values import bounds_of, implausible

    macs = _known_macs(shipped, shipped_profiles() / "model_features.csv")
    profile = read_profile(path, macs)
    problems = Problems()
    known = {name: count for name, count in macs.items() if count}
    for error in implausible(profile, shipped, bounds_of(shipped), known):
        problems.add(error)
    problems.raise_any()
    return profile


def _known_macs(shipped: Iterable[DeviceProfile], table: Path) -> dict[str, float | None]:
    """Return the known networks with their multiply-accumulates, None where these are not known.

    Known are the networks of the shipped features and measurements, and those of the catalogue, also of your own.

    Args:
        shipped: the shipped profiles.
        table: the CSV of the shipped features, with ``name`` and ``macs``.

    Raises:
        UsageError: your own catalogue is not valid.
    """
    from advisor.catalog.catalogue import load_catalogue

    known: dict[str, float | None] = {row.model: None for profile in shipped for row in profile.measurements}
    known |= {card.name: float(card.macs) for card in load_catalogue().values()}
    with table.open(newline="", encoding="utf-8") as file:
        return known | {row["name"]: float(row["macs"]) for row in csv.DictReader(file)}


def read_profile(path: Path, models: Collection[str] | None = None) -> DeviceProfile:
    """Read one profile, the measurements in the CSV file of the same name, and its kernels.

    Args:
        path: the YAML file.
        models: names of the known models; None accepts every name.

    Raises:
        UsageError: the profile has an unknown key, an impossible figure, another name than its file, or a target twice,
            or its measurements or kernels are refused (:mod:`advisor.devices.profiles.measurements`,
            :mod:`advisor.devices.profiles.measurements`). The error has one line for each, with file and line.
    """
    from advisor.devices.profiles.schema import MAX_YAML_BYTES, profile_from
    from advisor.store.yamlfile import read_yaml

    problems, profile = Problems(), None
    with problems.collected():
        profile = profile_from(read_yaml(path, MAX_YAML_BYTES))
    rows = path.with_suffix(".csv")
    measurements: tuple[Measurement, ...] = ()
    if rows.is_file():
        names = [target.name for target in profile.targets] if profile else None
        with problems.collected():
            measurements = read_measurements(rows, names, models)
    kernels: tuple[Kernel, ...] = ()
    timed = path.with_suffix(SUFFIX)
    if timed.is_file() and profile:
        with problems.collected():
            kernels = read_kernels(timed, [target.name for target in profile.targets])
    problems.raise_any()
    assert profile is not None
    return replace(profile, measurements=measurements, kernels=kernels)

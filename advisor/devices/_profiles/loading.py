"""Load device profiles from folders, and select a device and a target by name."""

import csv
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import starmap
from pathlib import Path
from statistics import median
from types import MappingProxyType

from advisor.core import AdvisorError, Problems, UsageError, nearest, visible
from advisor.devices._connections.settings import ConnectionSettings
from advisor.devices._profiles import phones
from advisor.devices._profiles.measurement import Measurement
from advisor.devices._profiles.measurements import (
    FORMS,
    SUFFIX,
    Kernel,
    read_kernels,
    read_measurements,
)
from advisor.devices._profiles.runtimes import (
    CORES_FILE,
    LITERT,
    canonical,
    profiles_here,
    require_runtime,
)
from advisor.devices._profiles.values import (
    HOST,
    TFLITE_RUNTIMES,
    Cluster,
    DeviceProfile,
    DeviceTarget,
)
from advisor.store import shipped_folder

_log = logging.getLogger(__name__)

_MOST_MACS = 128.0
_FEWEST_MACS = 0.02
"""Multiply-accumulates a core and cycle: AVX-512 VNNI computes 128 of int8;
the slowest shipped CPU reaches 0.1.
"""

_BEYOND = 20.0
"""A latency this many times below or above every shipped one
of the model on such a unit has a wrong unit.
"""

# Networks of a target, and shipped targets, that show whether int8 is faster than float32.
FEWEST = 3


class Profiles(dict[str, DeviceProfile]):
    """Device profiles by name, which a ``device:target`` text can select."""

    def __init__(self, profiles: Iterable[DeviceProfile]) -> None:
        super().__init__((profile.name, profile) for profile in profiles)

    def profile(self, name: str) -> DeviceProfile:
        """Return the profile called ``name``, or of the phone, board,
        SoC or device of a cloud that people call so.

        UsageError: an unknown name (the message names the nearest),
        or one that several phones have.
        """
        known = canonical(name)
        # An exact name of a profile comes before what people call a phone.
        if known in self:
            return self[known]
        if ConnectionSettings.names_cloud(name):
            return self._select_in_cloud(name)[0]
        profile = phones.find_device(name, self) or phones.find_soc_profile(name)
        if profile is None:
            raise self._unknown(name)
        return profile

    def select(self, selector: str) -> tuple[DeviceProfile, DeviceTarget]:
        """Return the device and target of ``galaxy-s24`` (its default target),
        ``galaxy-s24:qnn-npu`` or ``galaxy-s24:npu``.
        """
        name = canonical(selector)
        if name in self:
            return self[name], self[name].target()
        if ConnectionSettings.names_cloud(name):
            return self._select_in_cloud(name)
        device, _, target = name.rpartition(":")
        if not device:
            profile = self.profile(name)
            return profile, profile.target()
        profile = self.profile(device)
        if device == HOST and not profile.has_target(target):
            raise self._unknown(name)
        if not profile.has_target(target):
            # Of some phones only the NPU or the CPU was measured,
            # and their other processors are known.
            predicted = phones.describe_unmeasured(profile)
            profile = predicted if predicted and predicted.has_target(target) else profile
        return profile, profile.target(target)

    def describe_attached(self, connection: ConnectionSettings) -> DeviceProfile:
        """Return the profile of a phone that is attached over adb, by what it says of itself.

        UsageError: the phone cannot be used, or its processor is not known. StageError:
        it does not answer.
        """
        from advisor.devices._connections.attached import read_phone
        from advisor.devices._profiles.attached import describe_phone

        phone = read_phone(connection.address)
        return describe_phone(phone, self, replace(connection, address=phone.serial))

    def refuse_other_phone(self, profile: DeviceProfile, connection: ConnectionSettings) -> None:
        """Raise a UsageError if the attached phone and the profile are of two phones,
        as far as both are known.
        """
        from advisor.devices._connections.attached import SeveralAttached, read_phone
        from advisor.devices._profiles.attached import find_known

        try:
            phone = read_phone(connection.address)
        except SeveralAttached:
            raise
        except AdvisorError:
            return  # a phone that is away is no other phone
        attached = find_known((phone.model, phone.device), phone.soc, self)
        meant = find_known((profile.title, profile.name), (profile.soc,), self)
        # A profile of one's own may describe a phone that no table knows.
        if attached is None or meant is None or attached.title == meant.title:
            return
        raise UsageError(
            f"the attached phone {phone.serial} is a {attached.title}, and {profile.name} is the"
            f" {meant.title}",
            f"name this one: --device {attached.name}, or attach the other",
        )

    def require_installed(self, selector: str) -> tuple[DeviceProfile, DeviceTarget]:
        """Return a device and a target, by default one for ``.tflite`` files;
        refuse a runtime that is missing.
        """
        profile, target = prefer_tflite(selector, *self.select(selector))
        require_runtime(profile)
        return profile, target

    def _select_in_cloud(self, selector: str) -> tuple[DeviceProfile, DeviceTarget]:
        from advisor.devices._profiles.clouds import select_in_cloud

        return select_in_cloud(selector, self)

    def _unknown(self, name: str) -> UsageError:
        near = phones.nearest_names(name, self)
        listed = f"nearest: {', '.join(near)}; " if near else ""
        return UsageError(
            "unknown device"
            f" '{visible(name)}'{nearest(name, (LITERT, *phones.device_names(), *self))}",
            f"{listed}advisor devices list [--phones] shows them all; {phones.two_lines(name)}",
        )


def prefer_tflite(
    selector: str, profile: DeviceProfile, target: DeviceTarget
) -> tuple[DeviceProfile, DeviceTarget]:
    """Return a target that runs ``.tflite`` files if the selector names no target
    and the device has one.
    """
    # Files of a search are `.tflite`, and some phones have a default target that runs another
    # format. The first colon ends the cloud's name.
    named = selector.count(":") > ConnectionSettings.names_cloud(selector)
    if named or target.runtime in TFLITE_RUNTIMES:
        return profile, target
    tflite = [
        other_target for other_target in profile.targets if other_target.runtime in TFLITE_RUNTIMES
    ]
    return profile, max(tflite, key=lambda other_target: other_target.threads, default=target)


def find_shipped_profiles() -> Path:
    """Return the folder of the shipped profiles."""
    return shipped_folder("device_profiles")


def find_shipped_fleets() -> tuple[Path, ...]:
    """Return the tables of the shipped fleets."""
    return tuple(sorted((find_shipped_profiles() / "fleets").glob("*.csv")))


def load_profiles(folders: Iterable[Path] = ()) -> Profiles:
    """Load the profile of this machine, the shipped profiles and those in ``folders``.

    A profile in a folder replaces a shipped one of the same name.
    Two folders must not contain the same name.
    """
    profiles = {**profiles_here(), **load_shipped()}
    own_profiles: dict[str, DeviceProfile] = {}
    for folder in folders:
        for name, profile in _read_folder(folder, read_checked_profile).items():
            if name in own_profiles:
                raise UsageError(
                    f"the device '{name}' is in both {own_profiles[name].origin} and"
                    f" {profile.origin}",
                    "keep one of the two",
                )
            profiles.pop(name, None)
            own_profiles[name] = profile
    return Profiles([*profiles.values(), *own_profiles.values()])


@cache
def load_shipped() -> Mapping[str, DeviceProfile]:
    """Return the shipped profiles by name; a process reads them once."""
    return MappingProxyType(_read_folder(find_shipped_profiles(), read_profile))


def _read_folder(folder: Path, read: Callable[[Path], DeviceProfile]) -> dict[str, DeviceProfile]:
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is not a folder of device profiles", "give a folder that holds *.yaml files"
        )
    paths = []
    for path in sorted(folder.glob("*.yaml")):
        if path.name != CORES_FILE:
            paths.append(path)
    return {profile.name: profile for profile in map(read, paths)}


def read_checked_profile(path: Path) -> DeviceProfile:
    """Read one profile (:func:`read_profile`), and compare it with the shipped ones.

    Known models are those of the shipped features and measurements, and those of the catalogue,
    also of your own. A row must not name another one, the latencies of a target not be in another
    unit, the cores not contradict the SoC. The error has one line for each.
    """
    from advisor.catalog import load_catalogue

    macs: dict[str, float | None] = {}
    for profile in load_shipped().values():
        for row in profile.measurements:
            macs[row.model] = None
    macs |= {card.name: float(card.macs) for card in load_catalogue().values()}
    with (find_shipped_profiles() / "model_features.csv").open(
        newline="", encoding="utf-8"
    ) as file:
        macs |= {row["name"]: float(row["macs"]) for row in csv.DictReader(file)}
    profile = read_profile(path, macs)
    problems = Problems()
    for error in _find_implausible(
        profile, {name: count for name, count in macs.items() if count}
    ):
        problems.add(error)
    problems.raise_any()
    for target in profile.targets:
        _warn_of_swap(profile, target)
        _warn_of_cores(profile, target)
        _warn_of_releases(profile, target)
    return profile


def read_profile(path: Path, models: Collection[str] | None = None) -> DeviceProfile:
    """Read one profile, the measurements in the CSV file of the same name, and its kernels.

    ``models`` are the names of the known models; None accepts every name. The UsageError has one
    line with file and line for each problem.
    """
    from advisor.devices._profiles.schema import MAX_YAML_BYTES, profile_from
    from advisor.store import read_yaml

    problems = Problems()
    profile = None
    with problems.collected():
        profile = profile_from(read_yaml(path, MAX_YAML_BYTES))
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


Bounds = Mapping[tuple[str, str, str], tuple[float, float]]


@cache
def _find_shipped_bounds() -> Bounds:
    """Return the shortest and longest usable shipped latency (ms) by kind of unit,
    model and precision.
    """
    bounds: dict[tuple[str, str, str], tuple[float, float]] = {}
    for profile in load_shipped().values():
        units = {target.name: _unit(profile, target) for target in profile.targets}
        for row in profile.measurements:
            if row.usable:
                key = units[row.target], row.model, row.precision
                low, high = bounds.get(key, (row.latency_ms, row.latency_ms))
                bounds[key] = min(low, row.latency_ms), max(high, row.latency_ms)
    return MappingProxyType(bounds)


def _find_implausible(profile: DeviceProfile, macs: Mapping[str, float]) -> Iterator[UsageError]:
    """Yield one error for each contradiction:
    cores against the SoC, and latencies of a target in a wrong unit.

    ``macs`` are the known multiply-accumulates by model.
    """
    with_cores = (shipped for shipped in load_shipped().values() if shipped.cores)
    same = []
    for shipped in with_cores:
        if _plain(shipped.soc) == _plain(profile.soc):
            same.append(shipped)
    for cluster in profile.cores:
        # A SoC has at least as many cores of a name as the profile states.
        stated = _count_cores(profile, cluster)
        held = [_count_cores(shipped, cluster) for shipped in same]
        if held and max(held) < stated:
            cores = ", ".join(
                f"{known_cluster.count} x {known_cluster.core}" for known_cluster in same[0].cores
            )
            yield UsageError(
                f"{profile.origin or profile.name}: the cores {cluster.count} x {cluster.core}"
                f" contradict the SoC {profile.soc}, which has {cores}",
                f"correct soc or cores; {same[0].name} has this SoC",
            )
    for target in profile.targets:
        yield from _wrong_unit(profile, target, macs)


def _count_cores(profile: DeviceProfile, cluster: Cluster) -> int:
    """Return how many cores of a profile have a name of those of a cluster."""
    names = _names(cluster)
    count = 0
    for other in profile.cores:
        if _names(other) & names:
            count += other.count
    return count


def _names(cluster: Cluster) -> set[str]:
    """Return the names of a core: brackets contain the design behind a vendor's name,
    such as ``Kryo 485 (A76)``.
    """
    design = re.search(r"\((?:Cortex-)?([\w-]+)\)$", cluster.core)
    bare = _plain(re.sub(r"\(.*\)", "", cluster.core))
    if design:
        return {bare, "cortex" + _plain(design[1])}
    return {bare}


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", text.casefold())


def _wrong_unit(
    profile: DeviceProfile, target: DeviceTarget, macs: Mapping[str, float]
) -> Iterator[UsageError]:
    rows = []
    for row in profile.measurements:
        if row.usable and row.target == target.name:
            rows.append(row)
    unit = _unit(profile, target)
    factors = []
    for row in rows:
        shortest, longest = _possible_ms(profile, target, macs.get(row.model))
        low, high = _find_shipped_bounds().get(
            (unit, row.model, row.precision), (0.0, float("inf"))
        )
        # Both bounds hold: what the processor can compute at all,
        # and what was measured on others of its kind.
        shortest = max(shortest, low / _BEYOND)
        longest = min(longest, high * _BEYOND)
        too_short = min(row.latency_ms / shortest, 1.0) if shortest else 1.0
        too_long = max(row.latency_ms / longest, 1.0)
        factors.append(too_short * too_long)
    # The median, because a single row may be wrong for another reason than its unit.
    if factors and median(factors) != 1.0:
        short = median(factors) < 1
        path = profile.origin.with_suffix(".csv") if profile.origin else profile.name
        yield UsageError(
            f"{path}: the latencies on {target.name} are too {'short' if short else 'long'} for"
            " this processor; the column latency_ms is in milliseconds and looks like"
            f" {'seconds' if short else 'microseconds'}",
            "correct the unit, or flag the rows",
        )


@cache
def _warn(message: str, *values: object) -> None:
    """Warn once: a command reads the profiles several times."""
    _log.warning(message, *values)


def _int8_ratio(profile: DeviceProfile, target: DeviceTarget) -> float | None:
    """Return the median of int8 over float32 latency on a target; None with few networks."""
    floats = {}
    integers = {}
    for row in profile.measurements:
        if not row.usable or row.target != target.name:
            continue
        if row.precision == FORMS[0]:
            floats[row.model] = row.latency_ms
        elif row.precision == FORMS[1]:
            integers[row.model] = row.latency_ms
    ratios = [integers[model] / floats[model] for model in floats.keys() & integers]
    return median(ratios) if len(ratios) >= FEWEST else None


def _warn_of_swap(profile: DeviceProfile, target: DeviceTarget) -> None:
    """Warn of a target where int8 is slower than on every shipped one of the kind,
    and not if the two are swapped.
    """
    own_ratio = _int8_ratio(profile, target) or 0.0
    if own_ratio <= 1.0:
        return
    alike = TFLITE_RUNTIMES if target.runtime in TFLITE_RUNTIMES else {target.runtime}
    others = []
    for shipped in load_shipped().values():
        others += [
            (shipped, shipped_target)
            for shipped_target in shipped.targets
            if shipped_target.runtime in alike
        ]
    same = (pair for pair in others if _unit(*pair) == _unit(profile, target))
    known = [ratio for ratio in starmap(_int8_ratio, same) if ratio]
    if len(known) >= FEWEST and own_ratio > max(known) and 1 / own_ratio >= min(known) / 2:
        _warn(
            "%s: on %s int8 takes %.1f times as long as float32, on known devices %.2f to %.2f"
            " times: are the precisions swapped? Correct them, or flag the rows as unexplained",
            profile.origin or profile.name,
            target.name,
            own_ratio,
            min(known),
            max(known),
        )


def _warn_of_cores(profile: DeviceProfile, target: DeviceTarget) -> None:
    """Warn of a CPU target with more threads than the profile has cores:
    a kind of core may be missing.
    """
    cores = sum(cluster.count for cluster in profile.cores)
    if target.accelerator == "cpu" and 0 < cores < target.threads:
        _warn(
            "%s: %s has %d threads, but 'cores' lists %d: is a kind of core missing? Predictions"
            " know only those",
            profile.origin or profile.name,
            target.name,
            target.threads,
            cores,
        )


def _warn_of_releases(profile: DeviceProfile, target: DeviceTarget) -> None:
    """Warn of measurements that another release or build than the target's made."""
    rows = []
    for row in profile.measurements:
        if row.usable and row.target == target.name and row.runtime_version:
            rows.append(row)
    stated = f"{target.version}+{target.kernels}" if target.kernels else target.version
    others = [row for row in rows if row.runtime_version not in (target.version, stated)]
    if target.version and others:
        _warn(
            "%s: %d of the measurements on %s are of %s, and the target is %s: their interval is"
            " wider. Add a target of that release, if you need both",
            profile.origin or profile.name,
            len(others),
            target.name,
            ", ".join(sorted({row.runtime_version for row in others})),
            stated,
        )


def _unit(profile: DeviceProfile, target: DeviceTarget) -> str:
    return "mcu" if profile.kind == "microcontroller" else target.accelerator


def _possible_ms(
    profile: DeviceProfile, target: DeviceTarget, macs: float | None
) -> tuple[float, float]:
    """Return the shortest and longest latency (ms) that a CPU can need,
    without limits if it is not known.
    """
    clocks = []
    for cluster in profile.cores:
        for _ in range(cluster.count):
            if cluster.max_mhz:
                clocks.append(cluster.max_mhz)
    if target.accelerator != "cpu" or profile.kind == "microcontroller" or not clocks or not macs:
        return 0.0, float("inf")
    cycles_per_ms = sum(sorted(clocks, reverse=True)[: target.threads]) * 1e3
    return macs / (cycles_per_ms * _MOST_MACS), macs / (cycles_per_ms * _FEWEST_MACS)

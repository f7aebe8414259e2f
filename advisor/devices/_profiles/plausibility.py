"""Compare a team's profile with the shipped ones: errors for contradictions, warnings for doubts.

:func:`.read_checked_profile` calls these functions when a profile is added or loaded. The limits
are wide, so only wrong units, swapped columns and missing cores are found.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from functools import cache
from statistics import median
from types import MappingProxyType

from advisor.core import UsageError
from advisor.devices._profiles.measurements import (
    FORMS,
)
from advisor.devices._profiles.reading import load_shipped
from advisor.devices._profiles.socs import find_soc
from advisor.devices._profiles.values import (
    TFLITE_RUNTIMES,
    Cluster,
    DeviceProfile,
    DeviceTarget,
)

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

Bounds = Mapping[tuple[str, str, str], tuple[float, float]]


@cache
def _find_shipped_bounds() -> Bounds:
    """Return the shortest and longest usable shipped latency (ms) by kind of unit,
    model and precision.
    """
    bounds: dict[tuple[str, str, str], tuple[float, float]] = {}
    for profile in load_shipped().values():
        units = {target.name: _unit_of(profile, target) for target in profile.targets}
        for row in profile.measurements:
            if row.usable:
                key = units[row.target], row.model, row.precision
                low, high = bounds.get(key, (row.latency_ms, row.latency_ms))
                bounds[key] = min(low, row.latency_ms), max(high, row.latency_ms)
    return MappingProxyType(bounds)


def find_contradictions(
    profile: DeviceProfile, macs: Mapping[str, float | None]
) -> Iterator[UsageError]:
    """Yield one error for each contradiction:
    cores against the SoC, and latencies of a target in a wrong unit.

    ``macs`` are the multiply-accumulates by model, None where they are not known.
    """
    same = _list_same_soc(profile)
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


def _list_same_soc(profile: DeviceProfile) -> list[DeviceProfile]:
    """Return the shipped profiles of a profile's SoC that state their cores."""
    same = []
    for shipped in load_shipped().values():
        if shipped.cores and _plain_text(shipped.soc) == _plain_text(profile.soc):
            same.append(shipped)
    return same


def _count_cores(profile: DeviceProfile, cluster: Cluster) -> int:
    """Return how many cores of a profile have a name of those of a cluster."""
    names = _list_names(cluster)
    count = 0
    for other in profile.cores:
        if _list_names(other) & names:
            count += other.count
    return count


def _list_names(cluster: Cluster) -> set[str]:
    """Return the names of a core: brackets contain the design behind a vendor's name,
    such as ``Kryo 485 (A76)``.
    """
    design = re.search(r"\((?:Cortex-)?([\w-]+)\)$", cluster.core)
    bare = _plain_text(re.sub(r"\(.*\)", "", cluster.core))
    if design:
        return {bare, "cortex" + _plain_text(design[1])}
    return {bare}


def _plain_text(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", text.casefold())


def _wrong_unit(
    profile: DeviceProfile, target: DeviceTarget, macs: Mapping[str, float | None]
) -> Iterator[UsageError]:
    unit = _unit_of(profile, target)
    factors = []
    for row in profile.measurements_on(target):
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
def _warn_once(message: str, *values: object) -> None:
    """Warn once: a command reads the profiles several times."""
    _log.warning(message, *values)


def _int8_ratio(profile: DeviceProfile, target: DeviceTarget) -> float | None:
    """Return the median of int8 over float32 latency on a target; None with few networks."""
    floats = {}
    integers = {}
    for row in profile.measurements_on(target):
        if row.precision == FORMS[0]:
            floats[row.model] = row.latency_ms
        elif row.precision == FORMS[1]:
            integers[row.model] = row.latency_ms
    ratios = [integers[model] / floats[model] for model in floats.keys() & integers]
    return median(ratios) if len(ratios) >= FEWEST else None


def warn_of_doubts(profile: DeviceProfile) -> None:
    """Warn of what a profile may have meant otherwise; each warning comes once in a process."""
    _warn_of_missing_cores(profile)
    for target in profile.targets:
        _warn_of_swap(profile, target)
        _warn_of_cores(profile, target)
        _warn_of_releases(profile, target)


def _warn_of_swap(profile: DeviceProfile, target: DeviceTarget) -> None:
    """Warn of a target where int8 is slower than on every shipped one of the kind,
    and not if the two are swapped.
    """
    own_ratio = _int8_ratio(profile, target) or 0.0
    if own_ratio <= 1.0:
        return
    alike = TFLITE_RUNTIMES if target.runtime in TFLITE_RUNTIMES else {target.runtime}
    unit = _unit_of(profile, target)
    known_ratios = []
    for shipped in load_shipped().values():
        for shipped_target in shipped.targets:
            if shipped_target.runtime in alike and _unit_of(shipped, shipped_target) == unit:
                ratio = _int8_ratio(shipped, shipped_target)
                if ratio:
                    known_ratios.append(ratio)
    if len(known_ratios) < FEWEST:
        return
    least = min(known_ratios)
    most = max(known_ratios)
    if own_ratio > most and 1 / own_ratio >= least / 2:
        _warn_once(
            "%s: on %s int8 takes %.1f times as long as float32, on known devices %.2f to %.2f"
            " times: are the precisions swapped? Correct them, or flag the rows as unexplained",
            profile.origin or profile.name,
            target.name,
            own_ratio,
            least,
            most,
        )


def _warn_of_missing_cores(profile: DeviceProfile) -> None:
    """Warn of kinds of cores that the profile's SoC has, and the profile does not list."""
    soc = find_soc(profile.soc)
    same = _list_same_soc(profile)
    known_cores: tuple[Cluster, ...] = ()
    if soc is not None:
        known_cores = soc.cores
    elif same:
        known_cores = same[0].cores
    names = set[str]()
    for cluster in profile.cores:
        names |= _list_names(cluster)
    missing = []
    for cluster in known_cores:
        if not _list_names(cluster) & names:
            missing.append(f"{cluster.count} x {cluster.core}")
    if profile.cores and missing:
        _warn_once(
            "%s: the SoC %s also has %s, and 'cores' does not list them: predictions know only"
            " the cores in that list",
            profile.origin or profile.name,
            profile.soc,
            " and ".join(missing),
        )


def _warn_of_cores(profile: DeviceProfile, target: DeviceTarget) -> None:
    """Warn of a CPU target with more threads than the profile has cores:
    a kind of core may be missing.
    """
    cores = sum(cluster.count for cluster in profile.cores)
    if target.accelerator == "cpu" and 0 < cores < target.threads:
        _warn_once(
            "%s: %s has %d threads, but 'cores' lists %d: is a kind of core missing? Predictions"
            " know only those",
            profile.origin or profile.name,
            target.name,
            target.threads,
            cores,
        )


def _warn_of_releases(profile: DeviceProfile, target: DeviceTarget) -> None:
    """Warn of measurements that another release or build than the target's made."""
    stated = f"{target.version}+{target.kernels}" if target.kernels else target.version
    of_target = ("", target.version, stated)
    others = [
        row for row in profile.measurements_on(target) if row.runtime_version not in of_target
    ]
    if target.version and others:
        _warn_once(
            "%s: %d of the measurements on %s are of %s, and the target is %s: their interval is"
            " wider. Add a target of that release, if you need both",
            profile.origin or profile.name,
            len(others),
            target.name,
            ", ".join(sorted({row.runtime_version for row in others})),
            stated,
        )


def _unit_of(profile: DeviceProfile, target: DeviceTarget) -> str:
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

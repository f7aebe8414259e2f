"""Find what a profile states against its own processor and against the shipped profiles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from advisor.core.errors import UsageError
from advisor.devices.profiles.values import Cluster, DeviceProfile, DeviceTarget

_MOST_MACS, _FEWEST_MACS = 128.0, 0.02
"""Multiply-accumulates a core and cycle: AVX-512 VNNI computes 128 of int8; the slowest shipped CPU reaches 0.1."""

_BEYOND = 20.0
"""A latency this many times below or above every shipped one of the model on such a unit has a wrong unit."""

Bounds = Mapping[tuple[str, str], tuple[float, float]]


def bounds_of(profiles: Iterable[DeviceProfile]) -> Bounds:
    """Return the shortest and longest usable latency (ms) by kind of unit and model."""
    found: dict[tuple[str, str], tuple[float, float]] = {}
    for profile in profiles:
        units = {target.name: _unit(profile, target) for target in profile.targets}
        for row in profile.measurements:
            if row.usable:
                key = units[row.target], row.model
                low, high = found.get(key, (row.latency_ms, row.latency_ms))
                found[key] = min(low, row.latency_ms), max(high, row.latency_ms)
    return found


def implausible(
    profile: DeviceProfile, shipped: Sequence[DeviceProfile], bounds: Bounds, macs: Mapping[str, float]
) -> Iterator[UsageError]:
    """Yield one error for each contradiction: cores against the SoC, and latencies of a target in a wrong unit.

    Args:
        profile: the profile.
        shipped: the shipped profiles.
        bounds: their latencies (:func:`bounds_of`).
        macs: multiply-accumulates by model, as far as they are known.
    """
    yield from _contradicting_cores(profile, shipped)
    for target in profile.targets:
        yield from _wrong_unit(profile, target, bounds, macs)


def _contradicting_cores(profile: DeviceProfile, shipped: Sequence[DeviceProfile]) -> Iterator[UsageError]:
    same = [other for other in shipped if _plain(other.soc) == _plain(profile.soc) and other.cores]
    for cluster in profile.cores:
        if same and not any(_holds(other.cores, cluster, profile.cores) for other in same):
            cores = ", ".join(f"{each.count} x {each.core}" for each in same[0].cores)
            yield UsageError(
                f"{profile.origin or profile.name}: the cores {cluster.count} x {cluster.core} contradict the SoC "
                f"{profile.soc}, which has {cores}",
                f"correct soc or cores; {same[0].name} has this SoC",
            )


def _holds(cores: Sequence[Cluster], cluster: Cluster, stated: Sequence[Cluster]) -> bool:
    """Return whether a SoC has at least as many cores of a cluster's name as the profile states."""
    wanted = sum(each.count for each in stated if _names(each) & _names(cluster))
    return sum(each.count for each in cores if _names(each) & _names(cluster)) >= wanted


def _names(cluster: Cluster) -> set[str]:
    """Return the names of a core: brackets contain the design behind a vendor's name, such as ``Kryo 485 (A76)``."""
    design = re.search(r"\((?:Cortex-)?([\w-]+)\)$", cluster.core)
    bare = _plain(re.sub(r"\(.*\)", "", cluster.core))
    return {bare, "cortex" + _plain(design[1])} if design else {bare}


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", text.casefold())


def _wrong_unit(
    profile: DeviceProfile, target: DeviceTarget, bounds: Bounds, macs: Mapping[str, float]
) -> Iterator[UsageError]:
    rows = [row for row in profile.measurements if row.usable and row.target == target.name]
    unit = _unit(profile, target)
    factors = []
    for row in rows:
        shortest, longest = _possible_ms(profile, target, macs.get(row.model))
        low, high = bounds.get((unit, row.model), (0.0, float("inf")))
        shortest, longest = max(shortest, low / _BEYOND), min(longest, high * _BEYOND)
        factors.append(min(row.latency_ms / shortest, 1.0) if shortest else 1.0)
        factors[-1] *= max(row.latency_ms / longest, 1.0)
    if factors and median(factors) != 1.0:
        short = median(factors) < 1
        path = profile.origin.with_suffix(".csv") if profile.origin else profile.name
        yield UsageError(
            f"{path}: the latencies on {target.name} are too {'short' if short else 'long'} for this processor; "
            f"the column latency_ms is in milliseconds and looks like {'seconds' if short else 'microseconds'}",
            "correct the unit, or flag the rows",
        )


def _unit(profile: DeviceProfile, target: DeviceTarget) -> str:
    return "mcu" if profile.kind == "microcontroller" else target.accelerator


def _possible_ms(profile: DeviceProfile, target: DeviceTarget, macs: float | None) -> tuple[float, float]:
    """Return the shortest and longest latency (ms) that a CPU can need, without limits if it is not known."""
    clocks = [c.max_mhz for c in profile.cores for _ in range(c.count) if c.max_mhz]
    if target.accelerator != "cpu" or profile.kind == "microcontroller" or not clocks or not macs:
        return 0.0, float("inf")
    cycles_per_ms = sum(sorted(clocks, reverse=True)[: target.threads]) * 1e3
    return macs / (cycles_per_ms * _MOST_MACS), macs / (cycles_per_ms * _FEWEST_MACS)

"""Put devices in order, and describe them as rows of a table and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict

from advisor.devices.profiles.cores import core_remarks
from advisor.devices.profiles.loading import shipped_profiles
from advisor.devices.profiles.values import HOST, DeviceProfile, DeviceTarget

COLUMNS = (
    "device", "title", "kind", "soc", "target", "is_default", "runtime", "version", "accelerator", "threads",
    "precisions", "measurements", "memory_bytes", "arena_limit_bytes", "flash_limit_bytes", "provenance",
)  # fmt: skip
"""Columns of :func:`advisor.devices.to_frame`."""

LIST_COLUMNS = (
    "device", "title", "kind", "soc", "cores", "npu", "default_target", "targets", "measurements", "provenance",
)  # fmt: skip
"""Columns of the list of devices: one row each."""

SHIPPED, OWN, THIS_MACHINE = "shipped", "own", "this machine"


def ordered(profiles: Iterable[DeviceProfile]) -> tuple[DeviceProfile, ...]:
    """Return profiles, this machine first, the others by name."""
    return tuple(sorted(profiles, key=lambda profile: (profile.name != HOST, profile.origin is not None, profile.name)))


def provenance(profile: DeviceProfile) -> str:
    """Return where the profile comes from: ``shipped``, ``own`` or ``this machine``."""
    if profile.origin is None:
        return THIS_MACHINE
    return SHIPPED if profile.origin.resolve().parent == shipped_profiles().resolve() else OWN


def measured(profile: DeviceProfile, target: DeviceTarget | None = None) -> int:
    """Return how many latencies predictions may use, for one target or for all."""
    return sum(row.usable for row in profile.measurements if target is None or row.target == target.name)


def flagged(profile: DeviceProfile) -> int:
    """Return how many latencies predictions do not use."""
    return len(profile.measurements) - measured(profile)


def measurement_sources(profile: DeviceProfile) -> dict[str, int]:
    """Return the number of measurements by source, the largest first; ``not stated`` if a row names no source."""
    return dict(Counter(row.source_repo or "not stated" for row in profile.measurements).most_common())


def remarks(profile: DeviceProfile) -> tuple[str, ...]:
    """Return what limits predictions on the device's CPU: cores that are unknown, or figures that are assumptions."""
    return core_remarks(cluster.core for cluster in profile.cores)


def row_json(profile: DeviceProfile) -> dict[str, object]:
    """Return the device as an entry of a JSON list."""
    return {
        "name": profile.name,
        "title": profile.title,
        "kind": profile.kind,
        "soc": profile.soc,
        "targets": [target.name for target in profile.targets],
        "default_target": profile.default_target,
        "measurements": measured(profile),
        "provenance": provenance(profile),
    }


def list_row(profile: DeviceProfile) -> dict[str, object]:
    """Return the device as a row of a table, with the names of :data:`LIST_COLUMNS`; targets are counted."""
    entry = row_json(profile)
    cores = ", ".join(cluster.core for cluster in profile.cores)
    return {**entry, "device": profile.name, "cores": cores, "npu": profile.npu, "targets": len(profile.targets)}


def target_rows(profile: DeviceProfile) -> list[dict[str, object]]:
    """Return a row of a table for each target of a device, with the names of :data:`COLUMNS`."""
    limits = profile.limits
    return [
        {
            "device": profile.name,
            "title": profile.title,
            "kind": profile.kind,
            "soc": profile.soc,
            "target": target.name,
            "is_default": target.name == profile.default_target,
            "runtime": target.runtime,
            "version": target.version or None,
            "accelerator": target.accelerator,
            "threads": target.threads,
            "precisions": ", ".join(target.precisions),
            "measurements": measured(profile, target),
            "memory_bytes": profile.memory_bytes,
            "arena_limit_bytes": limits.arena_bytes,
            "flash_limit_bytes": limits.flash_bytes,
            "provenance": provenance(profile),
        }
        for target in profile.targets
    ]


def device_json(profile: DeviceProfile) -> dict[str, object]:
    """Return the whole profile as JSON, measurements as counts and sources. Sizes are bytes, null if unknown."""
    targets = [{**asdict(target), "measurements": measured(profile, target)} for target in profile.targets]
    return {
        **row_json(profile),
        "isa": profile.isa,
        "npu": profile.npu,
        "cores": [asdict(cluster) for cluster in profile.cores],
        "remarks": list(remarks(profile)),
        "memory_bytes": profile.memory_bytes,
        "storage_bytes": profile.storage_bytes,
        "limits": asdict(profile.limits),
        "connection": _connection(profile),
        "targets": targets,
        "measurements_not_used": flagged(profile),
        "measurement_sources": measurement_sources(profile),
        "sources": list(profile.sources),
        "file": str(profile.origin or ""),
    }


def _connection(profile: DeviceProfile) -> dict[str, str] | None:
    """Return whether ssh or adb connects to the device, and the name to use; None if the profile does not say."""
    settings = profile.connection
    if settings is None:
        return None
    return {"by": "ssh", "name": settings.ssh} if settings.ssh else {"by": "adb", "name": settings.adb}

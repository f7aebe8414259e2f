"""Devices as rows of a table and as JSON: what is listed, filtered and shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from advisor.core.errors import UsageError, nearest
from advisor.devices.profiles.paths import shipped_profiles
from advisor.devices.profiles.values import DeviceProfile, DeviceTarget

SHIPPED, OWN, THIS_MACHINE = "shipped", "own", "this machine"


def filtered(profiles: Iterable[DeviceProfile], kind: str = "", soc: str = "") -> tuple[DeviceProfile, ...]:
    """Return the profiles of one kind whose processor is meant by a text: this machine, then all others by name.

    Args:
        profiles: the devices.
        kind: one of :data:`advisor.devices.profiles.schema.KINDS`, or empty for all.
        soc: part of the name of the system on chip, of a core or of the neural accelerator, in any case.

    Raises:
        UsageError: an unknown kind; the nearest is named.
    """
    from advisor.devices.profiles.schema import KINDS

    if kind and kind not in KINDS:
        raise UsageError(f"--kind: '{kind}' is no kind of device{nearest(kind, KINDS)}", f"kinds: {', '.join(KINDS)}")
    meant = (profile for profile in profiles if kind in ("", profile.kind) and _has(profile, soc.casefold()))
    return tuple(sorted(meant, key=lambda profile: (profile.origin is not None, profile.name)))


def _has(profile: DeviceProfile, text: str) -> bool:
    parts = (profile.soc, profile.npu, *(cluster.core for cluster in profile.cores))
    return any(text in part.casefold() for part in parts)


def provenance(profile: DeviceProfile) -> str:
    """Return where the profile comes from: ``shipped``, ``own`` or ``this machine``."""
    if profile.origin is None:
        return THIS_MACHINE
    return SHIPPED if profile.origin.resolve().parent == shipped_profiles().resolve() else OWN


def measured(profile: DeviceProfile, target: DeviceTarget | None = None) -> int:
    """Return how many known latencies predictions may use, of one target or of all."""
    return sum(row.usable for row in profile.measurements if target is None or row.target == target.name)


def flagged(profile: DeviceProfile) -> int:
    """Return how many known latencies are kept for the record only."""
    return len(profile.measurements) - measured(profile)


def measurement_sources(profile: DeviceProfile) -> dict[str, int]:
    """Return how many measurements each source gave, most first; ``not stated`` where a row names none."""
    return dict(Counter(row.source_repo or "not stated" for row in profile.measurements).most_common())


def row_json(profile: DeviceProfile) -> dict[str, Any]:
    """Return the device as one entry of a list."""
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


def device_json(profile: DeviceProfile) -> dict[str, Any]:
    """Return everything the profile says; measurements as counts and sources. Sizes are bytes, null where unknown."""
    targets = [{**asdict(target), "measurements": measured(profile, target)} for target in profile.targets]
    return {
        **row_json(profile),
        "isa": profile.isa,
        "npu": profile.npu,
        "cores": [asdict(cluster) for cluster in profile.cores],
        "memory_bytes": profile.memory_bytes,
        "storage_bytes": profile.storage_bytes,
        "limits": asdict(profile.limits),
        "connection": _reached(profile),
        "targets": targets,
        "measurements_not_used": flagged(profile),
        "measurement_sources": measurement_sources(profile),
        "sources": list(profile.sources),
        "file": str(profile.origin or ""),
    }


def _reached(profile: DeviceProfile) -> dict[str, str] | None:
    """Return whether ssh or adb reaches the device, and by which name; None where its profile does not say."""
    reach = profile.connection
    if reach is None:
        return None
    return {"by": "ssh", "name": reach.ssh} if reach.ssh else {"by": "adb", "name": reach.adb}

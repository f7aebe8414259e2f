"""Turn profiles into rows of tables and into JSON, and say where a profile comes from.

``devices list`` and ``devices show`` print them. The columns, the keys of the JSON documents and
the words of :func:`find_provenance` are read by users' programs.
"""

from collections import Counter
from dataclasses import asdict

from advisor.devices._profiles.cores import core_remarks
from advisor.devices._profiles.loading import Profiles
from advisor.devices._profiles.phones import how_to_measure, phone_remarks
from advisor.devices._profiles.reading import find_shipped_profiles
from advisor.devices._profiles.values import HOST, KINDS, DeviceProfile, DeviceTarget

COLUMNS = (
    "device",
    "title",
    "kind",
    "soc",
    "target",
    "is_default",
    "runtime",
    "version",
    "accelerator",
    "threads",
    "precisions",
    "measurements",
    "memory_bytes",
    "arena_limit_bytes",
    "flash_limit_bytes",
    "provenance",
)
"""Columns of :func:`advisor.devices.to_frame`."""

LIST_COLUMNS: tuple[str, ...] = (
    "device",
    "title",
    "kind",
    "soc",
    "cores",
    "npu",
    "default_target",
    "targets",
    "measurements",
    "provenance",
)
"""Columns of the list of devices: one row each."""

SHIPPED = "shipped"
OWN_PROFILE = "own"
PREDICTED = "predicted"
THIS_MACHINE = "this machine"


def find_provenance(profile: DeviceProfile) -> str:
    """Return where the profile comes from:
    ``shipped``, ``own``, ``predicted`` or ``this machine``.
    """
    if profile.predicted_from:
        return PREDICTED
    if profile.origin is None:
        return THIS_MACHINE
    if profile.origin.resolve().parent == find_shipped_profiles().resolve():
        return SHIPPED
    return OWN_PROFILE


def is_own_profile(profile: DeviceProfile) -> bool:
    """Return whether the user or the team wrote the profile."""
    return find_provenance(profile) == OWN_PROFILE


def list_own_devices(profiles: Profiles) -> list[str]:
    """Return the names of the devices whose profiles the user or the team wrote."""
    return [name for name, profile in profiles.items() if is_own_profile(profile)]


def count_measured(profile: DeviceProfile, target: DeviceTarget | None = None) -> int:
    """Return how many latencies predictions may use, for one target or for all."""
    rows = profile.measurements
    if target is not None:
        rows = tuple(row for row in rows if row.target == target.name)
    return sum(row.usable for row in rows)


def count_flagged(profile: DeviceProfile) -> int:
    """Return how many latencies predictions do not use."""
    return len(profile.measurements) - count_measured(profile)


def measurement_sources(profile: DeviceProfile) -> dict[str, int]:
    """Return the number of measurements by source, the largest first;
    ``not stated`` if a row names no source.
    """
    return dict(
        Counter(row.source_repo or "not stated" for row in profile.measurements).most_common()
    )


def remark_unmeasured(profile: DeviceProfile, target: DeviceTarget) -> str:
    """Return that latencies of a CPU target are predicted, because none was measured, or none in
    one of its forms; else empty.

    Phones that no profile describes say so themselves.
    """
    if profile.name == HOST or profile.predicted_from or target.accelerator != "cpu":
        return ""
    if count_measured(profile, target):
        return _remark_forms(profile, target)
    names = set[str]()
    for other in profile.targets:
        if count_measured(profile, other):
            # A target of the same runtime differs by its kernels or threads,
            # which only its name tells.
            names.add(other.name if other.runtime == target.runtime else other.runtime)
    known = f", only with {', '.join(sorted(names))}" if names else ""
    basis = "from its cores" if profile.cores else "without its cores, which the profile lacks"
    return (
        f"{profile.name}: nothing was measured on {target.name}{known}; latencies are predicted"
        f" {basis}, and another build or number of threads may take twice or half as long;"
        f" {'; '.join((how_to_measure(profile), *_remark_kind(profile)))}"
    )


def _remark_forms(profile: DeviceProfile, target: DeviceTarget) -> str:
    """Return which forms of a measured target were not measured; empty if all were."""
    measured = set[str]()
    for row in profile.measurements_on(target):
        if row.usable:
            measured.add(row.precision)
    others = [form for form in target.precisions if form not in measured]
    if not others:
        return ""
    return (
        f"{profile.name}: only {' and '.join(sorted(measured))} was measured on {target.name};"
        f" latencies in {' and '.join(others)} are predicted without a measurement, so their"
        f" intervals are wide; {how_to_measure(profile)}"
    )


def list_remarks(profile: DeviceProfile) -> tuple[str, ...]:
    """Return what limits predictions on the device:
    nothing was measured on it, its cores are unknown or assumed.
    """
    return (
        *_remark_kind(profile),
        *phone_remarks(profile),
        *core_remarks(cluster.core for cluster in profile.cores),
    )


def _remark_kind(profile: DeviceProfile) -> tuple[str, ...]:
    """Return what a device counts as, if its file states no kind."""
    if not profile.is_kind_assumed:
        return ()
    article = "a" if profile.kind != "accelerator" else "an"
    return (
        f"its file states no kind, so it counts as {article} {profile.kind}; if it is none, write"
        f" the kind into it: {', '.join(KINDS)}",
    )


def row_json(profile: DeviceProfile) -> dict[str, object]:
    """Return the device as an entry of a JSON list."""
    return {
        **{fact: getattr(profile, fact) for fact in ("name", "title", "kind", "soc")},
        "targets": [target.name for target in profile.targets],
        "default_target": profile.default_target,
        "measurements": count_measured(profile),
        "provenance": find_provenance(profile),
    }


def list_row(profile: DeviceProfile) -> dict[str, object]:
    """Return the device as a row of a table, with the names of :data:`LIST_COLUMNS`;
    targets are counted.
    """
    entry = row_json(profile)
    cores = ", ".join(cluster.core for cluster in profile.cores)
    return {
        **entry,
        "device": profile.name,
        "cores": cores,
        "npu": profile.npu,
        "targets": len(profile.targets),
    }


def target_rows(profile: DeviceProfile) -> list[dict[str, object]]:
    """Return a row of a table for each target of a device, with the names of :data:`COLUMNS`."""
    limits = profile.limits
    rows = list[dict[str, object]]()
    for target in profile.targets:
        rows.append(
            {
                "title": profile.title,
                "kind": profile.kind,
                "soc": profile.soc,
                "memory_bytes": profile.memory_bytes,
                "runtime": target.runtime,
                "accelerator": target.accelerator,
                "threads": target.threads,
                "device": profile.name,
                "target": target.name,
                "is_default": target.name == profile.default_target,
                "version": target.version or None,
                "precisions": ", ".join(target.precisions),
                "measurements": count_measured(profile, target),
                "arena_limit_bytes": limits.arena_bytes,
                "flash_limit_bytes": limits.flash_bytes,
                "provenance": find_provenance(profile),
            }
        )
    return rows


def device_json(profile: DeviceProfile) -> dict[str, object]:
    """Return the whole profile as JSON, measurements as counts and sources.

    Sizes are bytes, null if unknown.
    """
    connection = None
    if profile.connection and profile.connection.way:
        connection = {"by": profile.connection.way, "name": profile.connection.address}
    targets = []
    for target in profile.targets:
        targets.append({**asdict(target), "measurements": count_measured(profile, target)})
    return {
        **row_json(profile),
        "isa": profile.isa,
        "npu": profile.npu,
        "cores": list(map(asdict, profile.cores)),
        "remarks": list(list_remarks(profile)),
        "memory_bytes": profile.memory_bytes,
        "storage_bytes": profile.storage_bytes,
        "limits": asdict(profile.limits),
        "connection": connection,
        "targets": targets,
        "measurements_not_used": count_flagged(profile),
        "measurement_sources": measurement_sources(profile),
        "sources": list(profile.sources),
        "file": str(profile.origin or ""),
    }

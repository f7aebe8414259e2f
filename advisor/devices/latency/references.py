"""Say how comparable the measured targets are with another one: runtime, release and core."""

import re
from collections.abc import Iterable

from advisor.devices.latency.table import Column, runtime_family

REFERENCES = ("release", "same", "version", "runtime", "core")
"""Differences of the nearest measured target of the kind, the worst last: in the release on the same silicon, in the
silicon only, in the runtime's version, in the runtime, or in the design of the core."""

MAJOR = 10
"""Minor releases that a major one counts as."""

UNSTATED = 8
"""Minor releases between two versions if one is not stated, or if they have no part in common."""

_PART = re.compile(r"([a-z]*)(\d+)\.(\d+)")


def reference_of(column: Column, others: Iterable[Column]) -> str:
    """Return which of :data:`REFERENCES` the targets ``others`` are for ``column``.

    A version counts up to its second number: 2.17.0 and 2.17.1 are one. A target without a version, and a core or
    processor that is not stated, are taken as known.
    """
    kind = [other for other in others if other.kind == column.kind]
    if column.core and all(other.core != column.core for other in kind):
        return "core"
    runtime = [each for each in kind if runtime_family(each.runtime) == runtime_family(column.runtime)]
    if not runtime:
        return "runtime"
    versions = {_release(each.version) for each in runtime} - {""}
    return "version" if column.version and versions and _release(column.version) not in versions else "same"


def _release(version: str) -> str:
    return ".".join(version.split(".")[:2])


def distance(one: str, other: str) -> int:
    """Return the number of minor releases between two versions such as ``2.17.0+qairt2.42.0`` and ``qairt2.50.0``.

    Parts of one name are compared, and the largest distance counts.
    """
    if one == other:
        return 0
    left, right = (
        {name: (int(major), int(minor)) for name, major, minor in _PART.findall(version)} for version in (one, other)
    )
    steps = [
        MAJOR * abs(left[name][0] - right[name][0])
        + (abs(left[name][1] - right[name][1]) if left[name][0] == right[name][0] else 0)
        for name in left.keys() & right.keys()
    ]
    return max(steps) if steps else UNSTATED


def other_release(one: Column, other: Column) -> bool:
    """Return whether both targets state the version of their runtime, and these are different releases."""
    return bool(one.version and other.version) and distance(one.version, other.version) > 0


def related_releases(other: Column, column: Column) -> bool:
    """Return whether two targets are releases of one runtime on the same silicon."""
    same = (other.silicon, other.kind, other.precision) == (column.silicon, column.kind, column.precision)
    same = same and runtime_family(other.runtime) == runtime_family(column.runtime) and other.speed == column.speed
    return same and other_release(other, column)

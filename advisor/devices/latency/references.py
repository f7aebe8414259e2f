"""Say how comparable the measured targets are with another one."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.devices.latency.processor import runtime_family
from advisor.devices.latency.table import Column

REFERENCES = ("same", "version", "runtime", "core")
"""How the nearest measured target of the kind differs, the worst last: not at all, in the runtime's version, in the
runtime, or in the design of the core."""


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

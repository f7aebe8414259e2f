"""Time the files, block by block in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from advisor.compression.user_model.values import Form, Speed
from advisor.core.errors import UsageError
from advisor.measurement.latency.findings import FileBenchmark
from advisor.measurement.latency.session import benchmark

EFFORT = "search"
"""The effort of a search: about a second a file."""


def time_forms(forms: list[Form], tell: Callable[[str], None]) -> tuple[list[Form], tuple[str, ...]]:
    """Return the rows with their latency at one thread, and notes on the timing.

    A file that the runtime cannot run keeps its other figures and says why it has no latency.
    """
    paths = [form.path for form in forms if form.status == "ok"]
    try:
        found = benchmark(*paths, effort=EFFORT, pipeline=False, force=True, tell=tell)
    except UsageError as error:
        return forms, (f"not timed: {error.message}",)
    rows = {file.model: file for file in found.files}
    return [_timed(form, rows.get(form.path)) for form in forms], found.notes


def _timed(form: Form, found: FileBenchmark | None) -> Form:
    if found is None:
        return form
    if found.timing is None:
        return replace(form, reason=found.failure)
    result, (low, high) = found.timing.results[0], found.timing.results[0].interval_ms
    memory = found.timing.peak_memory_bytes
    return replace(form, speed=Speed(result.rank_ms, low, high, memory, result.verdict.value))

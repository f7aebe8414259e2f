"""Store the timings of one file: latency, load time and memory at each thread count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core.codec import parse, to_json
from advisor.core.evaluation_facts import TimeSummary, TimingFacts
from advisor.core.evaluation_json import facts_from_json
from advisor.core.quantity import Quantity
from advisor.engine.pipeline.stage import read_result

if TYPE_CHECKING:
    from advisor.measurement.latency.results import ModelTiming

THOROUGH, SURVEY = "search", "survey"
"""Efforts of a timing: full, or brief if there are hundreds of files."""

SURVEYED_FROM = 300
"""From this number of configurations on, all files are timed briefly first, and only finalists fully. This halves the
time for the whole catalogue of 760 configurations."""


def effort_for(configurations: int) -> str:
    """Return the timing effort for each file of a search over this many configurations."""
    return SURVEY if configurations >= SURVEYED_FROM else THOROUGH


@dataclass(frozen=True)
class ThreadTiming:
    """One file at one thread count.

    Attributes:
        latency: median in ms; None if this machine is no device of the question.
        latency_p90: 90th percentile in ms, or None for the same reason.
        memory: peak private memory in bytes, None if it is not known.
        contended: whether other work disturbed the timing.
        facts: how it was measured.
    """

    latency: Quantity | None = None
    latency_p90: Quantity | None = None
    memory: Quantity | None = None
    contended: bool = False
    facts: TimingFacts | None = None


@dataclass(frozen=True)
class Timings:
    """One file at every thread count of a search.

    Attributes:
        by_threads: timings by number of CPU threads.
    """

    by_threads: Mapping[int, ThreadTiming]

    @classmethod
    def within(cls, folder: Path) -> Timings:
        """Return the timings in a stage's folder."""
        rows = read_result(folder)
        return cls({int(threads): _timing(row) for threads, row in rows.items()})

    @property
    def contended(self) -> bool:
        """True if other work disturbed any of them."""
        return any(timing.contended for timing in self.by_threads.values())


def rows_of(timing: ModelTiming, counts: tuple[int, ...]) -> dict[str, dict[str, Any]]:
    """Return timings as JSON, by thread count."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {str(count): _row(timing, count, now) for count in counts}


def _row(timing: ModelTiming, threads: int, now: str) -> dict[str, Any]:
    result = timing.at(threads)
    quantities = {name: quantity.to_json() for name, quantity in timing.to_quantities(threads).items()}
    facts = TimingFacts(
        load_ms=result.load_ms,
        first_ms=result.first_ms,
        threads=threads,
        effort=timing.effort,
        verdict=result.verdict.value,
        verdict_reason=result.reason,
        measured_at=now,
        wall_ms=TimeSummary(result.wall.p50, result.wall.p90, result.wall.min, result.wall.cv),
        cpu_ms=TimeSummary(result.cpu.p50, result.cpu.p90) if result.cpu else None,
    )
    return {**quantities, "contended": result.contended, "details": to_json(facts, defaults=True)}


def _timing(row: Mapping[str, Any]) -> ThreadTiming:
    memory = row.get("memory")
    return ThreadTiming(
        latency=parse(Quantity, row["latency"]),
        latency_p90=parse(Quantity, row["latency_p90"]),
        memory=parse(Quantity, memory) if memory else None,
        contended=row["contended"],
        facts=facts_from_json(TimingFacts, row["details"]),
    )

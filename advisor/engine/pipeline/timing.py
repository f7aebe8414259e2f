"""Latency, load time and memory of artefacts on this machine, taken while nothing else of the search runs."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from advisor.core.details_json import timing_from_json, timing_to_json
from advisor.core.evaluation_facts import TimeSummary, TimingFacts
from advisor.core.figures import HOST
from advisor.core.quantity import Quantity
from advisor.engine.pipeline.context import Context, versions
from advisor.engine.pipeline.stages import Artefact
from advisor.measurement.latency import timing as latency
from advisor.measurement.latency.results import ModelTiming

THOROUGH, SURVEY = "search", "survey"
"""How long an artefact is timed: as long as the answer needs, or briefly where there are hundreds of them."""

SURVEYED_FROM = 300
"""From so many configurations on all are timed briefly first, and finalists then as long as the answer needs: the whole
catalogue is 760 and takes half the time so."""


def effort_for(configurations: int) -> str:
    """Return how long each artefact of a search over so many configurations is timed."""
    return SURVEY if configurations >= SURVEYED_FROM else THOROUGH


@dataclass(frozen=True)
class ThreadTiming:
    """One artefact at one thread count."""

    latency: Quantity | None
    latency_p90: Quantity | None
    memory: Quantity | None
    contended: bool
    facts: TimingFacts | None


class Timer:
    """Measures artefacts, one at a time; what was measured undisturbed on this machine before is taken as it was.

    Args:
        context: the search.
        effort: how long; a more thorough timing that was taken before is as good.
    """

    def __init__(self, context: Context, effort: str = THOROUGH) -> None:
        self._context, self._effort = context, effort
        self._tasks: dict[str, asyncio.Task[dict[str, Any]]] = {}
        self.spent: dict[str, float] = {}

    async def measure(self, artefact: Artefact, threads: int, priority: float, card: str, recipe: str) -> ThreadTiming:
        """Return the artefact's timing at a thread count; all thread counts of the search are measured together."""
        task = self._tasks.get(artefact.sha256)
        if task is None:
            task = self._tasks[artefact.sha256] = asyncio.ensure_future(
                self._timing(artefact, priority, card, f"timing {recipe} of")
            )
        row = (await asyncio.shield(task))[str(threads)]
        memory = row.get("memory")
        return ThreadTiming(
            latency=Quantity.from_json(row["latency"]),
            latency_p90=Quantity.from_json(row["latency_p90"]),
            memory=Quantity.from_json(memory) if memory else None,
            contended=row["contended"],
            facts=timing_from_json(row["details"]),
        )

    async def _timing(self, artefact: Artefact, priority: float, card: str, doing: str) -> dict[str, Any]:
        cache, notify = self._context.cache, self._context.notify
        inputs = self._inputs(artefact, self._effort)
        kept = [
            cache.folder("timing-1", self._inputs(artefact, effort))
            for effort in dict.fromkeys((THOROUGH, self._effort))
        ]
        for folder in kept:
            if self._context.remeasure:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            if folder.is_dir():
                notify("timing", card, doing, "cached")
                return _read(folder)
        async with self._context.machine.alone(priority):
            notify("timing", card, doing, "started")
            start = time.monotonic()
            rows = await asyncio.to_thread(self._run, artefact)
            self.spent["timing"] = self.spent.get("timing", 0.0) + time.monotonic() - start
        if not any(row["contended"] for row in rows.values()):
            await asyncio.to_thread(cache.get, "timing-1", inputs, lambda out: _write(out, rows))
        notify("timing", card, doing, "done")
        return rows

    def _inputs(self, artefact: Artefact, effort: str) -> dict[str, Any]:
        return {
            "artefact": artefact.sha256,
            "host": self._context.host.fingerprint,
            "threads": list(self._context.question.thread_counts),
            "effort": effort,
            **versions("ai-edge-litert"),
        }

    def _run(self, artefact: Artefact) -> dict[str, Any]:
        counts = self._context.question.thread_counts
        timing = self._context.on_device(HOST, latency.measure, artefact.path, counts, self._effort)
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
    return {**quantities, "contended": result.contended, "details": timing_to_json(facts)}


def _write(folder: Path, rows: dict[str, Any]) -> None:
    (folder / "timing.json").write_text(json.dumps(rows), encoding="utf-8")


def _read(folder: Path) -> dict[str, Any]:
    rows: dict[str, Any] = json.loads((folder / "timing.json").read_text(encoding="utf-8"))
    return rows

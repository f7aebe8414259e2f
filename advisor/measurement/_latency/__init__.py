"""The results of a timing as values:
one result per thread count, one timing per file, one ratio per pair of files.

``timing.py`` makes them. Compare :attr:`LatencyResult.budget_ms` with a budget, and
:attr:`LatencyResult.rank_ms` between artefacts. The fields and ``entries`` are keys of JSON
documents and of stages in the cache.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from operator import truediv
from typing import Any

from advisor.core import Provenance, Quantity, Written, plural
from advisor.isolation import (
    WAITED_LIMIT,
    LoadReading,
    SeriesDocument,
    agent,
    compute_waited_share,
)
from advisor.measurement import _host as host
from advisor.measurement._latency.summary import LEVEL, Summary, summarise_blocks

UNSTABLE_CV = 0.05  # of the block medians; 2-3 % between runs is usual on an idle machine
# CPU / wall time at one thread: >= 0.99 on an idle machine, 0.45 with 3 busy processes.
CPU_SHARE_LIMIT = 0.9
# Part of another processor that must be idle for one thread, because processors share caches.
IDLE_NEIGHBOUR = 0.5
# Processors that others may take from the threads; /proc/stat cannot show less.
OTHERS_LIMIT = 0.2


class Verdict(StrEnum):
    """The verdict on a measurement: only a stable one can be trusted."""

    STABLE = "stable"
    UNSTABLE = "unstable"
    CONTENDED = "contended"


def _compute_cpu_share(
    cpus_ms: Sequence[Sequence[float]], walls_ms: Sequence[Sequence[float]]
) -> float:
    """Return the share of the time in which the thread had the processor (0-1),
    given the runs of each block.
    """
    runs_cpu_ms = list(chain.from_iterable(cpus_ms))
    runs_wall_ms = list(chain.from_iterable(walls_ms))
    # The median shows a thread that shares its core all the time,
    # the sums one that lost it for a few long runs.
    usual: float = statistics.median(map(truediv, runs_cpu_ms, runs_wall_ms))
    return min(usual, sum(runs_cpu_ms) / sum(runs_wall_ms))


def _describe_contention(
    threads: int, cpu_share: float | None, waited: float | None, load: LoadReading
) -> str:
    """Return what disturbed the runs, or an empty string."""
    if cpu_share is not None and cpu_share < CPU_SHARE_LIMIT:
        return f"the thread had the processor only {cpu_share:.0%} of the time"
    if waited is not None and waited > WAITED_LIMIT:
        return f"the threads waited {waited:.0%} of the time for a processor"
    others = load["others_cores"]
    cores = load["cores"]
    # Other work is harmless on cores that the threads do not need,
    # but a busy neighbour takes a part of the caches.
    free = max(0, cores - threads)
    limit = max(free - IDLE_NEIGHBOUR, OTHERS_LIMIT) if threads == 1 else free + OTHERS_LIMIT
    if others is not None and others > limit:
        timing = f"during a timing with {plural(threads, 'thread')}"
        return f"other processes kept {others:.1f} of {cores} processors busy {timing}"
    # Last, because it is no fault of the machine: the user asked for more threads than it has.
    if threads > cores:
        return f"{threads} threads share {cores} processors"
    return ""


@dataclass(frozen=True)
class LatencyResult(Written):
    """The latency of one file at one thread count; times in milliseconds."""

    entries = ("*", "rank_ms", "budget_ms", "clock")

    threads: int  #: number of threads
    wall: Summary  #: statistics of the wall time of each run
    #: statistics of the CPU time of each run;
    #: None at several threads, because no clock measures it per run
    cpu: Summary | None
    first_ms: float  #: the first run after loading
    #: time to make the interpreter of the memory-mapped file and to allocate its tensors
    load_ms: float
    contended: bool  #: whether other processes took processor time from the runs
    verdict: Verdict  #: ``stable``, ``unstable`` or ``contended``
    reason: str  #: reason of the verdict, with its figure
    #: CPU time / wall time at one thread: the smaller of the runs' median and the ratio of the
    #: sums; None at several threads. The sums matter because a short run is rarely disturbed, but
    #: then for long
    cpu_share: float | None
    #: share of the time that the threads waited for a processor, None if unknown
    waited_share: float | None
    others_cores: float | None  #: processors that other processes kept busy, None if unknown
    block_medians_ms: tuple[float, ...]  #: median of each block, in the order measured
    block_cpu_medians_ms: tuple[float, ...]  #: the same for the CPU time, empty at several threads

    @property
    def disturbance(self) -> tuple[bool, float]:
        """A sort key for attempts: first the uncontended ones, then by the time waited."""
        lost = 1 - self.cpu_share if self.cpu_share is not None else self.waited_share
        return self.contended, lost if lost is not None else (self.others_cores or 0.0)

    @property
    def _trusted(self) -> Summary:
        """CPU time if the wall time was contended and CPU time is known, otherwise wall time."""
        return self.cpu if self.contended and self.cpu is not None else self.wall

    @property
    def clock(self) -> str:
        """The clock of :attr:`rank_ms` and :attr:`budget_ms`."""
        if not self.contended:
            return "wall time"
        if self.cpu:
            return "CPU time (contended machine)"
        return "shortest wall time (contended machine)"

    @property
    def rank_ms(self) -> float:
        """The figure to rank artefacts by: the median of the block medians.

        On a contended machine at one thread, it is the median of the CPU time, which stays within
        4 % of the idle figure while the wall time grows sixfold. At several threads, it is the
        shortest wall time.
        """
        return self.wall.min if self.contended and self.cpu is None else self._trusted.median

    @property
    def interval_ms(self) -> tuple[float, float]:
        """95 % bootstrap interval of :attr:`rank_ms`."""
        if self.contended and self.cpu is None:
            return self.wall.min, self.wall.median
        return self._trusted.low, self._trusted.high

    @property
    def budget_ms(self) -> float:
        """The figure to compare with a budget: the 90th percentile (MLPerf Mobile's metric).

        On a contended machine at one thread, it is that of the CPU time;
        at several threads, that of the wall time.
        """
        return self._trusted.p90

    def to_quantities(self, source: str) -> dict[str, Quantity]:
        """Return ``latency`` and ``latency_p90`` in ms with provenance ``measured``."""
        low, high = self.interval_ms
        where = f"{source}, {plural(self.threads, 'thread')}, {self.clock}"
        common: dict[str, Any] = {
            "unit": "ms",
            "provenance": Provenance.MEASURED,
            "n": self.wall.runs,
            "source": where,
        }
        return {
            "latency": Quantity(value=self.rank_ms, low=low, high=high, level=LEVEL, **common),
            "latency_p90": Quantity(value=self.budget_ms, **common),
        }

    @classmethod
    def of_series(cls, series: SeriesDocument, load: LoadReading) -> LatencyResult:
        """Return the statistics and the verdict of one series."""
        blocks = series["blocks"]
        walls_ms = []
        for block in blocks:
            walls_ms.append([value / 1e6 for value in block["wall_ns"]])
        cpus_ms = list[list[float]]()
        # CPU time ranks at one thread only, and a browser has no such clock.
        if series["threads"] == 1 and all(block["cpu_ns"] for block in blocks):
            for block in blocks:
                cpus_ms.append([value / 1e6 for value in block["cpu_ns"] or ()])
        wall = summarise_blocks(walls_ms)
        cpu = summarise_blocks(cpus_ms) if cpus_ms else None
        share = _compute_cpu_share(cpus_ms, walls_ms) if cpus_ms else None
        waited = compute_waited_share(series["threads"], blocks)
        contention = _describe_contention(series["threads"], share, waited, load)
        verdict = Verdict.STABLE
        reason = f"block medians vary by {wall.block_cv:.1%}"
        # Contention explains a variation between blocks, so it is named first.
        if contention:
            verdict = Verdict.CONTENDED
            reason = contention
        elif wall.block_cv > UNSTABLE_CV:
            verdict = Verdict.UNSTABLE
            reason = f"{reason} (limit {UNSTABLE_CV:.0%})"
        return cls(
            threads=series["threads"],
            wall=wall,
            cpu=cpu,
            first_ms=series["first_ns"] / 1e6,
            load_ms=series["load_ns"] / 1e6,
            contended=bool(contention),
            verdict=verdict,
            reason=reason,
            cpu_share=share,
            waited_share=waited,
            others_cores=load["others_cores"],
            block_medians_ms=tuple(map(statistics.median, walls_ms)),
            block_cpu_medians_ms=tuple(map(statistics.median, cpus_ms)),
        )


@dataclass(frozen=True)
class ModelTiming(Written):
    """The measurements of one file in a new process."""

    entries = ("schema_version", "*")
    schema_version = agent.SCHEMA_VERSION

    model: str  #: the file's path as given
    results: tuple[LatencyResult, ...]  #: one result for each thread count, in the given order
    #: private memory (clean + dirty) that loading and the first run added at the first thread
    #: count, None if the system does not tell
    peak_memory_bytes: int | None
    #: its dirty part, which the system cannot drop and read again from the file
    dirty_memory_bytes: int | None
    #: private memory of the whole process, including interpreter and libraries
    process_memory_bytes: int | None
    #: time to load from bytes in memory instead of the mapped file, None if not measured
    load_content_ms: float | None
    runtime: str  #: package and version, such as ``ai-edge-litert==2.3.0``
    effort: str  #: name of the effort
    host: host.Host  #: the machine

    @property
    def source(self) -> str:
        """The source of the figures, for :class:`Quantity`."""
        return f"host {self.host}, {self.runtime}"

    def at(self, threads: int) -> LatencyResult:
        """Return the result at a thread count; raise KeyError if it was not measured."""
        return {result.threads: result for result in self.results}[threads]

    def to_quantities(self, threads: int) -> dict[str, Quantity]:
        """Return ``latency``, ``latency_p90`` and, if known, ``memory`` at one thread count."""
        quantities = self.at(threads).to_quantities(self.source)
        if self.peak_memory_bytes is not None:
            memory = float(self.peak_memory_bytes)
            quantities["memory"] = Quantity(
                memory, "bytes", Provenance.MEASURED, n=1, source=self.source
            )
        return quantities


@dataclass(frozen=True)
class Ratio(Written):
    """The latency of one file divided by that of the reference: 1.2 is 20 % slower."""

    entries = ("*", "differs")

    model: str  #: the file's path
    reference: str  #: the path of the file it is compared with
    threads: int  #: number of threads
    ratio: float  #: median over the paired blocks, a quotient of two latencies
    low: float  #: lower end of its 95 % bootstrap interval
    high: float  #: upper end of that interval

    @property
    def differs(self) -> bool:
        """True if the interval excludes 1."""
        return not self.low <= 1 <= self.high

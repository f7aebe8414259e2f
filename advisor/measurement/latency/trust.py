"""Turn the agent's times into results, and decide whether they are reliable."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from operator import truediv

from advisor.core.units import plural
from advisor.isolation.agent import LoadReading, SeriesDocument
from advisor.measurement.latency.results import LatencyResult
from advisor.measurement.latency.summary import UNSTABLE_CV, Summary, Verdict, block_medians, summarise

CPU_SHARE_LIMIT = 0.9  # CPU / wall time at one thread: >= 0.99 on an idle machine, 0.45 with 3 busy processes
WAITED_LIMIT = 0.1  # share of the time that the threads waited for a processor: < 0.01 on an idle machine
IDLE_NEIGHBOUR = 0.5  # part of another processor that must be idle for one thread, because processors share caches
OTHERS_LIMIT = 0.2  # processors that others may take from the threads; /proc/stat cannot show less


def judge(series: SeriesDocument, load: LoadReading) -> LatencyResult:
    """Return the statistics and the verdict of one series."""
    walls = _milliseconds(block["wall_ns"] for block in series["blocks"])
    known = series["threads"] == 1 and all(block["cpu_ns"] for block in series["blocks"])  # a browser has no such clock
    cpus = _milliseconds(block["cpu_ns"] or () for block in series["blocks"]) if known else []
    wall, cpu = summarise(walls), summarise(cpus) if cpus else None
    share, waited = _cpu_share(walls, cpus), _waited_share(series)
    contention = _contention(series["threads"], share, waited, load)
    verdict, reason = _verdict(contention, wall)
    return LatencyResult(
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
        block_medians_ms=tuple(block_medians(walls)),
        block_cpu_medians_ms=tuple(block_medians(cpus)) if cpus else (),
    )


def _milliseconds(blocks: Iterable[Sequence[int]]) -> list[list[float]]:
    return [[value / 1e6 for value in block] for block in blocks]


def _cpu_share(walls: list[list[float]], cpus: list[list[float]]) -> float | None:
    """Return CPU / wall time: the smaller of the runs' median and the ratio of the sums; None without CPU times."""
    if not cpus:
        return None
    cpu, wall = ([value for row in rows for value in row] for rows in (cpus, walls))
    median: float = statistics.median(map(truediv, cpu, wall))
    return min(median, sum(cpu) / sum(wall))


def _waited_share(series: SeriesDocument) -> float | None:
    """Return the share of time that a thread of the series waited for a processor, None if unknown."""
    waited = [block["waited_ns"] for block in series["blocks"] if block["waited_ns"] is not None]
    if len(waited) < len(series["blocks"]):
        return None
    return float(sum(waited) / (series["threads"] * sum(block["elapsed_ns"] for block in series["blocks"])))


def _contention(threads: int, cpu_share: float | None, waited: float | None, load: LoadReading) -> str:
    """Return what disturbed the runs, or an empty string."""
    if cpu_share is not None and cpu_share < CPU_SHARE_LIMIT:
        return f"the thread had the processor only {cpu_share:.0%} of the time"
    if waited is not None and waited > WAITED_LIMIT:
        return f"the threads waited {waited:.0%} of the time for a processor"
    others, cores = load["others_cores"], load["cores"]
    free = max(0, cores - threads)
    limit = max(free - IDLE_NEIGHBOUR, OTHERS_LIMIT) if threads == 1 else free + OTHERS_LIMIT
    if others is not None and others > limit:
        timing = f"during a timing with {plural(threads, 'thread')}"
        return f"other processes kept {others:.1f} of {cores} processors busy {timing}"
    if threads > cores:
        return f"{threads} threads share {cores} processors"
    return ""


def _verdict(contention: str, wall: Summary) -> tuple[Verdict, str]:
    if contention:
        return Verdict.CONTENDED, contention
    if wall.block_cv > UNSTABLE_CV:
        return Verdict.UNSTABLE, f"block medians vary by {wall.block_cv:.1%} (limit {UNSTABLE_CV:.0%})"
    return Verdict.STABLE, f"block medians vary by {wall.block_cv:.1%}"


def disturbance(result: LatencyResult) -> tuple[bool, float]:
    """Return a sort key for attempts: those not contended come first, then those that waited less."""
    lost = 1 - result.cpu_share if result.cpu_share is not None else result.waited_share
    return result.contended, lost if lost is not None else (result.others_cores or 0.0)

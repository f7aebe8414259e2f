"""Turns the agent's raw times into results and judges whether they can be trusted."""

from __future__ import annotations

import statistics
from operator import truediv
from typing import Any

from advisor.measurement.latency.results import LatencyResult
from advisor.measurement.latency.summary import UNSTABLE_CV, Summary, Verdict, block_medians, summarise

CPU_SHARE_LIMIT = 0.9  # CPU / wall at one thread: measured >= 0.99 on an idle host, 0.45 with 3 busy processes
WAITED_LIMIT = 0.1  # share of the time that the threads stood ready without a processor: < 0.01 on an idle host
IDLE_NEIGHBOUR = 0.5  # one thread wants so much of another processor idle: neighbours share caches and memory
OTHERS_LIMIT = 0.2  # processors that others take from the threads; finer is below the tick of /proc/stat


def judge(lane: dict[str, Any], load: dict[str, Any]) -> LatencyResult:
    """Summarise one lane and judge it."""
    walls = _milliseconds(lane, "wall_ns")
    cpus = _milliseconds(lane, "cpu_ns") if lane["threads"] == 1 else []
    wall, cpu = summarise(walls), summarise(cpus) if cpus else None
    share, waited = _cpu_share(walls, cpus), _waited_share(lane)
    contention = _contention(lane["threads"], share, waited, load)
    verdict, reason = _verdict(contention, wall)
    return LatencyResult(
        threads=lane["threads"],
        wall=wall,
        cpu=cpu,
        first_ms=lane["first_ns"] / 1e6,
        load_ms=lane["load_ns"] / 1e6,
        contended=bool(contention),
        verdict=verdict,
        reason=reason,
        cpu_share=share,
        waited_share=waited,
        others_cores=load["others_cores"],
        block_medians_ms=tuple(block_medians(walls)),
        block_cpu_medians_ms=tuple(block_medians(cpus)) if cpus else (),
    )


def _milliseconds(lane: dict[str, Any], clock: str) -> list[list[float]]:
    """Return the runs of each block by one clock, in milliseconds."""
    return [[value / 1e6 for value in block[clock]] for block in lane["blocks"]]


def _cpu_share(walls: list[list[float]], cpus: list[list[float]]) -> float | None:
    """Return the lesser of the median and the total CPU / wall time of the runs, None without CPU times."""
    if not cpus:
        return None
    cpu, wall = ([value for row in rows for value in row] for rows in (cpus, walls))
    median: float = statistics.median(map(truediv, cpu, wall))
    return min(median, sum(cpu) / sum(wall))


def _waited_share(lane: dict[str, Any]) -> float | None:
    """Return the part of its time that a thread of the lane stood ready without a processor."""
    if any(block["waited_ns"] is None for block in lane["blocks"]):
        return None
    waited = sum(block["waited_ns"] for block in lane["blocks"])
    return float(waited / (lane["threads"] * sum(block["elapsed_ns"] for block in lane["blocks"])))


def _contention(threads: int, cpu_share: float | None, waited: float | None, load: dict[str, Any]) -> str:
    """Say what disturbed the runs, or return an empty string."""
    if cpu_share is not None and cpu_share < CPU_SHARE_LIMIT:
        return f"the thread had the processor only {cpu_share:.0%} of the time"
    if waited is not None and waited > WAITED_LIMIT:
        return f"the threads waited {waited:.0%} of the time for a processor"
    shown = "1 thread" if threads == 1 else f"{threads} threads"
    others, free = load["others_cores"], max(0, load["cores"] - threads)
    limit = max(free - IDLE_NEIGHBOUR, OTHERS_LIMIT) if threads == 1 else free + OTHERS_LIMIT
    if others is not None and others > limit:
        return f"other processes kept {others:.1f} of {load['cores']} processors busy beside {shown}"
    if threads > load["cores"]:
        return f"{threads} threads share {load['cores']} processors"
    return ""


def _verdict(contention: str, wall: Summary) -> tuple[Verdict, str]:
    """Judge a result."""
    if contention:
        return Verdict.CONTENDED, contention
    if wall.block_cv > UNSTABLE_CV:
        return Verdict.UNSTABLE, f"block medians vary by {wall.block_cv:.1%} (limit {UNSTABLE_CV:.0%})"
    return Verdict.STABLE, f"block medians vary by {wall.block_cv:.1%}"


def disturbance(result: LatencyResult) -> tuple[bool, float]:
    """Order attempts: those not contended first, then by how much the runs waited."""
    lost = 1 - result.cpu_share if result.cpu_share is not None else result.waited_share
    return result.contended, lost if lost is not None else (result.others_cores or 0.0)

"""Say in words which thread count is the fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.measurement.latency.results import LatencyResult, ModelTiming


def advise_threads(timing: ModelTiming, loaded: Sequence[LatencyResult] = ()) -> tuple[str, ...]:
    """Return which thread count is the fastest alone and, where that was measured, beside a background load.

    Args:
        timing: the measurement alone.
        loaded: the same thread counts beside a load on the other processors; their wall time is what counts there.
    """
    alone = {result.threads: result for result in timing.results}
    beside = {result.threads: result.wall.median for result in loaded}
    if 1 not in alone or len(alone) < 2:
        return _single(beside)
    contended = [count for count, row in alone.items() if row.contended]
    if contended:
        counts = ", ".join(map(str, contended))
        first = f"the machine was contended at {counts} threads: measure again on a quiet machine to compare counts"
    else:
        first = _fastest({count: row.rank_ms for count, row in alone.items()}, "alone")
    return (first, _fastest(beside, "beside a load on the other processors")) if beside else (first,)


def _single(beside: Mapping[int, float]) -> tuple[str, ...]:
    """Say what one thread count does beside a load."""
    counts = [f"{_threads(count)}: {time_ms:.2f} ms" for count, time_ms in beside.items()]
    return (f"beside a load on the other processors, {', '.join(counts)}",) if counts else ()


def _fastest(times: Mapping[int, float], where: str) -> str:
    """Name the fastest thread count and what the best number of several threads wins or loses over one."""
    best = min(times, key=lambda count: times[count])
    if best != 1:
        return f"{best} threads win {times[1] / times[best]:.1f}x {where} ({times[1]:.2f} -> {times[best]:.2f} ms)"
    other = min((count for count in times if count != 1), key=lambda count: times[count])
    return f"1 thread is the fastest {where} ({times[1]:.2f} ms): {other} threads take {times[other]:.2f} ms"


def _threads(count: int) -> str:
    return f"{count} thread{'' if count == 1 else 's'}"

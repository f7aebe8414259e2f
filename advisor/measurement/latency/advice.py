"""Say in words which thread count is the fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.measurement.latency.results import LatencyResult, ModelTiming


def advise_threads(timing: ModelTiming, loaded: Sequence[LatencyResult] = ()) -> tuple[str, ...]:
    """Return which thread count is the fastest, and which is the fastest during a background load if it was measured.

    Args:
        timing: the measurement without other load.
        loaded: the same thread counts during a load on the other processors; their wall time counts.
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
        first = _fastest({count: row.rank_ms for count, row in alone.items()}, "without other load")
    return (first, _fastest(beside, "during a load on the other processors")) if beside else (first,)


def _single(beside: Mapping[int, float]) -> tuple[str, ...]:
    """Return the latency of a single thread count during a load."""
    counts = [f"{_threads(count)}: {time_ms:.2f} ms" for count, time_ms in beside.items()]
    return (f"during a load on the other processors, {', '.join(counts)}",) if counts else ()


def _fastest(times: Mapping[int, float], where: str) -> str:
    """Name the fastest thread count, and compare it with one thread or with the best of several threads."""
    best = min(times, key=lambda count: times[count])
    if best != 1:
        return (
            f"{best} threads are {times[1] / times[best]:.1f}x faster {where} ({times[1]:.2f} -> {times[best]:.2f} ms)"
        )
    other = min((count for count in times if count != 1), key=lambda count: times[count])
    return f"1 thread is the fastest {where} ({times[1]:.2f} ms): {other} threads take {times[other]:.2f} ms"


def _threads(count: int) -> str:
    return f"{count} thread{'' if count == 1 else 's'}"

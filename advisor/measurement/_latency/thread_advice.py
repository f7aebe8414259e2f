"""Say which number of threads is the fastest, alone and during a load on the other processors."""

from collections.abc import Mapping, Sequence

from advisor.core import plural
from advisor.measurement._latency import LatencyResult, ModelTiming


def advise_threads(timing: ModelTiming, loaded: Sequence[LatencyResult] = ()) -> tuple[str, ...]:
    """Return which thread count is the fastest,
    and which is so during a load on the other processors, if measured.

    During a load, the wall time counts.
    """
    alone = {result.threads: result for result in timing.results}
    beside = {result.threads: result.wall.median for result in loaded}
    if 1 not in alone or len(alone) < 2:
        times = []
        for count, time_ms in beside.items():
            times.append(f"{plural(count, 'thread')}: {time_ms:.2f} ms")
        if times:
            return (f"during a load on the other processors, {', '.join(times)}",)
        return ()
    # Thread counts that were timed under different loads cannot be compared.
    contended = []
    for count, result in alone.items():
        if result.contended:
            contended.append(count)
    if contended:
        counts = " and ".join(plural(count, "thread") for count in contended)
        first = (
            f"the machine was contended at {counts}: measure again on a quiet machine to compare"
            " counts"
        )
    else:
        ranked = {count: result.rank_ms for count, result in alone.items()}
        first = _name_fastest(ranked, "without other load")
    if not beside:
        return (first,)
    return first, _name_fastest(beside, "during a load on the other processors")


def _name_fastest(times: Mapping[int, float], where: str) -> str:
    """Name the fastest thread count,
    and compare it with one thread or with the best of several threads.
    """
    best = min(times, key=lambda count: times[count])
    if best != 1:
        change = f"{times[1]:.2f} -> {times[best]:.2f} ms"
        return f"{best} threads are {times[1] / times[best]:.1f}x faster {where} ({change})"
    several_counts = [count for count in times if count != 1]
    best_of_several = min(several_counts, key=lambda count: times[count])
    several = f"{best_of_several} threads take {times[best_of_several]:.2f} ms"
    return f"1 thread is the fastest {where} ({times[1]:.2f} ms): {several}"

"""Where the time of one ``.tflite`` file goes, operator by operator."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.benchmark import host, roofline
from advisor.benchmark.attribution import Node, Seen, match
from advisor.benchmark.child import Reported, existing_model, run_json
from advisor.benchmark.delegation import Delegation, delegate
from advisor.benchmark.profile_values import OperatorTime, Profile, TypeTime
from advisor.benchmark.xnnpack_rules import xnnpack_rules
from advisor.core.errors import UsageError
from advisor.tflite.model import Model

__all__ = ["OperatorTime", "Profile", "TypeTime", "profile"]

TESTED_RUNTIME = "ai-edge-litert==2.3."
AGENT = "advisor.benchmark.operator_agent"
CUT_AGENT = "advisor.benchmark.cut_agent"
BY_CUTS = (
    "timed by cutting the file after each operator, as the installed library has no profiler that is understood: "
    "differences of times, rough; where an operator ran is computed, not seen"
)
BUILTIN_EVENT = 2
REJECT_BELOW, REJECT_ABOVE = 0.9, 1.02  # operators / whole; 0.93-0.99 is usual, more cannot be
ATTEMPTS = 3
UNDISTURBED = 1.2  # runs whose whole took more than this times the shortest were preempted
STEP_GAP_US = 2.0  # beside an operator, a run may lose so much between two: counts where operators take microseconds
RUN_GAP_US = 15.0  # and so much on entering and leaving: 10 % of a run of 150 microseconds, nothing of longer ones
# XNNPACK's clock drops the fraction of a microsecond (xnn_get_elapsed_time), half of one on average.
DROPPED_US = 0.5


def profile(
    model: Path | str,
    threads: int = 1,
    *,
    runs: int = 40,
    kernels: str = "default",
    shape: Sequence[int] | None = None,
    by_cuts: bool = False,
    with_roofline: bool = True,
    timeout_s: float = 120.0,
) -> Profile:
    """Profile one file, in a child process.

    A profile whose operators do not add up to the whole is measured again; if that does not help, once more with the
    builtin kernels, which report one event an operator, and a note says so. Where the installed library has no profiler
    that is understood, the operators are timed by cutting the file after each of them: rough, and noted.

    Args:
        model: a ``.tflite`` file.
        threads: number of threads.
        runs: profiled runs (fewer where 4 s are over).
        kernels: ``default`` or ``builtin``.
        shape: shape of the first input where the file leaves it open.
        by_cuts: do not ask the profiler, cut the file.
        with_roofline: also measure what the host can do (once a process, about a second).
        timeout_s: limit of one child.

    Raises:
        UsageError: the file is missing or damaged, or the number of threads or runs is below 1.
        StageError: the runtime cannot load, run or profile it.
    """
    from advisor.tflite.arena import activation_arena_bytes
    from advisor.tflite.model import read

    path = existing_model(model)
    if threads < 1 or runs < 1:
        raise UsageError(f"{threads} threads and {runs} runs cannot be profiled", "both must be at least 1")
    graph = read(path)
    options = ["--threads", str(threads), "--runs", str(runs)]
    options += ["--shape", ",".join(map(str, shape))] if shape else []
    document, used, notes = _collect(path, options, kernels, timeout_s, by_cuts)
    cut = BY_CUTS in notes
    graph = with_shapes(graph, document["shapes"])
    good = undisturbed(document["runs"])
    times = operator_times(good)
    seen = [Seen(tag, kind == BUILTIN_EVENT, index) for tag, kind, index, _ in good[0]["events"]]
    matched = match(graph, seen)
    rows = _rows(seen, matched, times, [event[3] for event in good[0]["events"]])
    told = delegate(graph, xnnpack_rules()) if cut and used == "default" else None
    return Profile(
        model=str(model),
        runtime=document["runtime"],
        kernels=used,
        threads=threads,
        runs=len(good),
        rejected_runs=len(document["runs"]) - len(good),
        whole_us=statistics.median(run["whole_us"] for run in good),
        plain_us=_undisturbed_median(document["plain_us"]),
        operators=_placed(rows, told) if told else rows,
        coverage=coverage(good),
        macs=sum(node.macs for node in matched if node is not None),
        parameters=sum(tensor.elements for tensor in graph.tensors if tensor.is_constant and tensor.elements > 8),
        arena_bytes=activation_arena_bytes(graph),
        partitions=told.partitions if told else partitions(seen),
        roofline=roofline.measure() if with_roofline else None,
        host=host.describe(),
        notes=notes,
    )


def _placed(rows: Sequence[OperatorTime], told: Delegation) -> tuple[OperatorTime, ...]:
    """Say by XNNPACK's rules where operators ran of which only the times are known."""
    left = {row.index for row in told.refused}
    return tuple(replace(row, where="builtin" if row.node and row.node.index in left else "XNNPACK") for row in rows)


def with_shapes(graph: Model, shapes: Sequence[Sequence[int]] | None) -> Model:
    """Return the graph with the shapes that its tensors take in a run; as it is where there are none."""
    if shapes is None:
        return graph
    main = graph.subgraphs[0]
    known = (tuple(shape) for shape in shapes[: len(main.tensors)])
    tensors = tuple(replace(tensor, shape=shape) for tensor, shape in zip(main.tensors, known, strict=True))
    return replace(graph, subgraphs=(replace(main, tensors=tensors), *graph.subgraphs[1:]))


def undisturbed(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the runs with the most usual list of events whose whole was not stretched by another process.

    At least three are kept where there are so many, the shortest ones.
    """
    shapes = [tuple((tag, kind, index) for tag, kind, index, _ in run["events"]) for run in runs]
    usual = max(set(shapes), key=shapes.count)
    alike = [run for run, shape in zip(runs, shapes, strict=True) if shape == usual]
    shortest = sorted(alike, key=lambda run: float(run["whole_us"]))
    limit = UNDISTURBED * shortest[0]["whole_us"]
    return [run for place, run in enumerate(shortest) if place < 3 or run["whole_us"] <= limit]


def operator_times(runs: Sequence[dict[str, Any]]) -> list[float]:
    """Return each event's interquartile mean over the runs, in microseconds."""
    columns = zip(*(map(_event_us, run["events"]) for run in runs), strict=True)
    return [interquartile_mean(list(column)) for column in columns]


def interquartile_mean(values: Sequence[float]) -> float:
    """Return the mean of the middle half of the values (of all, where they are fewer than four).

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values")
    ordered, cut = sorted(values), len(values) // 4
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def coverage(runs: Sequence[dict[str, Any]]) -> float:
    """Return the median over the runs of the sum of the operators / the whole; 0 where a whole is missing."""
    ratios = [sum(map(_event_us, run["events"])) / run["whole_us"] if run["whole_us"] else 0.0 for run in runs]
    return statistics.median(ratios)


def adds_up(runs: Sequence[dict[str, Any]]) -> bool:
    """Tell whether the operators make up the whole, within 0.9-1.02 or within the clock's steps for very short runs."""
    if REJECT_BELOW <= coverage(runs) <= REJECT_ABOVE:
        return True
    gaps = [run["whole_us"] - sum(map(_event_us, run["events"])) for run in runs]
    steps = len(runs[0]["events"]) + 1
    return bool(-DROPPED_US * steps <= statistics.median(gaps) <= STEP_GAP_US * steps + RUN_GAP_US)


def partitions(events: Sequence[Seen]) -> int:
    """Return how many times the run enters the delegate: its own index starts anew, or a builtin kernel came before."""
    entered, last = 0, -1
    for event in events:
        if not event.builtin and (last < 0 or event.index <= last):
            entered += 1
        last = -1 if event.builtin else event.index
    return entered


def _event_us(event: Sequence[Any]) -> float:
    """Return an event's time with what the delegate's clock dropped."""
    return float(event[3]) + (0.0 if event[1] == BUILTIN_EVENT else DROPPED_US)


def _undisturbed_median(values: Sequence[float]) -> float:
    """Return the median of the values that are not far above the least."""
    least = min(values)
    return statistics.median(value for value in values if value <= UNDISTURBED * least)


def _collect(
    path: Path, options: Sequence[str], kernels: str, timeout_s: float, by_cuts: bool
) -> tuple[dict[str, Any], str, tuple[str, ...]]:
    """Return the first document that adds up, the kernels it was made with and what to note; else that by cuts."""
    try:
        if not by_cuts:
            return _profiled(path, options, kernels, timeout_s)
    except Reported as error:
        if error.kind != "runtime":
            raise
    arguments = [str(path.absolute()), *options, "--kernels", kernels]
    return run_json(CUT_AGENT, arguments, timeout_s, path.name), kernels, (BY_CUTS,)


def _profiled(
    path: Path, options: Sequence[str], kernels: str, timeout_s: float
) -> tuple[dict[str, Any], str, tuple[str, ...]]:
    """Return the profiler's first document that adds up.

    Raises:
        Reported: the library has no profiler that is understood, or the file cannot be run.
    """
    tried = [kernels] * ATTEMPTS + (["builtin"] if kernels != "builtin" else [])
    found = 0.0
    for used in tried:
        document = run_json(AGENT, [str(path.absolute()), *options, "--kernels", used], timeout_s, path.name)
        if not document["runs"] or not document["runs"][0]["events"]:
            raise _not_understood(f"{path.name}: the profiler of {document['runtime']} reported no operators")
        good = undisturbed(document["runs"])
        found = coverage(good)
        if adds_up(good):
            return document, used, _notes(document["runtime"], kernels, used, found)
    raise _not_understood(f"{path.name}: the operators add up to {found:.0%} of the whole in {len(tried)} attempts")


def _not_understood(message: str) -> Reported:
    """Return the error of a profiler whose events cannot be believed."""
    error = Reported(message, f"the profiler is known to work with {TESTED_RUNTIME}x")
    error.kind = "runtime"
    return error


def _notes(runtime: str, asked: str, used: str, found: float) -> tuple[str, ...]:
    """Return what the reader of a profile must know."""
    notes = []
    if not runtime.startswith(TESTED_RUNTIME):
        notes.append(f"{runtime} is not the tested runtime ({TESTED_RUNTIME}x); the operators do add up to the whole")
    if used != asked:
        notes.append("XNNPACK's events did not add up: these are the builtin kernels, slower and differently balanced")
    if found < REJECT_BELOW:
        notes.append(
            f"the operators are {found:.0%} of a run so short that the clock's microseconds show: take it roughly"
        )
    return tuple(notes)


def _rows(
    seen: Sequence[Seen], matched: Sequence[Node | None], times: Sequence[float], first: Sequence[int]
) -> tuple[OperatorTime, ...]:
    """Put events, operators and times together."""
    total, cumulative = sum(times) or 1.0, 0.0
    rows = []
    for position, (event, node, time_us, first_us) in enumerate(zip(seen, matched, times, first, strict=True)):
        cumulative += time_us / total
        known = node is not None and time_us > 0
        rows.append(
            OperatorTime(
                position=position,
                kernel=event.tag,
                type=node.name if node else event.tag,
                where="builtin" if event.builtin else "XNNPACK",
                time_us=time_us,
                first_us=float(first_us),
                share=time_us / total,
                cumulative=cumulative,
                node=node,
                gflops=2 * node.macs / time_us / 1e3 if node and known and node.macs else None,
                gbytes=node.bytes_moved / time_us / 1e3 if node and known else None,
            )
        )
    return tuple(rows)

"""Where the time of one ``.tflite`` file goes, operator by operator."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.measurement import host
from advisor.measurement.accelerators.delegation import Delegation, delegate
from advisor.measurement.accelerators.loading import accelerator
from advisor.measurement.operators import roofline
from advisor.measurement.operators.attribution import Node, Seen, match
from advisor.measurement.operators.collect import Collected, Question, collect
from advisor.measurement.operators.profile_values import OperatorTime, Profile, TypeTime
from advisor.measurement.operators.runs import (
    BUILTIN_EVENT,
    coverage,
    operator_times,
    partitions,
    undisturbed,
    undisturbed_median,
)
from advisor.measurement.processes.child import existing_model
from advisor.measurement.processes.memory import refuse_too_large
from advisor.tflite.model import Model

__all__ = ["OperatorTime", "Profile", "TypeTime", "profile"]


def profile(
    model: Path | str,
    threads: int = 1,
    *,
    runs: int = 40,
    kernels: str = "default",
    shape: Sequence[int] | None = None,
    accelerators: Sequence[str] = (),
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
        accelerators: also say what each of these would take of the file, which is computed, not measured.
        by_cuts: do not ask the profiler, cut the file.
        with_roofline: also measure what the host can do (once a process, about a second).
        timeout_s: limit of one child.

    Raises:
        UsageError: the file is missing or damaged, an accelerator is unknown, or the number of threads or runs is
            below 1.
        StageError: the runtime cannot load, run or profile it.
    """
    from advisor.tflite.arena import activation_arena_bytes
    from advisor.tflite.model import read

    path = existing_model(model)
    if threads < 1 or runs < 1:
        raise UsageError(f"{threads} threads and {runs} runs cannot be profiled", "both must be at least 1")
    asked = [accelerator(name).rules for name in dict.fromkeys(accelerators)]
    graph = read(path)
    refuse_too_large(path.name, graph.size_bytes + activation_arena_bytes(graph))
    collected = collect(Question(path, threads, runs, kernels, shape, timeout_s), by_cuts)
    graph = with_shapes(graph, collected.document["shapes"])
    found = _profile(str(model), graph, collected, threads)
    return replace(
        found,
        roofline=roofline.measure() if with_roofline else None,
        delegations=tuple(delegate(graph, rules) for rules in asked),
    )


def with_shapes(graph: Model, shapes: Sequence[Sequence[int]] | None) -> Model:
    """Return the graph with the shapes that its tensors take in a run; as it is where there are none."""
    if shapes is None:
        return graph
    main = graph.subgraphs[0]
    known = (tuple(shape) for shape in shapes[: len(main.tensors)])
    tensors = tuple(replace(tensor, shape=shape) for tensor, shape in zip(main.tensors, known, strict=True))
    return replace(graph, subgraphs=(replace(main, tensors=tensors), *graph.subgraphs[1:]))


def _profile(model: str, graph: Model, collected: Collected, threads: int) -> Profile:
    """Make the profile out of an agent's document."""
    from advisor.tflite.arena import activation_arena_bytes

    document = collected.document
    good = undisturbed(document["runs"])
    seen = [Seen(tag, kind == BUILTIN_EVENT, index) for tag, kind, index, _ in good[0]["events"]]
    matched = match(graph, seen)
    rows = _rows(seen, matched, operator_times(good), [event[3] for event in good[0]["events"]])
    told = _told(graph, collected)
    return Profile(
        model=model,
        runtime=document["runtime"],
        kernels=collected.kernels,
        threads=threads,
        runs=len(good),
        rejected_runs=len(document["runs"]) - len(good),
        whole_us=statistics.median(run["whole_us"] for run in good),
        plain_us=undisturbed_median(document["plain_us"]),
        operators=_placed(rows, told) if told else rows,
        coverage=coverage(good),
        macs=sum(node.macs for node in matched if node is not None),
        parameters=sum(tensor.elements for tensor in graph.tensors if tensor.is_constant and tensor.elements > 8),
        arena_bytes=activation_arena_bytes(graph),
        partitions=told.partitions if told else partitions(seen),
        roofline=None,
        host=host.describe(),
        notes=collected.notes,
    )


def _told(graph: Model, collected: Collected) -> Delegation | None:
    """Return what XNNPACK takes by its rules where only the times of the operators are known."""
    if not collected.by_cuts or collected.kernels != "default":
        return None
    return delegate(graph, accelerator("xnnpack").rules)


def _placed(rows: Sequence[OperatorTime], told: Delegation) -> tuple[OperatorTime, ...]:
    """Say by XNNPACK's rules where operators ran of which only the times are known."""
    left = {row.index for row in told.refused}
    return tuple(replace(row, where="builtin" if row.node and row.node.index in left else "XNNPACK") for row in rows)


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

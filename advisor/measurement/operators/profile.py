"""Profile one ``.tflite`` file: the time of each operator."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.measurement import host
from advisor.measurement.accelerators.delegation import Delegation, delegate
from advisor.measurement.accelerators.rules import accelerator
from advisor.measurement.micro import ethos
from advisor.measurement.operators import roofline
from advisor.measurement.operators.advice import advise
from advisor.measurement.operators.attribution import ProfiledOperator, match
from advisor.measurement.operators.profile_values import OperatorTime, Profile
from advisor.measurement.operators.runs import (
    BY_CUTS,
    ProfileRequest,
    ProfilerEvent,
    collect,
    coverage,
    operator_times,
    partitions,
    undisturbed,
    undisturbed_median,
)
from advisor.measurement.processes.model_file import read_model
from advisor.tflite.arena import activation_arena_bytes
from advisor.tflite.model import Model


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
) -> Profile:
    """Profile one file in a child process; :func:`advisor.api.profile` explains the other arguments.

    If the operators do not add up to the whole, the file is measured again. If that fails, too, it is measured with the
    builtin kernels, which report one event per operator. If the installed library has no known profiler, the operators
    are timed by cutting the file after each of them, which is less exact. The profile has a note in both cases.

    Args:
        by_cuts: cut the file instead of using the profiler.
        with_roofline: also measure the limits of this machine (once per process, about a second).

    Raises:
        UsageError: the file is missing or damaged, an accelerator is unknown, or the number of threads or runs is
            below 1.
        StageError: the runtime cannot load, run or profile it.
    """
    file = read_model(model)
    if threads < 1 or runs < 1:
        raise UsageError(f"{threads} threads and {runs} runs cannot be profiled", "both must be at least 1")
    names = tuple(dict.fromkeys(accelerators))
    wanted = [accelerator(name) for name in names if not name.startswith(ethos.PREFIX)]
    units = [ethos.unit_named(name) for name in names if name.startswith(ethos.PREFIX)]
    file.require_memory()
    collected = collect(ProfileRequest(file.path, threads, runs, kernels, shape), by_cuts)
    graph = with_shapes(file.graph, collected.shapes)
    good = undisturbed(collected.runs)
    events = good[0].events
    matched = match(graph, events)
    rows, entered = _rows(events, matched, operator_times(good)), partitions(events)
    if BY_CUTS in collected.notes and collected.kernels == "default":  # then only the times are known
        delegation = delegate(graph, accelerator("xnnpack"))
        rows, entered = _with_placement(rows, delegation), delegation.partitions
    found = Profile(
        model=file.model,
        runtime=collected.runtime,
        kernels=collected.kernels,
        threads=threads,
        runs=len(good),
        rejected_runs=len(collected.runs) - len(good),
        whole_us=statistics.median(run.whole_us for run in good),
        plain_us=undisturbed_median(collected.plain_us),
        operators=rows,
        coverage=coverage(good),
        macs=sum(node.macs for node in matched if node is not None),
        parameters=sum(tensor.elements for tensor in graph.tensors if tensor.is_constant and tensor.elements > 8),
        arena_bytes=activation_arena_bytes(graph),
        partitions=entered,
        roofline=roofline.measure() if with_roofline else None,
        host=host.describe(),
        notes=collected.notes,
        delegations=tuple(delegate(graph, each) for each in wanted),
        ethos=tuple(ethos.estimate(file.path, unit) for unit in units),
    )
    return replace(found, advice=advise(found))


def with_shapes(graph: Model, shapes: Sequence[Sequence[int]] | None) -> Model:
    """Return the graph with the tensor shapes of a run; unchanged if there are none."""
    if shapes is None:
        return graph
    main = graph.subgraphs[0]
    known = (tuple(shape) for shape in shapes[: len(main.tensors)])
    tensors = tuple(replace(tensor, shape=shape) for tensor, shape in zip(main.tensors, known, strict=True))
    return replace(graph, subgraphs=(replace(main, tensors=tensors), *graph.subgraphs[1:]))


def _with_placement(rows: Sequence[OperatorTime], delegation: Delegation) -> tuple[OperatorTime, ...]:
    """Return the rows, with XNNPACK or builtin for each operator by XNNPACK's rules."""
    left = {row.index for row in delegation.refused}
    return tuple(replace(row, where="builtin" if row.node and row.node.index in left else "XNNPACK") for row in rows)


def _rows(
    seen: Sequence[ProfilerEvent], matched: Sequence[ProfiledOperator | None], times: Sequence[float]
) -> tuple[OperatorTime, ...]:
    total, cumulative = sum(times) or 1.0, 0.0
    rows = []
    for position, (event, node, time_us) in enumerate(zip(seen, matched, times, strict=True)):
        cumulative += time_us / total
        known = node is not None and time_us > 0
        rows.append(
            OperatorTime(
                position=position,
                kernel=event.tag,
                type=node.name if node else event.tag,
                where="builtin" if event.builtin else "XNNPACK",
                time_us=time_us,
                first_us=float(event.time_us),
                share=time_us / total,
                cumulative=cumulative,
                node=node,
                gflops=2 * node.macs / time_us / 1e3 if node and known and node.macs else None,
                gbytes=node.bytes_moved / time_us / 1e3 if node and known else None,
            )
        )
    return tuple(rows)

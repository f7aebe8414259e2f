"""Profile one ``.tflite`` file: the time of each operator, and the two upper limits of each.

``advisor profile`` calls :func:`profile`. The runs come from child processes (``runs.py``);
``matching.py`` says which operators their events belong to, and ``advice.py`` what they show.
"""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from advisor.core import parse_count
from advisor.measurement import _host as host
from advisor.measurement._accelerators import Accelerator
from advisor.measurement._delegation import Delegation
from advisor.measurement._microcontrollers import Compiler, Unit, compiler_of
from advisor.measurement._operators.advice import advise_on
from advisor.measurement._operators.matching import match_events, with_shapes
from advisor.measurement._operators.profile_values import (
    OperatorTime,
    Profile,
    ProfiledOperator,
)
from advisor.measurement._operators.roofline import measure_roofline
from advisor.measurement._operators.runs import (
    BY_CUTS,
    ProfileRequest,
    ProfilerEvent,
    collect_runs,
    count_partitions,
    measure_coverage,
    operator_times,
    select_undisturbed,
    take_undisturbed_median,
)
from advisor.measurement._processes import read_model
from advisor.tflite import Model, activation_arena_bytes


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
    """Profile one file in a child process; :func:`advisor.api.profile` explains the arguments.

    If the operators do not add up to the whole, the file is measured again. If that fails, too, it
    is measured with the builtin kernels, which report one event per operator. If the installed
    library has no known profiler, the operators are timed by cutting the file after each of them,
    which is less exact. The profile has a note in both cases. ``by_cuts`` does so at once.
    ``with_roofline`` also measures the limits of this machine.

    Raises:
        UsageError: the file is missing or damaged, an accelerator is unknown, or the number of
            threads or runs is not within its bounds.
        StageError: the runtime cannot load, run or profile it.
    """
    file = read_model(model)
    threads = parse_count("threads", threads)
    runs = parse_count("runs", runs)
    wanted, units = _split_accelerators(accelerators)
    file.require_memory()
    collected = collect_runs(ProfileRequest(file.path, threads, runs, kernels, shape), by_cuts)
    graph = with_shapes(file.graph, collected.shapes)
    good = select_undisturbed(collected.runs)
    events = good[0].events
    matched = match_events(graph, events)
    rows = _make_rows(events, matched, operator_times(good))
    partitions = count_partitions(events)
    if BY_CUTS in collected.notes and collected.kernels == "default":
        partitions, rows = _place_by_rules(graph, rows)
    measured_profile = Profile(
        model=file.model,
        runtime=collected.runtime,
        kernels=collected.kernels,
        threads=threads,
        runs=len(good),
        rejected_runs=len(collected.runs) - len(good),
        whole_us=statistics.median(run.whole_us for run in good),
        plain_us=take_undisturbed_median(collected.plain_us),
        operators=rows,
        coverage=measure_coverage(good),
        macs=sum(node.macs for node in matched if node is not None),
        parameters=_count_parameters(graph),
        arena_bytes=activation_arena_bytes(graph),
        partitions=partitions,
        roofline=measure_roofline() if with_roofline else None,
        host=host.describe(),
        notes=collected.notes,
        delegations=tuple(Delegation.of_operators(graph, accelerator) for accelerator in wanted),
        ethos=tuple(compiler.estimate(file.path, unit) for compiler, unit in units),
    )
    return replace(measured_profile, advice=advise_on(measured_profile))


def _count_parameters(graph: Model) -> int:
    """Return the number of values in the constants of a graph."""
    parameters = 0
    for tensor in graph.tensors:
        # Smaller constants are shapes, axes and paddings.
        if tensor.is_constant and tensor.elements > 8:
            parameters += tensor.elements
    return parameters


def _split_accelerators(
    names: Sequence[str],
) -> tuple[list[Accelerator], list[tuple[Compiler, Unit]]]:
    """Return the accelerators whose rules are known, and those that have a compiler,
    with their configurations.
    """
    wanted = []
    compilers = {}
    for name in dict.fromkeys(names):
        compiler = compiler_of(name)
        if compiler is None:
            wanted.append(Accelerator.find(name))
        else:
            compilers[name] = compiler
    return wanted, [(compiler, compiler.unit_named(name)) for name, compiler in compilers.items()]


def _place_by_rules(
    graph: Model, rows: Sequence[OperatorTime]
) -> tuple[int, tuple[OperatorTime, ...]]:
    """Return how often XNNPACK is entered and where each operator runs,
    by the rules of XNNPACK alone.

    Cuts give the times alone, and no word of where an operator ran.
    """
    delegation = Delegation.of_operators(graph, Accelerator.find("xnnpack"))
    refused = {row.index for row in delegation.refused}
    placed = []
    for row in rows:
        where = "XNNPACK"
        if row.node and row.node.index in refused:
            where = "builtin"
        placed.append(replace(row, where=where))
    return delegation.partitions, tuple(placed)


def _make_rows(
    events: Sequence[ProfilerEvent],
    matched: Sequence[ProfiledOperator | None],
    times: Sequence[float],
) -> tuple[OperatorTime, ...]:
    total = sum(times) or 1.0
    cumulative = 0.0
    rows = []
    for position, (event, node, time_us) in enumerate(zip(events, matched, times, strict=True)):
        cumulative += time_us / total
        known = node is not None and time_us > 0
        # Bytes and operations in a microsecond, divided by 1,000, are billions in a second.
        gbytes = None
        if node and known:
            gbytes = node.bytes_moved / time_us / 1e3
        gflops = None
        if node and known and node.macs:
            gflops = 2 * node.macs / time_us / 1e3
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
                gflops=gflops,
                gbytes=gbytes,
            )
        )
    return tuple(rows)

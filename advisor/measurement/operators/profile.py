"""Profile one ``.tflite`` file: the time of each operator."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.core.units import plural
from advisor.measurement import host
from advisor.measurement.accelerators.delegation import Delegation, delegate
from advisor.measurement.accelerators.rules import accelerator
from advisor.measurement.microcontrollers import compiler_of
from advisor.measurement.operators import roofline
from advisor.measurement.operators.profile_values import OperatorTime, Profile, ProfiledOperator, TypeTime, match
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

FALLBACK_SHARE = 0.2
CONVERSION_SHARE = 0.1
COMPUTE_SHARE = 0.9
FIRST_SHARE = 0.25
# More partitions than this cost more than a delegate gains (TensorFlow Lite's guidance on delegates).
MANY_PARTITIONS = 3
MEMORY_SHARE = 0.2
NEAR_ROOF = 0.5
DOMINANT_SHARE = 0.5

_COMPUTE = {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"}
_CONVERSIONS = {"QUANTIZE", "DEQUANTIZE", "CAST"}
_REMEDIES = {
    ("HARD_SWISH", "int8"): "prefer float32 or a variant with relu6 on this target",
    ("HARD_SWISH", "uint8"): "prefer float32 or a variant with relu6 on this target",
    ("DEPTHWISE_CONV_2D", "float32"): "prefer weight_int8, int8 or float32 to dynamic_int8 on this target",
    ("CONV_2D", "float32"): "prefer weight_int8, int8 or float32 to dynamic_int8 on this target",
}


def advise(profile: Profile) -> tuple[str, ...]:
    """Return the sentences that apply, the most important first; there is always at least one."""
    rules = (_outside, _conversions, _partitions, _memory, _first, _compute)
    return tuple(sentence for rule in rules for sentence in rule(profile)) or (_balanced(profile),)


def _outside(profile: Profile) -> Iterator[str]:
    """Name the types that run outside XNNPACK and take much of the time."""
    for row in profile.by_type if profile.kernels != "builtin" else ():
        if row.where == "builtin" and row.share >= FALLBACK_SHARE and row.type not in _CONVERSIONS:
            yield f"{row.share:.0%} of the time is {row.type} outside XNNPACK ({_typed(row)}): {_remedy(row)}"


def _remedy(row: TypeTime) -> str:
    """Return what to do about a type that XNNPACK does not support."""
    if row.data_type == "int16":
        return "16-bit activations run on slow reference kernels here: prefer int8 or float32 on this target"
    default = f"another compression or a variant without {row.type} may be faster on this target"
    return _REMEDIES.get((row.type, row.data_type), default)


def _conversions(profile: Profile) -> Iterator[str]:
    """Give the share of conversions between types."""
    share = sum(row.share for row in profile.by_type if row.type in _CONVERSIONS)
    if share >= CONVERSION_SHARE:
        yield f"{share:.0%} of the time converts between types: keep one type from input to output"


def _partitions(profile: Profile) -> Iterator[str]:
    """Report that the graph has many partitions."""
    if profile.partitions > MANY_PARTITIONS:
        kinds = sorted({row.type for row in profile.by_type if row.where == "builtin"})
        outside = f"{', '.join(kinds)} run{'s' if len(kinds) == 1 else ''} outside it"
        yield f"the run enters XNNPACK {profile.partitions} times, because {outside}: each entry takes time"


def _memory(profile: Profile) -> Iterator[str]:
    """Name the operators that wait for memory: they read weights at half the copy speed or more."""
    if profile.roofline is None:
        return
    speed = profile.roofline.gbytes
    dense = [row for row in profile.operators if row.type == "FULLY_CONNECTED"]
    rows = [row for row in dense if row.gbytes and row.gbytes >= NEAR_ROOF * speed]
    share = sum(row.share for row in rows)
    if share >= MEMORY_SHARE:
        moved_mb = sum(row.node.bytes_moved for row in rows if row.node) / 1e6
        yield (
            f"{share:.0%} of the time is FULLY_CONNECTED reading {moved_mb:.1f} MB at memory speed "
            f"({speed:.0f} GB/s): smaller weights or fewer units help, faster arithmetic does not"
        )


def _first(profile: Profile) -> Iterator[str]:
    """Report that a single operator dominates."""
    row = profile.top(1)[0]
    if row.share >= FIRST_SHARE and len(profile.operators) >= 5 and row.where != "builtin":
        step = f"operator {row.node.index}" if row.node else f"step {row.position}"
        shape = f", {row.node.outputs[0]}" if row.node and row.node.outputs else ""
        yield f"{row.share:.0%} of the time is one {row.type} ({step}{shape}): a smaller input makes it faster"


def _compute(profile: Profile) -> Iterator[str]:
    """Report that the arithmetic of the layers takes nearly all of the time."""
    share = sum(row.share for row in profile.by_type if row.type in _COMPUTE and row.where == "XNNPACK")
    if share < COMPUTE_SHARE:
        return
    rate, roof, speed = 2 * profile.macs / profile.whole_us / 1e3, profile.roofline, ""
    floating = all(row.data_type in ("float32", "") for row in profile.by_type if row.type in _COMPUTE)
    if profile.macs:
        limit = _limit(rate / roof.gflops) if roof and floating and profile.threads == 1 else ""
        speed = f" ({profile.macs / 1e6:.0f} million MACs at {rate:.0f} billion operations/s{limit})"
    yield f"convolutions and fully connected layers take {share:.0%}{speed}: only a smaller model is faster"


def _limit(part: float) -> str:
    """Compare the arithmetic with the roofline, which is measured, so that a run can exceed it by a few percent."""
    return ", the measured limit of this core" if part >= 1 else f", {part:.0%} of the limit of this core"


def _balanced(profile: Profile) -> str:
    """Name the largest type, and say that none stands out if it takes less than half of the time."""
    row = profile.by_type[0]
    if row.share >= DOMINANT_SHARE:
        kernels = " in the builtin kernels, because XNNPACK is off" if profile.kernels == "builtin" else ""
        return f"{row.share:.0%} of the time is {row.type} ({_typed(row)}){kernels}"
    return f"no operator type stands out; the largest is {row.type} with {row.share:.0%} ({_typed(row)})"


def _typed(row: TypeTime) -> str:
    """Return ``11 operators, int8``."""
    return plural(row.count, "operator") + (f", {row.data_type}" if row.data_type else "")


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
    compilers = {name: compiler for name in names if (compiler := compiler_of(name))}
    wanted = [accelerator(name) for name in names if name not in compilers]
    units = [(compiler, compiler.unit_named(name)) for name, compiler in compilers.items()]
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
        ethos=tuple(compiler.estimate(file.path, unit) for compiler, unit in units),
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

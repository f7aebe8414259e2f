"""Profile one ``.tflite`` file: the time of each operator,
and the two upper limits of every operator.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from advisor.core import parse_count
from advisor.measurement import _host as host
from advisor.measurement._accelerators import Accelerator, find_accelerator
from advisor.measurement._delegation import delegate_operators, execution_order
from advisor.measurement._microcontrollers import Compiler, Unit, compiler_of
from advisor.measurement._operators.profile_values import (
    OperatorTime,
    Profile,
    ProfiledOperator,
    Roofline,
    advise_on,
)
from advisor.measurement._operators.runs import (
    BY_CUTS,
    ProfileRequest,
    ProfilerEvent,
    collect,
    count_partitions,
    measure_coverage,
    operator_times,
    select_undisturbed,
    take_undisturbed_median,
)
from advisor.measurement._processes import call_json, read_model
from advisor.tflite import Model, Operator, OperatorCost, Tensor, activation_arena_bytes, count

# Three float32 matrices of this side (7 MB) fit into the caches, so arithmetic is the limit.
SIDE = 768
# Larger than the caches of small machines, so memory is the limit.
COPY_BYTES = 64 * 2**20
SECONDS = 0.3

# The names of XNNPACK's kernels (without the types in brackets),
# and the operators that become such a kernel.
_LINEAR = "CONV_2D FULLY_CONNECTED"
_KINDS = (
    *(
        ("DWConv", "DEPTHWISE_CONV_2D"),
        ("Deconvolution", "TRANSPOSE_CONV"),
        ("Convolution", _LINEAR),
    ),
    *(("Fully Connected", _LINEAR), ("Dynamic Fully Connected", _LINEAR), ("Add", "ADD")),
    *(("Subtract", "SUB"), ("Multiply", "MUL"), ("Average Pooling", "AVERAGE_POOL_2D")),
    *(("Max Pooling", "MAX_POOL_2D"), ("Mean", "MEAN"), ("Softmax", "SOFTMAX")),
    *(("Sigmoid", "LOGISTIC"), ("HardSwish", "HARD_SWISH"), ("Concatenate", "CONCATENATION")),
    *(("Constant Pad", "PAD"), ("Static Reshape", "RESHAPE")),
    ("Resize Bilinear", "RESIZE_BILINEAR"),
)


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
    """Profile one file in a child process;
    :func:`advisor.api.profile` explains the other arguments.

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
    collected = collect(ProfileRequest(file.path, threads, runs, kernels, shape), by_cuts)
    graph = with_shapes(file.graph, collected.shapes)
    good = select_undisturbed(collected.runs)
    events = good[0].events
    matched = match_events(graph, events)
    rows = _make_rows(events, matched, operator_times(good))
    partitions = count_partitions(events)
    # Cuts give the times alone, and no word of where an operator ran.
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
        delegations=tuple(
            delegate_operators(graph, unit_accelerator) for unit_accelerator in wanted
        ),
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
            wanted.append(find_accelerator(name))
        else:
            compilers[name] = compiler
    return wanted, [(compiler, compiler.unit_named(name)) for name, compiler in compilers.items()]


def _place_by_rules(
    graph: Model, rows: Sequence[OperatorTime]
) -> tuple[int, tuple[OperatorTime, ...]]:
    """Return how often XNNPACK is entered and where each operator runs,
    by the rules of XNNPACK alone.
    """
    delegation = delegate_operators(graph, find_accelerator("xnnpack"))
    refused = {row.index for row in delegation.refused}
    placed = []
    for row in rows:
        where = "XNNPACK"
        if row.node and row.node.index in refused:
            where = "builtin"
        placed.append(replace(row, where=where))
    return delegation.partitions, tuple(placed)


def with_shapes(graph: Model, shapes: Sequence[Sequence[int]] | None) -> Model:
    """Return the graph with the tensor shapes of a run; unchanged if there are none."""
    if shapes is None:
        return graph
    main = graph.subgraphs[0]
    # The runtime adds tensors of its own behind those of the file.
    shapes = shapes[: len(main.tensors)]
    tensors = tuple(
        replace(tensor, shape=tuple(shape))
        for tensor, shape in zip(main.tensors, shapes, strict=True)
    )
    return replace(graph, subgraphs=(replace(main, tensors=tensors), *graph.subgraphs[1:]))


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


def list_nodes(model: Model) -> tuple[ProfiledOperator, ...]:
    """Return the operators of the main graph."""
    costs = count(model).operators
    return tuple(
        _make_node(model, cost, operator)
        for cost, operator in zip(costs, model.operators, strict=True)
    )


def match_events(
    model: Model, events: Sequence[ProfilerEvent]
) -> tuple[ProfiledOperator | None, ...]:
    """Return the operator of each event, None if it is not known."""
    nodes = list_nodes(model)
    matched: list[ProfiledOperator | None] = []
    for event in events:
        # Only builtin kernels report the place of their operator in the file.
        node = None
        if event.builtin and event.operator < len(nodes):
            node = nodes[event.operator]
        same = None
        if node and node.name == event.tag:
            same = node
        matched.append(same)
    matched_places = {node.index for node in matched if node is not None}
    rest = []
    for place in execution_order(model, matched_places):
        if place not in matched_places:
            rest.append(nodes[place])
    waiting: dict[frozenset[str], list[int]] = {}
    for position, event in enumerate(events):
        kind = kind_of(event.tag)
        if matched[position] is None and kind:
            waiting.setdefault(kind, []).append(position)
    # XNNPACK names kernels and not operators.
    # Only where both are equally many does their order tell which is which.
    for kind, positions in waiting.items():
        candidates = [node for node in rest if node.name in kind]
        if len(candidates) == len(positions):
            for position, node in zip(positions, candidates, strict=True):
                matched[position] = node
    return tuple(matched)


def kind_of(tag: str) -> frozenset[str] | None:
    """Return the operators that can become an XNNPACK kernel of this name, None if unknown."""
    name = tag.removeprefix("Delegate/")
    if "DWConv" in name:
        name = "DWConv"
    for start, operators in _KINDS:
        if name.startswith(start):
            return frozenset(operators.split())
    return None


def _make_node(model: Model, cost: OperatorCost, operator: Operator) -> ProfiledOperator:
    tensors = model.tensors
    inputs = []
    for position in operator.inputs:
        if position >= 0:
            inputs.append(tensors[position])
    outputs = [tensors[position] for position in operator.outputs]
    input_texts = tuple(_show_tensor(tensor) for tensor in inputs if not tensor.is_constant)
    output_texts = tuple(map(_show_tensor, outputs))
    # A tensor that is two inputs of one operator is read once.
    # Equal tensors are two, so identity decides.
    distinct = {id(tensor): tensor for tensor in inputs + outputs}
    bytes_moved = sum(tensor.size_bytes for tensor in distinct.values())
    return ProfiledOperator(
        cost.index, operator.name, input_texts, output_texts, cost.macs, bytes_moved
    )


def _show_tensor(tensor: Tensor) -> str:
    return f"{tensor.dtype} {'x'.join(map(str, tensor.shape)) or 'scalar'}"


@lru_cache(maxsize=1)
def measure_roofline() -> Roofline:
    """Measure this machine at one thread in a child process (Williams et al. 2009),
    once per process: 1 s.
    """
    return Roofline(**call_json(f"{__name__}:collect_roofline", 60.0, "roofline"))


def collect_roofline() -> dict[str, object]:
    """Return GFLOP/s of a float32 matrix product and GB/s
    of a copy (bytes read plus written) at one thread.
    """
    generator = np.random.default_rng(0)
    left, right = (generator.standard_normal((SIDE, SIDE), dtype=np.float32) for _ in range(2))
    product = np.empty_like(left)
    source = np.ones(COPY_BYTES, np.uint8)
    target = np.empty(COPY_BYTES, np.uint8)
    compute = _time_best(lambda: np.matmul(left, right, out=product))
    copy = _time_best(lambda: np.copyto(target, source))
    return {"gflops": 2 * SIDE**3 / compute / 1e9, "gbytes": 2 * COPY_BYTES / copy / 1e9}


def _time_best(work: Callable[[], object]) -> float:
    """Return the shortest CPU time of a call within ``SECONDS``;
    time of other processes does not count.
    """
    work()
    end = time.perf_counter() + SECONDS
    best = float("inf")
    while time.perf_counter() < end or best == float("inf"):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best

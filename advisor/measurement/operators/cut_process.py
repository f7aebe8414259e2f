"""Time the operators of a ``.tflite`` file without a profiler, with files that end after each of them.

The time of an operator is the time of the file that ends with it minus the time of the file that ends before it. Every
runtime can run such files, but differences of times are rough, and the last of several fused operators gets their whole
time. Runs as a child process.
"""

import statistics
import time
from itertools import pairwise
from pathlib import Path

from advisor.isolation.agent import new_interpreter, resize, runtime, set_inputs
from advisor.measurement.operators.runs import BUILTIN_EVENT, ProfilerEvent

LEAST_RUNS, MOST_RUNS = 5, 40
SECONDS_A_CUT = 0.05


def prefix(data: bytes, count: int, still: set[int]) -> bytes:
    """Return the file that ends after its first ``count`` operators; its outputs are the inputs of later ones.

    Args:
        data: the file.
        count: number of operators to keep.
        still: operators that only expand constants; their results are not outputs.
    """
    from advisor.tflite.rewrite import drop_unused_buffers, pack, unpack

    model = unpack(data)
    graph = model.subgraphs[0]
    kept, later = graph.operators[:count], graph.operators[count:]
    moving = [operator for position, operator in enumerate(kept) if position not in still]
    made = [int(index) for operator in moving for index in operator.outputs]
    wanted = {int(index) for operator in later for index in operator.inputs} | {int(index) for index in graph.outputs}
    graph.operators = kept
    graph.outputs = [index for index in dict.fromkeys(made) if index in wanted] or made[-1:]
    used = {int(index) for operator in kept for index in (*operator.inputs, *operator.outputs)} | set(graph.inputs)
    for index, tensor in enumerate(graph.tensors):
        tensor.buffer = tensor.buffer if index in used else 0
    model.signatureDefs, model.metadata = None, []
    drop_unused_buffers(model)
    return pack(model)


def prefix_us(content: bytes, threads: int, kernels: str, shape: list[int] | None) -> float:
    """Return the median of the faster half of the runs in microseconds; CPU time at one thread, else wall time."""
    interpreter = new_interpreter("", threads, kernels, content)
    resize(interpreter, shape)
    interpreter.allocate_tensors()
    set_inputs(interpreter)
    clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns
    for _ in range(2):
        interpreter.invoke()
    limit, times = time.perf_counter() + SECONDS_A_CUT, list[int]()
    while len(times) < MOST_RUNS and (len(times) < LEAST_RUNS or time.perf_counter() < limit):
        start = clock()
        interpreter.invoke()
        times.append(clock() - start)
    return statistics.median(sorted(times)[: (len(times) + 1) // 2]) / 1e3


def collect(path: str, threads: int, kernels: str, shape: list[int] | None) -> dict[str, object]:
    """Return the same document as the profiler's process: one run with one event per operator."""
    from scipy.optimize import isotonic_regression

    from advisor.measurement.accelerators.operator_facts import expands_constants
    from advisor.measurement.operators.profiler_process import resolved_shapes
    from advisor.tflite.model import read

    data = Path(path).read_bytes()
    model = read(data, path)
    still = {index for index, operator in enumerate(model.operators) if expands_constants(model, operator)}
    positions = [index for index in range(len(model.operators)) if index not in still]
    measured = [prefix_us(prefix(data, position + 1, still), threads, kernels, shape) for position in positions]
    ends = isotonic_regression(measured).x.tolist()  # no operator takes negative time
    steps = [end - start for start, end in pairwise([0.0, *ends])]
    events = [
        ProfilerEvent(model.operators[position].name, BUILTIN_EVENT, position, step)
        for position, step in zip(positions, steps, strict=True)
    ]
    _module, package, version = runtime()
    return {
        "runtime": f"{package}=={version}",
        "plain_us": [measured[-1]],
        "runs": [(measured[-1], events)],
        "shapes": resolved_shapes(path, shape) if shape else None,
    }

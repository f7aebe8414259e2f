"""Time each operator by cutting the file after it, for runtimes whose profiler is not known.

An operator takes the time of the file that ends with it, minus that of the file that ends before
it. Every runtime can run such files, but differences of times are rough, and the last of several
fused operators gets their whole time. :func:`collect_cuts` runs in a child process.
"""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from pathlib import Path

from advisor.isolation import agent
from advisor.measurement._operators.runs import BUILTIN_EVENT, ProfilerEvent, resolve_shapes

LEAST_RUNS = 5
MOST_RUNS = 40
SECONDS_A_CUT = 0.05  # No new run of a file starts after this time


def cut_prefix(data: bytes, count: int, still: set[int]) -> bytes:
    """Return the file that ends after its first ``count`` operators;
    its outputs are the inputs of later ones.

    Operators that are ``still`` only expand constants; their results are not outputs.
    """
    from advisor.tflite import unpack

    model = unpack(data)
    graph = model.subgraphs[0]
    first_operators = graph.operators[:count]
    later_operators = graph.operators[count:]
    results = list[int]()
    used = set(graph.inputs)
    for position, operator in enumerate(first_operators):
        used.update(map(int, operator.inputs), map(int, operator.outputs))
        if position not in still:
            results += map(int, operator.outputs)
    read_later = set(map(int, graph.outputs))
    for operator in later_operators:
        read_later.update(map(int, operator.inputs))
    graph.operators = first_operators
    outputs = [index for index in dict.fromkeys(results) if index in read_later]
    # A file without an output cannot be loaded.
    graph.outputs = outputs or results[-1:]
    for index, tensor in enumerate(graph.tensors):
        # Indices stay as they are, so tensors are emptied and not removed.
        tensor.buffer = tensor.buffer if index in used else 0
    model.signatureDefs = None
    model.metadata = []
    model.drop_unused_buffers()
    return model.pack()


def prefix_us(content: bytes, threads: int, kernels: str, shape: list[int] | None) -> float:
    """Return the median of the faster half of the runs in microseconds;
    CPU time at one thread, else wall time.
    """
    interpreter = agent.new_interpreter("", threads, kernels, content)
    agent.resize_input(interpreter, shape)
    interpreter.allocate_tensors()
    agent.set_inputs(interpreter)
    clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns
    # The first runs are slower than all others.
    for _ in range(2):
        interpreter.invoke()
    deadline = time.perf_counter() + SECONDS_A_CUT
    times_ns = list[int]()
    while len(times_ns) < MOST_RUNS:
        if len(times_ns) >= LEAST_RUNS and time.perf_counter() >= deadline:
            break
        start = clock()
        interpreter.invoke()
        times_ns.append(clock() - start)
    # Other processes only lengthen a run, so the faster half is the truer one.
    faster_half = sorted(times_ns)[: (len(times_ns) + 1) // 2]
    return statistics.median(faster_half) / 1e3


def collect_cuts(
    path: str, threads: int, kernels: str, shape: list[int] | None
) -> dict[str, object]:
    """Return the same document as the profiler's process: one run with one event per operator.
    Runs in a child.
    """
    from scipy.optimize import isotonic_regression

    from advisor.measurement._operator_facts import expands_constants
    from advisor.tflite import read

    data = Path(path).read_bytes()
    model = read(data, path)
    still = set()
    for index, operator in enumerate(model.operators):
        if expands_constants(model, operator):
            still.add(index)
    positions = []
    for index in range(len(model.operators)):
        if index not in still:
            positions.append(index)
    prefixes_us = []
    for position in positions:
        content = cut_prefix(data, position + 1, still)
        prefixes_us.append(prefix_us(content, threads, kernels, shape))
    # No operator takes negative time, so the times of longer and longer files are made to rise.
    ends_us = isotonic_regression(prefixes_us).x.tolist()
    events = []
    for position, (start_us, end_us) in zip(positions, pairwise([0.0, *ends_us]), strict=True):
        name = model.operators[position].name
        events.append(ProfilerEvent(name, BUILTIN_EVENT, position, end_us - start_us))
    _module, package, version = agent.import_interpreter()
    return {
        "runtime": f"{package}=={version}",
        "plain_us": [prefixes_us[-1]],
        "runs": [(prefixes_us[-1], events)],
        "shapes": resolve_shapes(path, shape) if shape else None,
    }

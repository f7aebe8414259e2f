"""Estimate quickly how fast a file is; the machine need not be quiet."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from advisor.core.errors import RuntimeRefusal
from advisor.devices.connections.agent import AgentError, new_interpreter, one_line, set_inputs
from advisor.measurement.processes.child import existing_model

RUNS = 5


def least_cpu_ms(model: Path, runs: int = RUNS) -> float:
    """Return the shortest CPU time of ``runs`` runs at one thread, in ms.

    At one thread, the calling thread does all the work, and other processes change its CPU time by a few percent only.
    Therefore this can run next to other jobs. Use it to filter with a margin, not to recommend a model.

    Raises:
        UsageError: the file is missing.
        RuntimeRefusal: the runtime cannot load or run it.
    """
    path = existing_model(model)
    try:
        interpreter = new_interpreter(str(path), threads=1, kernels="default")
        interpreter.allocate_tensors()
        set_inputs(interpreter)
        interpreter.invoke()
        return min(_cpu_ns(interpreter.invoke) for _ in range(runs)) / 1e6
    except (AgentError, RuntimeError, ValueError) as error:
        raise RuntimeRefusal(f"{path.name}: {one_line(error)}") from error


def _cpu_ns(call: Callable[[], object]) -> int:
    """Return the CPU time of this thread during a call."""
    start = time.thread_time_ns()
    call()
    return time.thread_time_ns() - start

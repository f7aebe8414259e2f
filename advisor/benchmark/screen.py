"""A first look at how fast a file is: seconds, no quiet machine needed."""

from __future__ import annotations

import time
from pathlib import Path

RUNS = 5


def least_cpu_ms(model: Path, runs: int = RUNS) -> float:
    """Return the least CPU time of ``runs`` runs at one thread, in ms.

    At one thread the calling thread does all work, and its CPU time stays within some percent whatever else the machine
    does; so this may run beside other jobs. It may filter, with a margin; it never recommends.
    """
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(model), num_threads=1)
    interpreter.allocate_tensors()
    rng = np.random.default_rng(0)
    for detail in interpreter.get_input_details():
        values = rng.uniform(-1.0, 1.0, detail["shape"])
        interpreter.set_tensor(detail["index"], values.astype(detail["dtype"]))
    interpreter.invoke()
    times = []
    for _ in range(runs):
        start = time.thread_time_ns()
        interpreter.invoke()
        times.append(time.thread_time_ns() - start)
    return min(times) / 1e6

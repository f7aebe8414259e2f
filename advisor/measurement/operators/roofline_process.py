"""Measure the arithmetic and memory speed of one core and print them as JSON. Runs as a child process."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from advisor.devices.connections.agent import report

SIDE = 768  # three float32 matrices of this size (7 MB) fit into the caches, so arithmetic is the limit
COPY_BYTES = 64 * 2**20  # larger than the caches of small machines
SECONDS = 0.3


def best_seconds(work: Callable[[], object], seconds: float = SECONDS) -> float:
    """Return the shortest CPU time of a call within ``seconds``; time of other processes does not count."""
    work()
    end, best = time.perf_counter() + seconds, float("inf")
    while time.perf_counter() < end or best == float("inf"):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best


def collect() -> dict[str, object]:
    """Return GFLOP/s of a float32 matrix product and GB/s of a copy (bytes read plus written) at one thread."""
    import numpy as np

    generator = np.random.default_rng(0)
    left, right = (generator.standard_normal((SIDE, SIDE), dtype=np.float32) for _ in range(2))
    product = np.empty_like(left)
    source, target = np.ones(COPY_BYTES, np.uint8), np.empty(COPY_BYTES, np.uint8)
    compute = best_seconds(lambda: np.matmul(left, right, out=product))
    copy = best_seconds(lambda: np.copyto(target, source))
    return {"schema_version": 1, "gflops": 2 * SIDE**3 / compute / 1e9, "gbytes": 2 * COPY_BYTES / copy / 1e9}


if __name__ == "__main__":
    sys.exit(report(collect))

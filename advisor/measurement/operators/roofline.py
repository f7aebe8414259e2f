"""Measure the roofline of this machine: the two upper limits of every operator (Williams et al. 2009)."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from advisor.measurement.processes.child import call_json

SIDE = 768  # three float32 matrices of this size (7 MB) fit into the caches, so arithmetic is the limit
COPY_BYTES = 64 * 2**20  # larger than the caches of small machines
SECONDS = 0.3


@dataclass(frozen=True)
class Roofline:
    """The limits of one core.

    Attributes:
        gflops: 10^9 float32 operations per second (a matrix product in cache; a MAC is two operations).
        gbytes: 10^9 bytes per second between processor and memory (a copy; bytes read plus written).
    """

    gflops: float
    gbytes: float


@lru_cache(maxsize=1)
def measure() -> Roofline:
    """Measure this machine at one thread in a child process; it takes about a second, once per process.

    Raises:
        StageError: the measuring process failed.
    """
    return Roofline(**call_json(__name__, 60.0, "roofline"))


def collect() -> dict[str, object]:
    """Return GFLOP/s of a float32 matrix product and GB/s of a copy (bytes read plus written) at one thread."""
    import numpy as np

    generator = np.random.default_rng(0)
    left, right = (generator.standard_normal((SIDE, SIDE), dtype=np.float32) for _ in range(2))
    product = np.empty_like(left)
    source, target = np.ones(COPY_BYTES, np.uint8), np.empty(COPY_BYTES, np.uint8)
    compute = _best_seconds(lambda: np.matmul(left, right, out=product))
    copy = _best_seconds(lambda: np.copyto(target, source))
    return {"gflops": 2 * SIDE**3 / compute / 1e9, "gbytes": 2 * COPY_BYTES / copy / 1e9}


def _best_seconds(work: Callable[[], object]) -> float:
    """Return the shortest CPU time of a call within ``SECONDS``; time of other processes does not count."""
    work()
    end, best = time.perf_counter() + SECONDS, float("inf")
    while time.perf_counter() < end or best == float("inf"):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best

"""Measure the limits of one core: its arithmetic, and its copies to and from memory.

A profile shows each operator against them (roofline model, Williams et al. 2009).
:func:`collect_roofline` runs in a child process.
"""

import time
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from advisor.measurement._operators.profile_values import (
    Roofline,
)
from advisor.measurement._processes import call_json

# Three float32 matrices of this side (7 MB) fit into the caches, so arithmetic is the limit.
SIDE = 768

# Larger than the caches of small machines, so memory is the limit.
COPY_BYTES = 64 * 2**20
SECONDS = 0.3


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

"""Measure the roofline of this machine: the two upper limits of every operator (Williams et al. 2009)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from advisor.measurement.processes.child import run_json

PROCESS = "advisor.measurement.operators.roofline_process"


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
def measure(timeout_s: float = 60.0) -> Roofline:
    """Measure this machine at one thread; it takes about a second, once per process.

    Raises:
        StageError: the measuring process failed.
    """
    document = run_json(PROCESS, [], timeout_s, "roofline")
    return Roofline(gflops=document["gflops"], gbytes=document["gbytes"])

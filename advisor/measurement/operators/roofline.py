"""What this host can do at most: the two lines under which every operator lies (Williams et al. 2009)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from advisor.measurement.processes.child import run_json

AGENT = "advisor.measurement.operators.roofline_process"


@dataclass(frozen=True)
class Roofline:
    """Limits of one core.

    Attributes:
        gflops: 10^9 float32 operations a second (a matrix product in cache; two operations a MAC).
        gbytes: 10^9 bytes a second between processor and memory (a copy; read plus written).
    """

    gflops: float
    gbytes: float


@lru_cache(maxsize=1)
def measure(timeout_s: float = 60.0) -> Roofline:
    """Measure this host at one thread; about a second, once a process.

    Raises:
        StageError: the measuring process failed.
    """
    document = run_json(AGENT, [], timeout_s, "roofline")
    return Roofline(gflops=document["gflops"], gbytes=document["gbytes"])

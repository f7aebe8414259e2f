"""Count the processors that this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Return how many processors this process may use; a container or an affinity mask can grant fewer than exist."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""Time exports of ExecuTorch on this machine: ``agent.py`` in one process for each
number of threads.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from advisor.devices import HostConnection

if TYPE_CHECKING:
    from advisor.devices import MeasurementJob, Timing


class ExecutorchConnection(HostConnection):
    """Measures each number of threads in a process of its own:
    ExecuTorch has one pool of threads for a process.
    """

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        """See :class:`advisor.devices.Connection`."""
        by_count = [
            super(ExecutorchConnection, self).measure(replace(job, threads=(count,)))
            for count in job.threads
        ]
        # By model first, as of one job.
        return tuple(chain.from_iterable(zip(*by_count, strict=True)))

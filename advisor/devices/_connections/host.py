"""Measure on this machine: run the agent's file in a new process of this Python.

``benchmark --device host:...`` and the runtimes of this machine measure this way.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from advisor.devices._connections.agent import (
    AGENT,
    read_document,
    require_cpu,
    timings_of_agent,
)
from advisor.devices._connections.protocol import MeasurementJob, Timing
from advisor.devices._connections.runtime_files import RuntimeFile
from advisor.isolation import run_program


@dataclass(frozen=True)
class HostConnection:
    """Measures on this machine with the agent and the Python interpreter of this process."""

    agent: Path = AGENT

    @property
    def label(self) -> str:
        """``host``."""
        return "host"

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        """See :class:`advisor.devices.Connection`."""
        job.check()
        exports = {model: RuntimeFile.make_file(job.runtime, model) for model in job.models}
        names = [str(exports[model].path.resolve()) for model in job.models]
        argv = [sys.executable, str(self.agent), *job.agent_arguments(names)]
        document = read_document(run_program(argv, timeout_s=job.timeout_s))
        timings = timings_of_agent(document, job.models, names)
        return tuple(exports[timing.model].add_comparison(timing) for timing in timings)


def connect_here(accelerator: str) -> HostConnection:
    """Return the connection to this machine; UsageError for an accelerator."""
    require_cpu(accelerator, "the host")
    return HostConnection()

"""Measure on this machine with the agent in a new process."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.core.errors import StageError
from advisor.devices.connections.program import Finished, run_program
from advisor.devices.connections.protocol import Job, Timing, timings_of_agent


@dataclass(frozen=True)
class HostConnection:
    """Measures on this machine.

    Attributes:
        agent: the agent's file.
        python: the Python interpreter that has the runtime.
    """

    agent: Path
    python: Path = field(default_factory=lambda: Path(sys.executable))

    @property
    def label(self) -> str:
        """``host``."""
        return "host"

    def measure(self, job: Job) -> tuple[Timing, ...]:
        """See :class:`advisor.devices.connections.protocol.Connection`."""
        job.check()
        names = [str(model.resolve()) for model in job.models]
        argv = [str(self.python), str(self.agent), *agent_arguments(job, names)]
        return timings_of_agent(read_document(run_program(argv, timeout_s=job.timeout_s)), job.models, names)


def agent_arguments(job: Job, names: list[str]) -> list[str]:
    """Return the agent's command line for files called ``names`` on the device."""
    return [*names, "--threads", ",".join(map(str, job.threads)), "--effort", job.effort, *job.options]


def read_document(finished: Finished) -> dict[str, Any]:
    """Return the JSON document in the last line of the agent's output.

    Raises:
        StageError: there is none: the agent crashed, or the device sent an invalid response.
    """
    lines = finished.stdout.strip().splitlines()
    try:
        document = json.loads(lines[-1]) if lines else None
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise StageError(f"the agent returned no measurements (exit status {finished.status}): {finished.complaint}")
    return document

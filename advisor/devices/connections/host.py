"""Measure on this machine with the agent in a new process; read what the agent prints on any device."""

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from advisor.core.errors import StageError
from advisor.devices.connections.protocol import MeasurementJob, Timing, file_for, with_facts
from advisor.isolation import agent
from advisor.isolation.agent import Block, SeriesDocument
from advisor.isolation.process import Finished, run_program

AGENT = Path(agent.__file__)

THROTTLED = 1.1
"""A device is throttled from this ratio of the last third to the first. Block medians of a cool, idle device vary by at
most 5 %."""

RISING = 0.6
"""Share of pairs of blocks in rising order minus the share in falling order (Kendall's tau); noise has about 0."""

LEAST_BLOCKS = 4

WAITED = 0.1
"""Share of time that threads may wait for a processor. A block with more shows other programs, not heat; on an idle
machine the share is below 0.01."""


@dataclass(frozen=True)
class HostConnection:
    """Measures on this machine.

    Attributes:
        agent: the agent's file.
        python: the Python interpreter that has the runtime.
    """

    agent: Path = AGENT
    python: Path = Path(sys.executable)

    @property
    def label(self) -> str:
        """``host``."""
        return "host"

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        """See :class:`advisor.devices.connections.protocol.Connection`."""
        job.check()
        exports = {model: file_for(job.runtime, model) for model in job.models}
        names = [str(exports[model].path.resolve()) for model in job.models]
        argv = [str(self.python), str(self.agent), *agent_arguments(job, names)]
        document = read_document(run_program(argv, timeout_s=job.timeout_s))
        return with_facts(timings_of_agent(document, job.models, names), exports)


def agent_arguments(job: MeasurementJob, names: Sequence[str]) -> list[str]:
    """Return the agent's command line for files called ``names`` on the device."""
    return [*names, "--threads", ",".join(map(str, job.threads)), "--effort", job.effort]


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
        ended = (
            f": it {finished.death}" if finished.death else f" (exit status {finished.status}): {finished.complaint}"
        )
        raise StageError(f"the agent returned no measurements{ended}")
    return document


def timings_of_agent(document: Mapping[str, Any], models: Sequence[Path], names: Sequence[str]) -> tuple[Timing, ...]:
    """Return the timings in the agent's document.

    Args:
        document: the agent's output.
        models: the files on this machine.
        names: their names on the device, in the same order.

    Raises:
        StageError: the agent reports an error, or the document is not complete.
    """
    error = document.get("error")
    if isinstance(error, Mapping):
        raise StageError(f"the device cannot run the model ({error.get('kind')}): {error.get('message')}")
    by_name = dict(zip(names, models, strict=True))
    common = f"{document.get('runtime')}=={document.get('runtime_version')}"
    try:
        memory = int(document["memory"]["private_bytes"]) if document.get("memory") else None
        return tuple(
            _timing(
                by_name[series["model"]],
                series,
                series.get("runtime", common),
                memory if index == 0 else None,
                document["load"],
            )
            for index, series in enumerate(document["series"])
        )
    except (KeyError, TypeError, ValueError, AttributeError, statistics.StatisticsError) as problem:
        raise StageError(f"invalid response from the device: {type(problem).__name__} {problem}") from problem


def _timing(model: Path, series: SeriesDocument, runtime: str, memory: int | None, load: object) -> Timing:
    walls = [float(wall) for block in series["blocks"] for wall in block["wall_ns"]]
    if min(walls) <= 0:
        raise ValueError("a run took no time")
    medians = [statistics.median(map(float, block["wall_ns"])) for block in series["blocks"]]
    return Timing(
        model=model,
        threads=int(series["threads"]),
        median_ms=statistics.median(medians) / 1e6,
        runs=len(walls),
        first_ms=float(series["first_ns"]) / 1e6,
        load_ms=float(series["load_ns"]) / 1e6,
        runtime=runtime,
        memory_bytes=memory,
        details={**series, "load": load},
        throttled=throttling(_block_medians(series)),
    )


def _block_medians(series: SeriesDocument) -> list[float]:
    """Return the median CPU time of each block, which other programs hardly affect.

    Without CPU times, return the median wall time of the blocks whose threads did not wait for a processor: time that
    other programs took is not heat.
    """
    cpu_times = [block["cpu_ns"] for block in series["blocks"] if block.get("cpu_ns")]
    if len(cpu_times) == len(series["blocks"]):
        return [statistics.median(map(float, times or ())) for times in cpu_times]
    undisturbed = [block for block in series["blocks"] if _waited_share(block, int(series["threads"])) <= WAITED]
    return [statistics.median(map(float, block["wall_ns"])) for block in undisturbed]


def _waited_share(block: Block, threads: int) -> float:
    """Return the share of time that a thread waited for a processor; 0 if the device does not tell."""
    waited = block.get("waited_ns")
    return 0.0 if waited is None else float(waited) / (threads * float(block["elapsed_ns"]))


def throttling(medians: Sequence[float]) -> str:
    """Return by how much a device slowed down steadily, in words; empty if it did not.

    Args:
        medians: median of each block in the order measured, in any unit.
    """
    found = slowdown(medians)
    if found < THROTTLED or rising(medians) < RISING:
        return ""
    return f"throttled: the last runs took {found:.2f} times as long as the first"


def slowdown(medians: Sequence[float]) -> float:
    """Return the median of the last third of the blocks divided by that of the first third; 1.0 for too few blocks."""
    if len(medians) < LEAST_BLOCKS:
        return 1.0
    part = len(medians) // 3
    return statistics.median(medians[-part:]) / statistics.median(medians[:part])


def rising(values: Sequence[float]) -> float:
    """Return Kendall's tau of at least two values and their order: -1 is falling, 1 is rising."""
    pairs = list(combinations(values, 2))
    return sum((after > before) - (after < before) for before, after in pairs) / len(pairs)

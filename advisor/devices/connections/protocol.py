"""Define what a connection does: it measures models on a device."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from advisor.core.errors import StageError, UsageError
from advisor.devices.connections.agent import Block, Lane
from advisor.devices.connections.drift import WAITED, throttling


@dataclass(frozen=True)
class Job:
    """The models to measure, and how.

    Attributes:
        models: ``.tflite`` files.
        threads: thread counts; every model is measured at each.
        effort: how long to measure: the name of an effort of the agent.
        options: further options of the agent, such as ``("--cpus", "0,1")``.
        timeout_s: seconds after which the measurement fails.
    """

    models: tuple[Path, ...]
    threads: tuple[int, ...] = (1,)
    effort: str = "quick"
    options: tuple[str, ...] = ()
    timeout_s: float = 600.0

    def check(self) -> None:
        """Refuse an invalid job.

        Raises:
            UsageError: there is no model, a model is not a file, or a thread count is below 1.
        """
        if not self.models:
            raise UsageError("there is no model to measure")
        for model in self.models:
            if not model.is_file():
                raise UsageError(f"{model} is not a file", "give a .tflite file")
        if not self.threads or min(self.threads) < 1:
            raise UsageError(f"thread counts {self.threads} are not all at least 1", "give whole numbers from 1")


@dataclass(frozen=True)
class Timing:
    """The latency of one model at one thread count.

    Attributes:
        model: the file on this machine.
        threads: number of threads.
        median_ms: median of the runs, or their mean if the device's tool prints no median.
        runs: number of timed runs.
        first_ms: the first run after loading.
        load_ms: time to load the model.
        runtime: runtime and version, such as ``ai-edge-litert==2.3.0``.
        memory_bytes: memory that the model added, as the device's tool measures it, or None.
        details: all that the device's tool printed, parsed.
        throttled: by how much the device slowed down, in words; empty if it did not.
    """

    model: Path
    threads: int
    median_ms: float
    runs: int
    first_ms: float
    load_ms: float
    runtime: str
    memory_bytes: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    throttled: str = ""


class Connection(Protocol):
    """Measures models on one device."""

    @property
    def label(self) -> str:
        """The device in a few words, for messages and logs; it contains no secret."""

    def measure(self, job: Job) -> tuple[Timing, ...]:
        """Measure every model at every thread count.

        Raises:
            UsageError: the connection cannot be made: a program is missing, access is denied, or the device's identity
                has changed. A retry would fail, too.
            StageError: the measurement failed: the device disconnected, its storage is full, it took too long, or its
                response was invalid.
        """


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
    runtime = f"{document.get('runtime')}=={document.get('runtime_version')}"
    try:
        return tuple(
            _timing(by_name[lane["model"]], lane, runtime, _memory(document) if index == 0 else None, document["load"])
            for index, lane in enumerate(document["lanes"])
        )
    except (KeyError, TypeError, ValueError, AttributeError, statistics.StatisticsError) as problem:
        raise StageError(f"invalid response from the device: {type(problem).__name__} {problem}") from problem


def _timing(model: Path, lane: Lane, runtime: str, memory: int | None, load: object) -> Timing:
    walls = [float(wall) for block in lane["blocks"] for wall in block["wall_ns"]]
    if min(walls) <= 0:
        raise ValueError("a run took no time")
    medians = [statistics.median(map(float, block["wall_ns"])) for block in lane["blocks"]]
    return Timing(
        model=model,
        threads=int(lane["threads"]),
        median_ms=statistics.median(medians) / 1e6,
        runs=len(walls),
        first_ms=float(lane["first_ns"]) / 1e6,
        load_ms=float(lane["load_ns"]) / 1e6,
        runtime=runtime,
        memory_bytes=memory,
        details={**lane, "load": load},
        throttled=throttling(_block_medians(lane)),
    )


def _block_medians(lane: Lane) -> list[float]:
    """Return the median CPU time of each block, which other programs hardly affect.

    Without CPU times, return the median wall time of the blocks whose threads did not wait for a processor: time that
    other programs took is not heat.
    """
    cpu_times = [block["cpu_ns"] for block in lane["blocks"] if block.get("cpu_ns")]
    if len(cpu_times) == len(lane["blocks"]):
        return [statistics.median(map(float, times or ())) for times in cpu_times]
    undisturbed = [block for block in lane["blocks"] if _waited_share(block, int(lane["threads"])) <= WAITED]
    return [statistics.median(map(float, block["wall_ns"])) for block in undisturbed]


def _waited_share(block: Block, threads: int) -> float:
    """Return the share of time that a thread waited for a processor; 0 if the device does not tell."""
    waited = block.get("waited_ns")
    return 0.0 if waited is None else float(waited) / (threads * float(block["elapsed_ns"]))


def _memory(document: Mapping[str, Any]) -> int | None:
    memory = document.get("memory")
    return int(memory["private_bytes"]) if isinstance(memory, Mapping) and "private_bytes" in memory else None

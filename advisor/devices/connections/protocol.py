"""What a connection is: something that measures models on a device."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from advisor.core.errors import StageError, UsageError
from advisor.devices.connections.drift import WAITED, throttling


@dataclass(frozen=True)
class Job:
    """What to measure.

    Attributes:
        models: ``.tflite`` files.
        threads: thread counts; every model is measured at each.
        effort: how long: a name that the agent knows.
        options: further options of the agent, such as ``("--cpus", "0,1")``.
        timeout_s: seconds after which the device is given up.
    """

    models: tuple[Path, ...]
    threads: tuple[int, ...] = (1,)
    effort: str = "quick"
    options: tuple[str, ...] = ()
    timeout_s: float = 600.0

    def check(self) -> None:
        """Refuse a job that no device could do.

        Raises:
            UsageError: no model, a model that is not a file, a thread count below 1.
        """
        if not self.models:
            raise UsageError("there is no model to measure")
        for model in self.models:
            if not model.is_file():
                raise UsageError(f"{model} is not a file", "give a .tflite file")
        if not self.threads or min(self.threads) < 1:
            raise UsageError(f"threads {self.threads} are not all at least 1")


@dataclass(frozen=True)
class Timing:
    """What one model took at one thread count.

    Attributes:
        model: the file on this machine.
        threads: number of threads.
        median_ms: median of the runs (their mean where the device's tool tells no median).
        runs: number of timed runs.
        first_ms: the first run after loading.
        load_ms: loading.
        runtime: runtime and version, such as ``ai-edge-litert==2.3.0``.
        memory_bytes: private memory that the model added, as the device's tool measures it, or None.
        details: what the device's tool printed, as read.
        throttled: by how much the device slowed down meanwhile, empty where it did not.
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
    """A device that can be reached."""

    @property
    def label(self) -> str:
        """The device in a few words, for messages and logs; holds no secret."""

    def measure(self, job: Job) -> tuple[Timing, ...]:
        """Measure every model at every thread count.

        Raises:
            UsageError: the connection cannot be made as it is described: a program is missing, access is denied, the
                device's identity changed. Nothing else will work either.
            StageError: the measurement failed: the device vanished, ran full, took too long or answered rubbish.
        """


def timings_of_agent(document: Mapping[str, Any], models: Sequence[Path], names: Sequence[str]) -> tuple[Timing, ...]:
    """Read the agent's document.

    Args:
        document: what the agent printed.
        models: the files on this machine.
        names: what they were called on the device, in the same order.

    Raises:
        StageError: the agent reports an error, or the document lacks what a measurement has.
    """
    error = document.get("error")
    if isinstance(error, Mapping):
        raise StageError(f"the device could not run it ({error.get('kind')}): {error.get('message')}")
    by_name = dict(zip(names, models, strict=True))
    runtime = f"{document.get('runtime')}=={document.get('runtime_version')}"
    try:
        return tuple(
            _timing(by_name[lane["model"]], lane, runtime, _memory(document) if index == 0 else None, document["load"])
            for index, lane in enumerate(document["lanes"])
        )
    except (KeyError, TypeError, ValueError, AttributeError, statistics.StatisticsError) as problem:
        raise StageError(f"the device answered rubbish: {type(problem).__name__} {problem}") from problem


def _timing(model: Path, lane: Mapping[str, Any], runtime: str, memory: int | None, load: Mapping[str, Any]) -> Timing:
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


def _block_medians(lane: Mapping[str, Any]) -> list[float]:
    """Return each block's median: of the CPU time where known, which other programs hardly touch.

    Else of the wall time, of the blocks whose threads had their processors: what others took from them is no heat.
    """
    if all(block.get("cpu_ns") for block in lane["blocks"]):
        return [statistics.median(map(float, block["cpu_ns"])) for block in lane["blocks"]]
    undisturbed = [block for block in lane["blocks"] if _waited_share(block, int(lane["threads"])) <= WAITED]
    return [statistics.median(map(float, block["wall_ns"])) for block in undisturbed]


def _waited_share(block: Mapping[str, Any], threads: int) -> float:
    """Return the part of its time that a thread stood ready without a processor; 0 where the device does not tell."""
    waited = block.get("waited_ns")
    return 0.0 if waited is None else float(waited) / (threads * float(block["elapsed_ns"]))


def _memory(document: Mapping[str, Any]) -> int | None:
    memory = document.get("memory")
    return int(memory["private_bytes"]) if isinstance(memory, Mapping) and "private_bytes" in memory else None

"""The protocol of a connection: the job that it gets, the timings that it returns, its errors.

A new way to a device is one class with :class:`Connection`'s two members, a :class:`Way`, and a
line in ``ways.py``. Searches, benchmarks and calibrations measure through this protocol alone.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from filelock import FileLock

from advisor.core import StageError, UsageError
from advisor.isolation import WAITED_LIMIT
from advisor.store import cache_root

if TYPE_CHECKING:
    from advisor.devices._connections.settings import ConnectionSettings


@dataclass(frozen=True)
class MeasurementJob:
    """The models to measure, and how."""

    models: tuple[Path, ...]  #: ``.tflite`` files
    threads: tuple[int, ...] = (1,)  #: thread counts; every model is measured at each
    effort: str = "quick"  #: name of the agent's effort, which sets the duration
    timeout_s: float = 600.0  #: seconds after which the measurement fails
    #: runtime that runs the models; one that does not run ``.tflite`` files runs their exports
    runtime: str = "ai-edge-litert"

    def agent_arguments(self, names: Sequence[str]) -> list[str]:
        """Return the agent's command line for files called ``names`` on the device."""
        return [*names, "--threads", ",".join(map(str, self.threads)), "--effort", self.effort]

    def check(self) -> None:
        """Refuse a job without models, with a model that is not a file,
        or with a thread count below 1 (UsageError).
        """
        if not self.models:
            raise UsageError("there is no model to measure", "name at least one .tflite file")
        for model in self.models:
            if not model.is_file():
                raise UsageError(f"{model} is not a file", "give a .tflite file")
        if not self.threads or min(self.threads) < 1:
            raise UsageError(
                f"thread counts {self.threads} are not all at least 1", "give whole numbers from 1"
            )


@dataclass(frozen=True)
class Timing:
    """The latency of one model at one thread count."""

    model: Path  #: the file on this machine
    threads: int  #: number of threads
    median_ms: float  #: median of the runs, or their mean if the device's tool prints no median
    runs: int  #: number of timed runs
    first_ms: float  #: the first run after loading
    load_ms: float  #: time to load the model
    runtime: str  #: runtime and version, such as ``ai-edge-litert==2.3.0``
    #: memory that the model added, as the device's tool measures it, or None
    memory_bytes: int | None = None
    #: all that the device's tool printed, parsed;
    #: of a runtime here a ``SeriesDocument`` with ``load``
    details: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    throttled: str = ""  #: by how much the device slowed down, in words; empty if it did not
    #: median CPU time of the runs at one thread, None if the tool does not tell
    cpu_ms: float | None = None
    #: share of the time that the threads waited for a processor, None if unknown
    waited_share: float | None = None
    placement: str = ""  #: how many operators an accelerator ran, in words; empty for the CPU
    #: further facts in words: the job of a cloud, the answers to the user's images
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse figures that no measurement has; ValueError."""
        # Timings come from programs on other machines.
        # A wrong one would be ranked and could become the pick.
        if not (
            0 < self.own_ms < math.inf
            and 0 <= self.first_ms < math.inf
            and 0 <= self.load_ms < math.inf
        ):
            raise ValueError(
                f"no times: {self.own_ms} ms, first {self.first_ms} ms, loading {self.load_ms} ms"
            )
        if self.threads < 1 or self.runs < 1 or (self.memory_bytes or 0) < 0:
            raise ValueError(
                f"no figures: {self.threads} threads, {self.runs} runs, {self.memory_bytes} bytes"
            )

    @property
    def own_ms(self) -> float:
        """The CPU time, which other programs change by a few percent only;
        the median of the runs if it is unknown.
        """
        return self.median_ms if self.cpu_ms is None else self.cpu_ms

    @property
    def contention(self) -> str:
        """Why :attr:`own_ms` cannot be trusted, in words;
        empty if it can, or if the tool does not tell.
        """
        # CPU time does not count what other programs take.
        if self.cpu_ms is not None or (self.waited_share or 0.0) <= WAITED_LIMIT:
            return ""
        return f"its threads waited {self.waited_share:.0%} of the time for a processor"


class NotOnUnit(StageError):
    """An accelerator ran no operator of a file:
    its latency there is that of another unit, also at the next try.
    """


class Connection(Protocol):
    """Measures models on one device."""

    @property
    def label(self) -> str:
        """The device in a few words, for messages and logs; it contains no secret."""

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        """Measure every model at every thread count.

        Raises:
            UsageError: the connection cannot be made: a program is missing, access is denied, or
                the device's identity has changed. A retry would fail, too.
            StageError: the measurement failed: the device disconnected, its storage is full, it
                took too long, or its response was invalid.
        """


@dataclass(frozen=True)
class Presence:
    """The answer of a device that was asked whether it can measure."""

    #: the settings that lead to the very device that answered, with the tool that measures there
    settings: ConnectionSettings
    #: what latencies depend on there, such as ``Android 15``; empty if it does not tell
    software: str = ""
    missing: str = ""  #: why nothing can be measured there now; empty if it can


@dataclass(frozen=True)
class Way:
    """A way to a device, which a profile names by its key."""

    address: str  # what stands under the key, for the schema of profiles
    check: Callable[[str], None]  # refuses an address that is not valid (UsageError)
    # Connects to a target of a kind, such as ``gpu``.
    connect: Callable[[ConnectionSettings, str], Connection]
    # Asks whether the device is there; raises as a measurement does.
    ask: Callable[[ConnectionSettings], Presence]


def lock_device(label: str) -> FileLock:
    """Return the lock to hold during a measurement on the device with this label.

    Two models that run at once on one device disturb each other's latency.
    A lock file also holds between processes.
    """
    folder = cache_root() / "device-locks"
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / f"{hashlib.sha256(label.encode()).hexdigest()[:16]}.lock")

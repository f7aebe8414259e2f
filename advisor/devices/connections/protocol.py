"""The protocol of a connection, which measures models on a device, with its job and its timings."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock

from advisor.core.errors import UsageError
from advisor.store.cache import cache_root


@dataclass(frozen=True)
class MeasurementJob:
    """The models to measure, and how.

    Attributes:
        models: ``.tflite`` files.
        threads: thread counts; every model is measured at each.
        effort: name of the agent's effort, which sets the duration.
        timeout_s: seconds after which the measurement fails.
        runtime: runtime that runs the models; one that does not run ``.tflite`` files runs their exports.
    """

    models: tuple[Path, ...]
    threads: tuple[int, ...] = (1,)
    effort: str = "quick"
    timeout_s: float = 600.0
    runtime: str = "ai-edge-litert"

    def check(self) -> None:
        """Refuse an invalid job.

        Raises:
            UsageError: there is no model, a model is not a file, or a thread count is below 1.
        """
        if not self.models:
            raise UsageError("there is no model to measure", "name at least one .tflite file")
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

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        """Measure every model at every thread count.

        Raises:
            UsageError: the connection cannot be made: a program is missing, access is denied, or the device's identity
                has changed. A retry would fail, too.
            StageError: the measurement failed: the device disconnected, its storage is full, it took too long, or its
                response was invalid.
        """


def exclusive(label: str) -> FileLock:
    """Return the lock to hold during a measurement on the device with this label.

    Two models that run at once on one device disturb each other's latency. A lock file also holds between processes.
    """
    folder = cache_root() / "device-locks"
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / f"{hashlib.sha256(label.encode()).hexdigest()[:16]}.lock")

"""Run functions by name in pools of child processes, one pool for each kind of job."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from advisor.isolation.confinement import NETWORK
from advisor.isolation.pause import ENDS_WITH_PARENT, Pause
from advisor.isolation.worker import CallLimits, Worker

LIGHT, HEAVY, TRAINERS = "light", "heavy", "trainers"

EXPECTED_BYTES: Mapping[str, int] = {LIGHT: 400_000_000, HEAVY: 700_000_000, TRAINERS: 2_500_000_000}
"""Memory that a job of each kind is expected to take, in bytes. A conversion takes more for each value of the model. A
job starts when this much memory is free."""

QUIET_ONE_THREAD = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "PYTHONWARNINGS": "ignore",
    "CUDA_VISIBLE_DEVICES": "-1",
    "KERAS_BACKEND": "tensorflow",
}
"""Environment that limits a child to one core. A pool runs one child per core, and more threads would mostly wait."""


class Children(Protocol):
    """Runs functions by name in other processes; several threads may call it."""

    def call(self, function: str, *args: object, limits: CallLimits | None = None, pause: Pause | None = None) -> Any:
        """Call ``module:function`` and return its value; :meth:`Worker.call` lists the errors."""

    @property
    def peak_bytes(self) -> int:
        """The highest resident memory of any child, in bytes."""

    def close(self) -> None:
        """End every child, also those that work."""


class ChildPool:
    """Runs functions by name in child processes; several threads may call it.

    A worker starts when it is first needed. The worker that was used last is used first, because its imports are done.

    Args:
        log: file that takes the children's output, None to show it.
        environment: variables added to :data:`QUIET_ONE_THREAD`; the value None removes a variable.
    """

    def __init__(self, log: Path | None = None, environment: Mapping[str, str | None] | None = None) -> None:
        self._log = log
        wanted = {**QUIET_ONE_THREAD, NETWORK: "", **(environment or {})}
        self._environment = {name: value for name, value in wanted.items() if value is not None}
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._all: list[Worker] = []
        self._closed = False

    def call(self, function: str, *args: object, limits: CallLimits | None = None, pause: Pause | None = None) -> Any:
        """Call ``module:function`` in a child and return its value; see :meth:`Worker.call` for the errors.

        ``pause`` can pause and resume the child while it works.
        """
        worker = self._take()
        try:
            return worker.call(function, *args, limits=limits or CallLimits(), pause=pause)
        finally:
            self._give(worker)

    @property
    def peak_bytes(self) -> int:
        """The highest resident memory of any child of this pool, in bytes."""
        return max((worker.peak_bytes for worker in self._all), default=0)

    def close(self) -> None:
        """End every child, also those that work."""
        with self._lock:
            self._closed = True
            workers = list(self._all)
        for worker in workers:
            worker.stop()

    def __enter__(self) -> ChildPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self) -> Worker:
        with self._lock:
            if self._idle:
                return self._idle.pop()
            worker = Worker(self._log, self._environment)
            self._all.append(worker)
            return worker

    def _give(self, worker: Worker) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(worker)
                return
        worker.stop()


def trainers(log: Path | None) -> ChildPool:
    """Return a pool for training: its children see the GPU if there is one, and end with this process when paused.

    They use oneDNN, which takes two thirds of the time of TensorFlow's own kernels for a step of fine-tuning
    EfficientNet-Lite0. Other children do not, because its results differ in the last digits between processors. Two
    operators may run side by side, so that a training uses two cores. Each runs in one thread, so its result does not
    depend on the number of cores.
    """
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    training = {"CUDA_VISIBLE_DEVICES": seen, "TF_ENABLE_ONEDNN_OPTS": "1", "TF_NUM_INTEROP_THREADS": "2"}
    return ChildPool(log, {**ENDS_WITH_PARENT, **training})


def workers(log: Path | None) -> ChildPool:
    """Return a pool for all other jobs; its children end with this process when paused."""
    return ChildPool(log, ENDS_WITH_PARENT)


POOLS: Mapping[str, Callable[[Path | None], ChildPool]] = {LIGHT: workers, HEAVY: workers, TRAINERS: trainers}
"""Functions that make the pool of each kind: without TensorFlow, with TensorFlow, and with TensorFlow for training."""

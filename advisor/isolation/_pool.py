"""Run functions by name in pools of child processes, one pool for each kind of job.

The executors of a search (``engine/_execution.py``, ``integrations/slurm`` and ``ray``), the
import of a user's model and every call that reads files of strangers use these pools. The engine
adds the place of measurements to the kinds in its own ``Pool``
(``engine/_pipeline/resources.py``). :attr:`PoolKind.expected_bytes` decides how many jobs run side
by side, and the environment of a child decides the last digits of results that are cached.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from advisor.core import StageError
from advisor.isolation._cores import GPU_DRIVER
from advisor.isolation._pause import Pause
from advisor.isolation._process import ENDS_WITH_PARENT, MEMORY
from advisor.isolation._worker import (
    IMPORTS,
    NETWORK,
    WRITES_BELOW,
    YIELDS,
    CallLimits,
    Worker,
)

QUIET_ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    **dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1"),
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "PYTHONWARNINGS": "ignore",
    "CUDA_VISIBLE_DEVICES": "-1",
    "KERAS_BACKEND": "tensorflow",
    # No folder: Keras reads no keras.json there, and writes none.
    "KERAS_HOME": os.devnull,
}
"""Environment that limits a child to one core.
A pool runs one child per core, and more threads would mostly wait.
"""

_BY_TENSORFLOW = (
    "Aborted",
    "Internal",
    "ResourceExhausted",
    "Unavailable",
    "Unimplemented",
    "Unknown",
)
GPU_FAILURES = tuple(f"{name}Error:" for name in _BY_TENSORFLOW)
"""First words of errors for which a GPU can be the reason, beside crashes:
memory that ends, an operator it lacks.
"""


class PoolKind(StrEnum):
    """A kind of pool of child processes."""

    LIGHT = "light"  # without TensorFlow
    HEAVY = "heavy"  # with TensorFlow
    TRAINERS = "trainers"  # with TensorFlow, for training
    SPARE = "spare"  # without TensorFlow, where no other process wants a core

    @property
    def expected_bytes(self) -> int:
        """The memory that a job is expected to take, in bytes: it starts when this much is free.

        A conversion takes more for each value of the model.
        """
        return {"heavy": 700_000_000, "trainers": 2_500_000_000}.get(self, 400_000_000)

    def open(self, log: Path | None) -> ChildPool:
        """Return a new pool whose children write to ``log``, or show their output without one.

        Its children end with this process when paused.
        """
        if self is PoolKind.TRAINERS:
            return Trainers(log)
        environment: dict[str, str | None] = {**ENDS_WITH_PARENT}
        if self is PoolKind.HEAVY:
            environment[IMPORTS] = "tensorflow keras advisor.catalog._convert"
        elif self is PoolKind.SPARE:
            environment[YIELDS] = "1"
        return ChildPool(log, environment)


class Children(Protocol):
    """Runs functions by name in other processes; several threads may call it."""

    def call(
        self,
        function: str,
        *args: object,
        limits: CallLimits | None = None,
        pause: Pause | None = None,
    ) -> Any:
        """Call ``module:function`` and return its value; :meth:`Worker.call` lists the errors."""

    @property
    def peak_bytes(self) -> int:
        """The highest resident memory of any child, in bytes."""

    def close(self) -> None:
        """End every child, also those that work."""


class ChildPool:
    """Runs functions by name in child processes; several threads may call it.

    A worker starts when it is first needed. The worker that was used last is used first, because
    its imports are done. The file ``log`` takes the children's output, which is shown without one.
    ``environment`` is added to :data:`QUIET_ONE_THREAD`; the value None removes a variable.

    With ``writes_below``, the children start no program, and write below that folder and their
    temporary one. They have no network without ``has_network``. A job that would take more than
    ``most_bytes`` of memory fails.
    """

    def __init__(
        self,
        log: Path | None = None,
        environment: Mapping[str, str | None] | None = None,
        *,
        writes_below: Path | None = None,
        has_network: bool = False,
        most_bytes: int | None = None,
    ) -> None:
        self._log = log
        wanted = {
            **QUIET_ONE_THREAD,
            WRITES_BELOW: None if writes_below is None else str(writes_below),
            NETWORK: "1" if has_network else "",
            MEMORY: None if most_bytes is None else str(most_bytes),
            **(environment or {}),
        }
        self._environment = {name: value for name, value in wanted.items() if value is not None}
        self._lock = threading.Lock()
        self._closed = False
        self._idle: list[Worker] = []
        self._all: list[Worker] = []

    def call(
        self,
        function: str,
        *args: object,
        limits: CallLimits | None = None,
        pause: Pause | None = None,
    ) -> Any:
        """Call ``module:function`` in a child and return its value;
        see :meth:`Worker.call` for the errors.

        ``pause`` can pause and resume the child while it works.
        """
        with self._lock:
            self._ensure_idle()
            worker = self._idle.pop()
        try:
            return worker.call(function, *args, limits=limits or CallLimits(), pause=pause)
        finally:
            with self._lock:
                closed = self._closed
                if not closed:
                    self._idle.append(worker)
            # The pool was closed while this call worked: nobody else ends its worker any more.
            if closed:
                worker.stop()

    def begin(self) -> None:
        """Start a child before the first call: it imports meanwhile what its jobs need."""
        with self._lock:
            self._ensure_idle()
            self._idle[-1].begin()

    def _ensure_idle(self) -> None:
        if not self._idle:
            self._idle.append(Worker(self._log, self._environment))
            self._all.append(self._idle[0])

    @property
    def peak_bytes(self) -> int:
        """The highest resident memory of any child of this pool, in bytes."""
        return max((worker.peak_bytes for worker in self._all), default=0)

    def close(self) -> None:
        """End every child, also those that work."""
        with self._lock:
            self._closed = True
            workers = list(self._all)
        # Outside of the lock: a call that ends meanwhile needs it
        # to learn that the pool is closed.
        for worker in workers:
            worker.stop()

    def __enter__(self) -> ChildPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Trainers(ChildPool):
    """Children for training, which see the GPU if there is one;
    once it has failed, they train on the CPU.

    They use oneDNN, which takes two thirds of the time of TensorFlow's own kernels for a step of
    fine-tuning EfficientNet-Lite0. Other children do not, because its results differ in the last
    digits between processors. A training has two threads on every machine: its sums depend on
    their number, but not on the number of cores.
    """

    def __init__(self, log: Path | None, driver: Path = GPU_DRIVER) -> None:
        training = {
            # None removes the variable: other children have -1 there, so that they see no GPU.
            "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES"),
            "TF_ENABLE_ONEDNN_OPTS": "1",
            "TF_NUM_INTRAOP_THREADS": "2",
            "TF_NUM_INTEROP_THREADS": "2",
        }
        super().__init__(log, {**ENDS_WITH_PARENT, **training})
        self._has_gpu = driver.is_dir()
        # Why it failed, in words; empty if it did not.
        self.gpu_failed = ""
        self.tell: Callable[[str], None] = partial(print, file=sys.stderr, flush=True)

    def call(
        self,
        function: str,
        *args: object,
        limits: CallLimits | None = None,
        pause: Pause | None = None,
    ) -> Any:
        """Call as in any pool; a call that failed on the GPU is repeated on the CPU,
        where all later calls run too.

        ``tell`` is called with a line about it.
        """
        try:
            return super().call(function, *args, limits=limits, pause=pause)
        except StageError as error:
            by_gpu = self._has_gpu and (error.is_crash or error.message.startswith(GPU_FAILURES))
            if self.gpu_failed or not by_gpu:
                raise
            self.gpu_failed = error.message
            self.tell(
                "training failed, perhaps because of the GPU, and is repeated on the CPU:"
                f" {error.message}"
            )
        with self._lock:
            self._environment["CUDA_VISIBLE_DEVICES"] = "-1"
            idle = self._idle
            self._idle = []
        for worker in idle:
            worker.stop()
        return super().call(function, *args, limits=limits, pause=pause)

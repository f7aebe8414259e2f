"""Run functions by name in pools of child processes, one pool for each kind of job."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socketpair
from typing import Any, Protocol

import psutil

from advisor.core import StageError, show_bytes, show_seconds
from advisor.isolation._process import ENDS_IN_S, ENDS_WITH_PARENT, IN_CHILD, ChildProcess, Pause
from advisor.isolation._resources import GPU_DRIVER, TEMPORARY_FOLDER, Scratch, no_follow

_POLL_S = 0.2

WRITES_BELOW = "ADVISOR_CHILD_WRITES_BELOW"
"""The environment variable of children that start no program
and write below this folder and their temporary one.
"""

NETWORK = "ADVISOR_CHILD_NETWORK"
"""The environment variable of children that keep the network; it is empty for all others."""

IMPORTS = "ADVISOR_CHILD_IMPORTS"
"""The environment variable with the modules, in one line,
that children import before their first call.
"""

LIGHT: str = "light"
HEAVY: str = "heavy"
TRAINERS: str = "trainers"

EXPECTED_BYTES: Mapping[str, int] = {
    LIGHT: 400_000_000,
    HEAVY: 700_000_000,
    TRAINERS: 2_500_000_000,
}
"""Memory that a job of each kind is expected to take, in bytes. A conversion takes more for each
value of the model. A job starts when this much memory is free.
"""

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

SETTINGS = ("TF_", "KERAS_", "XLA_", "TFHUB_", "CUDA_VISIBLE_DEVICES")
"""Beginnings of variables by which people set up TensorFlow and Keras for their own work."""

SETTINGS_OF_GPUS = ("TF_GPU_", "TF_FORCE_GPU_", "TF_CUDA_")
"""Beginnings of those that say how a GPU is used; training keeps them."""

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


@dataclass(frozen=True)
class CallLimits:
    """Limits of one call. A call that exceeds one is stopped and fails."""

    # wall-clock time, less what the call waited for a processor of a busy machine.
    seconds: float = 600.0
    memory_bytes: int = 3_000_000_000  # resident memory of the child
    # how many processes the child may have started; their memory counts too. None: not looked at
    processes: int | None = None


class Worker:
    """A child process that runs many calls, so that heavy imports are paid once;
    see :class:`ChildPool`.
    """

    def __init__(self, log: Path | None, environment: dict[str, str]) -> None:
        self._log = log
        self._environment = environment
        self._process: ChildProcess | None = None
        self._connection: Connection[Any, Any] | None = None
        self._scratch: Scratch | None = None
        # One thread may close the pool while the call of another fails.
        self._changing = threading.RLock()
        self.peak_bytes = 0

    def call(
        self, function: str, *args: object, limits: CallLimits, pause: Pause | None = None
    ) -> Any:
        """Call ``module:function`` in the child and return its value;
        errors of ours are those of the function.

        StageError if the call crashed or exceeded a limit; the next call gets a new child.
        """
        process, connection, is_new = self._ensure_started()
        held = pause or Pause()
        # A pause stops the child by a signal, so that a timing elsewhere has the machine alone.
        held.attach(process.send)
        try:
            watched = psutil.Process(process.pid)
            # The first call of a child has its CPU seconds from its start on. They are read before
            # the call is sent, because the child begins at once, also where this process waits for
            # a processor.
            before_s = 0.0 if is_new else _read_cpu_s(watched)
            # A call that is repeated has taken the seconds of the first one, too.
            before_s -= held.cpu_s
            connection.send((function, args))
            succeeded, value = self._wait(watched, before_s, connection, limits, held)
        # A child that dies closes its end of the connection:
        # the reason is in its exit code, not in this error.
        except (EOFError, OSError, psutil.NoSuchProcess):
            raise self._explain_death(process) from None
        finally:
            held.detach()
        if not succeeded:
            raise value
        return value

    def begin(self) -> None:
        """Start the child, if none runs."""
        self._ensure_started()

    def stop(self) -> None:
        """End the child, also while it works; any thread may call this.
        The child has ended on return.
        """
        with self._changing:
            process = self._process
            scratch = self._scratch
            # The connection is released, not closed:
            # a call that still waits reads the end of it, and closes it last.
            self._process = None
            self._connection = None
            self._scratch = None
            if process is not None:
                process.kill()
            if scratch is not None:
                _end_started_by(scratch)
                scratch.remove()

    def _ensure_started(self) -> tuple[ChildProcess, Connection[Any, Any], bool]:
        """Return the child, the connection to it, and whether it was started now."""
        with self._changing:
            # A child that the system ended between two calls is replaced like one that never ran.
            is_new = False
            if (
                self._process is None
                or self._process.status is not None
                or self._connection is None
            ):
                is_new = True
                self.stop()
                self._scratch = Scratch()
                environment = {**self._environment, TEMPORARY_FOLDER: str(self._scratch.path)}
                process, connection = _start(self._log, environment)
                self._process = process
                self._connection = connection
            return self._process, self._connection, is_new

    def _wait(
        self,
        watched: psutil.Process,
        before_s: float,
        connection: Connection[Any, Any],
        limits: CallLimits,
        call: Pause,
    ) -> Any:
        """Return the answer of a child that had taken ``before_s`` CPU seconds before the call."""
        # The limit counts work: time that the child waits
        # for a processor is added to the deadline below.
        deadline = time.monotonic() + limits.seconds - _read_waited_s(watched.pid)
        while not connection.poll(_POLL_S):
            call.cpu_s = _read_cpu_s(watched) - before_s
            started = [] if limits.processes is None else watched.children(recursive=True)
            # A converter starts processes of its own;
            # where their number is limited, it answers for their memory.
            used = _read_resident_bytes(watched) + sum(map(_read_resident_bytes, started))
            self.peak_bytes = max(self.peak_bytes, used)
            is_late = time.monotonic() > deadline + _read_waited_s(watched.pid)
            # This process may have stood still since it looked for an answer:
            # one that is there is no time-out.
            if is_late and not connection.poll():
                exceeded = f"timed out: stopped after its limit of {show_seconds(limits.seconds)}"
            elif used > limits.memory_bytes:
                most = show_bytes(limits.memory_bytes)
                exceeded = f"used {show_bytes(used)} of memory, more than its limit of {most}"
            elif limits.processes is not None and len(started) > limits.processes:
                exceeded = (
                    f"started {len(started)} processes, more than its limit of {limits.processes}"
                )
            else:
                continue
            # The child is ended, not asked to end:
            # native code that hangs or fills memory does not listen.
            self.stop()
            raise StageError(exceeded)
        self.peak_bytes = max(self.peak_bytes, _read_resident_bytes(watched))
        call.cpu_s = _read_cpu_s(watched) - before_s
        return connection.recv()

    def _explain_death(self, process: ChildProcess) -> StageError:
        # A process that crashed ends only when the system has written its core file.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.popen.wait(timeout=60)
        code = process.popen.returncode
        self.stop()
        if code == -signal.SIGKILL:
            return StageError("killed by the system (SIGKILL), most likely because memory ran out")
        if code is not None and code < 0:
            return StageError.from_signal(signal.Signals(-code).name)
        return StageError(f"its process ended with exit code {code}")


def _end_started_by(scratch: Scratch) -> None:
    """Kill processes that a child started and that left its process group;
    they inherited its temporary folder.
    """
    # One pass is not enough: a process may start another one while the list is read.
    until = time.monotonic() + ENDS_IN_S
    while time.monotonic() < until:
        any_left = False
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(TEMPORARY_FOLDER) == str(scratch.path):
                    process.kill()
                    any_left = True
        if not any_left:
            return
        time.sleep(_POLL_S / 10)


def _read_resident_bytes(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


def _read_waited_s(pid: int) -> float:
    """Return how long the main thread of a process was ready to run and had no processor;
    0 where nothing tells.
    """
    with contextlib.suppress(OSError, ValueError):
        _, waited_ns, *_ = Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()
        return float(waited_ns) / 1e9
    return 0.0


def _read_cpu_s(process: psutil.Process) -> float:
    # User, system, and both of the children that ended.
    return float(sum(process.cpu_times()[:4]))


def _start(
    log: Path | None, environment: dict[str, str]
) -> tuple[ChildProcess, Connection[Any, Any]]:
    ours, theirs = socketpair()
    output = no_follow(str(log), os.O_WRONLY | os.O_APPEND | os.O_CREAT) if log else None
    try:
        child_output = sys.stderr.fileno() if output is None else output
        process = ChildProcess(
            # -P: a file in the working folder must not stand in for a package of the same name.
            [sys.executable, "-P", "-m", "advisor.isolation._child", str(theirs.fileno())],
            environment={**without_settings(os.environ), **environment, IN_CHILD: "1"},
            output=child_output,
            descriptors=[theirs.fileno()],
        )
    finally:
        theirs.close()
        if output is not None:
            os.close(output)
    return process, Connection(ours.detach())


def without_settings(variables: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what would change the results of a child.

    For example, ``TF_USE_LEGACY_KERAS=1`` is another Keras,
    and ``keras.json`` may say that channels come first.
    """
    environment = {}
    for name, value in variables.items():
        if name.startswith(SETTINGS_OF_GPUS) or not name.startswith(SETTINGS):
            environment[name] = value
    return environment


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
    """

    def __init__(
        self, log: Path | None = None, environment: Mapping[str, str | None] | None = None
    ) -> None:
        self._log = log
        wanted = {**QUIET_ONE_THREAD, NETWORK: "", **(environment or {})}
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
            self._require_idle()
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
            self._require_idle()
            self._idle[-1].begin()

    def _require_idle(self) -> None:
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


_workers = partial(ChildPool, environment=ENDS_WITH_PARENT)
_converters = partial(
    ChildPool,
    environment={**ENDS_WITH_PARENT, IMPORTS: "tensorflow keras advisor.catalog._convert"},
)


@cache
def map_pools() -> Mapping[str, Callable[[Path | None], ChildPool]]:
    """Return the function that makes the pool of each kind:
    without TensorFlow, with it, and with it for training.

    Their children end with this process when paused.
    """
    return {LIGHT: _workers, HEAVY: _converters, TRAINERS: Trainers}

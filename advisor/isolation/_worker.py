"""One child process that runs many calls, each with limits of time, memory and processes.

``_pool.py`` keeps workers, ``_child.py`` is the program that they start. The names of environment
variables are the protocol between the two. A call that exceeds a limit or crashes ends the child,
and the next call gets a new one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socketpair
from typing import Any

import psutil

from advisor.core import StageError, show_bytes, show_seconds
from advisor.isolation._pause import Pause
from advisor.isolation._process import ENDS_IN_S, IN_CHILD, ChildProcess
from advisor.isolation._scratch import TEMPORARY_FOLDER, Scratch, no_follow

_POLL_S = 0.2  # Seconds between two looks at the limits of a call

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

YIELDS = "ADVISOR_CHILD_YIELDS"
"""The environment variable of children that run only where nothing else wants a core."""

SETTINGS = ("TF_", "KERAS_", "XLA_", "TFHUB_", "CUDA_VISIBLE_DEVICES")
"""Beginnings of variables by which people set up TensorFlow and Keras for their own work."""

SETTINGS_OF_GPUS = ("TF_GPU_", "TF_FORCE_GPU_", "TF_CUDA_")
"""Beginnings of those that say how a GPU is used; training keeps them."""


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
    see :class:`.ChildPool`.
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
        self,
        function: str,
        *args: object,
        limits: CallLimits,
        pause: Pause | None = None,
    ) -> Any:
        """Call ``module:function`` in the child and return its value;
        errors of ours are those of the function.

        StageError if the call crashed or exceeded a limit; the next call gets a new child.
        """
        process, connection, is_new = self._ensure_started()
        pause = pause or Pause()
        # A pause stops the child by a signal, so that a timing elsewhere has the machine alone.
        pause.attach(process.send)
        try:
            watched = psutil.Process(process.pid)
            # The first call of a child has its CPU seconds from its start on. They are read before
            # the call is sent, because the child begins at once, also where this process waits for
            # a processor.
            before_s = 0.0 if is_new else _read_cpu_s(watched)
            # A call that is repeated has taken the seconds of the first one, too.
            before_s -= pause.cpu_s
            connection.send((function, args))
            succeeded, value = self._wait(watched, before_s, connection, limits, pause)
        # A child that dies closes its end of the connection:
        # the reason is in its exit code, not in this error.
        except (EOFError, OSError, psutil.NoSuchProcess):
            raise self._explain_death(process) from None
        finally:
            pause.detach()
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
            process = self._process
            connection = self._connection
            if process is not None and connection is not None and process.status is None:
                return process, connection, False
            # A child that the system ended between two calls is replaced like one that never ran.
            self.stop()
            self._scratch = Scratch()
            environment = {**self._environment, TEMPORARY_FOLDER: str(self._scratch.path)}
            process, connection = _start_child(self._log, environment)
            self._process = process
            self._connection = connection
            return process, connection, True

    def _wait(
        self,
        watched: psutil.Process,
        before_s: float,
        connection: Connection[Any, Any],
        limits: CallLimits,
        pause: Pause,
    ) -> Any:
        """Return the answer of a child that had taken ``before_s`` CPU seconds before the call."""
        # The limit counts work: time that the child waits
        # for a processor is added to the deadline below.
        deadline = time.monotonic() + limits.seconds - _read_waited_s(watched.pid)
        while not connection.poll(_POLL_S):
            pause.cpu_s = _read_cpu_s(watched) - before_s
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
        pause.cpu_s = _read_cpu_s(watched) - before_s
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


def _start_child(
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

"""Run functions by name in pools of child processes, one pool for each kind of job."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from advisor.isolation.worker import ENDS_WITH_PARENT, CallLimits, Pause, Worker

# Take the network, other programs and foreign folders away from a child process, where the kernel allows it.
#
# Linux lets every user make a namespace without network interfaces, unless the distribution or a container forbids it.
# From version 5.13 on, Landlock (docs.kernel.org/userspace-api/landlock.html) lets a process give up rights to files.

# linux/sched.h
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
# linux/landlock.h and linux/prctl.h; the numbers of the system calls are the same on every processor.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_EXECUTE, _WRITE_FILE, _TRUNCATE = 1 << 0, 1 << 1, 1 << 14
_CHANGE_FOLDERS = sum(1 << right for right in range(4, 13))
_RENAME_BETWEEN_FOLDERS = 1 << 13
_RENAME_SINCE, _TRUNCATE_SINCE = 2, 3

WRITES_BELOW = "ADVISOR_CHILD_WRITES_BELOW"
"""The environment variable of children that start no program and write below this folder and their temporary one."""

NETWORK = "ADVISOR_CHILD_NETWORK"
"""The environment variable of children that keep the network; it is empty for all others."""


def leave_network() -> None:
    """Move this process, which must have one thread, into a namespace without a network; do nothing if it may not.

    Root gets no user namespace: it would lose the right to files of other users.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        unshare = ctypes.CDLL(None).unshare
    except (OSError, AttributeError):
        return  # not Linux
    if user == 0:
        unshare(_CLONE_NEWNET)
    elif unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with contextlib.suppress(OSError):  # the files stay the user's own; only names of users are not shown
                Path("/proc/self", name).write_text(text, encoding="ascii")


def give_up_files(folders: Sequence[str]) -> bool:
    """Let this process, which must have one thread, start no program and write below ``folders`` only.

    Returns whether the kernel does that; if not, nothing changes. Everything can still be read.
    """
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
    except (OSError, AttributeError):
        return False  # not Linux
    version = call(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    write = _WRITE_FILE | (_TRUNCATE if version >= _TRUNCATE_SINCE else 0)
    change = write | _CHANGE_FOLDERS | (_RENAME_BETWEEN_FOLDERS if version >= _RENAME_SINCE else 0)
    rules = call(_CREATE_RULESET, struct.pack("=Q", _EXECUTE | change), ctypes.c_size_t(8), 0)
    for folder, rights in ((os.devnull, write), *((folder, change) for folder in folders)):
        opened = os.open(folder, os.O_RDONLY)
        call(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, opened), 0)
        os.close(opened)
    confined = ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 and call(_RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return bool(confined)


def has_network() -> bool:
    """Return whether this process has a network interface beside its own loopback."""
    return any(name != "lo" for _, name in socket.if_nameindex())


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

"""A call that can be stopped for a while: a measurement wants the machine alone, and training must not start anew."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial


class Pause:
    """Stops and continues the child of one call (SIGSTOP, SIGCONT), whatever it does at the time.

    A child that is stopped cannot see its parent die: children that may be paused ask the kernel to be ended then
    (:data:`ENDS_WITH_PARENT`).
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._reach: Callable[[int], None] | None = None
        self._paused = False
        self._clock = clock
        self._since = self._still_s = 0.0

    @property
    def still_s(self) -> float:
        """Seconds that the call has stood still."""
        with self._lock:
            return self._still_s + (self._clock() - self._since if self._paused else 0.0)

    def attach(self, pid: int) -> None:
        """The call runs in this process, the leader of a group of its own."""
        self.reach(partial(_signal, pid))

    def reach(self, send: Callable[[int], None]) -> None:
        """The call runs where ``send`` takes a signal to."""
        with self._lock:
            self._reach = send
            if self._paused:
                send(signal.SIGSTOP)

    def detach(self) -> None:
        """The call is over; its child goes on for others."""
        with self._lock:
            if self._paused:
                self._send(signal.SIGCONT)
            self._reach = None

    def pause(self) -> None:
        """Stop the child, at once or as soon as there is one."""
        with self._lock:
            if not self._paused:
                self._since = self._clock()
            self._paused = True
            self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the child go on."""
        with self._lock:
            if self._paused:
                self._still_s += self._clock() - self._since
            self._paused = False
            self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        if self._reach is not None:
            self._reach(number)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


ENDS_WITH_PARENT = {"ADVISOR_CHILD_ENDS_WITH_PARENT": "1"}
"""Environment of children that may be paused: the kernel ends them with the thread that started them (Linux)."""

"""A call that can be stopped for a while: a measurement wants the machine alone, and training must not start anew."""

from __future__ import annotations

import contextlib
import os
import signal
import threading


class Pause:
    """Stops and continues the child of one call (SIGSTOP, SIGCONT), whatever it does at the time.

    A child that is stopped cannot see its parent die: children that may be paused ask the kernel to be ended then
    (:data:`ENDS_WITH_PARENT`).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid: int | None = None
        self._paused = False

    def attach(self, pid: int) -> None:
        """The call runs in this process, the leader of a group of its own."""
        with self._lock:
            self._pid = pid
            if self._paused:
                self._send(signal.SIGSTOP)

    def detach(self) -> None:
        """The call is over; its child goes on for others."""
        with self._lock:
            if self._paused:
                self._send(signal.SIGCONT)
            self._pid = None

    def pause(self) -> None:
        """Stop the child, at once or as soon as there is one."""
        with self._lock:
            self._paused = True
            self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the child go on."""
        with self._lock:
            self._paused = False
            self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, number)


ENDS_WITH_PARENT = {"ADVISOR_CHILD_ENDS_WITH_PARENT": "1"}
"""Environment of children that may be paused: the kernel ends them with the thread that started them (Linux)."""

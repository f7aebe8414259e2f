"""Pause a call while a measurement needs the whole machine, so that training need not start again."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable


class Pause:
    """Pauses and resumes the child process of one call with SIGSTOP and SIGCONT.

    A paused child cannot see that its parent died, so children that may be paused ask the kernel to kill them then
    (:data:`ENDS_WITH_PARENT`).
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._send_signal: Callable[[int], None] | None = None
        self._paused = False
        self._clock = clock
        self._since = self._paused_s = 0.0

    @property
    def paused_s(self) -> float:
        """Seconds that the call has been paused so far."""
        with self._lock:
            return self._paused_s + (self._clock() - self._since if self._paused else 0.0)

    def attach(self, send_signal: Callable[[int], None]) -> None:
        """Attach the call that starts now; ``send_signal`` sends a signal to it, wherever it runs."""
        with self._lock:
            self._send_signal = send_signal
            if self._paused:
                send_signal(signal.SIGSTOP)

    def detach(self) -> None:
        """Detach the call, which is done; its child process continues with other calls."""
        with self._lock:
            if self._paused:
                self._send(signal.SIGCONT)
            self._send_signal = None

    def pause(self) -> None:
        """Pause the call now, or as soon as it is attached."""
        with self._lock:
            if not self._paused:
                self._since = self._clock()
            self._paused = True
            self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the call."""
        with self._lock:
            if self._paused:
                self._paused_s += self._clock() - self._since
            self._paused = False
            self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        if self._send_signal is not None:
            self._send_signal(number)


ENDS_WITH_PARENT = {"ADVISOR_CHILD_ENDS_WITH_PARENT": "1"}
"""Environment of children that may be paused: the kernel (Linux) kills them when the thread that started them ends."""

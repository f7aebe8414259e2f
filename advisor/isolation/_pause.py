"""Pause, resume and end the call of a child process from another thread.

The scheduler of a search pauses jobs while it times a file. A :class:`Pause` goes with a call to
whatever runs it: a pool here, or an executor elsewhere.
"""

import signal
import threading
import time
from collections.abc import Callable


class Pause:
    """Pauses, resumes and ends the child process of one call with signals,
    and knows its CPU seconds.

    ``cpu_s``: those of the child, and of what it started and that ended, so far. ``unwanted``:
    set when the call ends.

    A paused child cannot see that its parent died, so children that may be paused ask the kernel
    to kill them then (:data:`.ENDS_WITH_PARENT`).
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._send_signal: Callable[[int], None] | None = None
        self._paused = False
        self._clock = clock
        # When the pause of now began; without meaning while there is none.
        self._since = 0.0
        self._paused_s = 0.0
        self.cpu_s = 0.0
        self.unwanted = threading.Event()

    @property
    def paused_s(self) -> float:
        """Seconds that the call has been paused so far."""
        with self._lock:
            if not self._paused:
                return self._paused_s
            return self._paused_s + self._clock() - self._since

    def attach(self, send_signal: Callable[[int], None]) -> None:
        """Attach the call that starts now; ``send_signal`` sends it a signal, wherever it runs."""
        with self._lock:
            self._send_signal = send_signal
            # The wish may be older than the call:
            # it was waiting for a child when it was paused or given up.
            if self.unwanted.is_set():
                send_signal(signal.SIGKILL)
            elif self._paused:
                send_signal(signal.SIGSTOP)

    def detach(self) -> None:
        """Detach the call, which is done; its child process continues with other calls."""
        with self._lock:
            # The child goes on to the next call, which nobody has paused.
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

    def end(self) -> None:
        """End the call now, or as soon as it is attached: nobody needs its result any more."""
        with self._lock:
            self.unwanted.set()
            self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        if self._send_signal is not None:
            self._send_signal(number)

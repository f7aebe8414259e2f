"""End what a search does before its first job at its time limit: reading, comparing and dividing images."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from advisor.core import ExitCode, StageError

AGAIN_S = 5.0  # Seconds until the work is ended again, if something caught the first end


class OutOfTime(StageError):
    """The time limit ended a search before its first job: exit code 3."""

    exit_code = ExitCode.UNSATISFIED


def out_of_time(limit: str, before: str, hint: str) -> OutOfTime:
    """Return the error for a time limit that ended before something, such as "the first job"."""
    return OutOfTime(f"--time-limit {limit} ended before {before}: nothing is known", hint)


class _Ended(BaseException):
    """The time is over. No error, so that nothing on the way takes it for a fault of a file."""


@contextmanager
def end_block_at(ends_at: float, limit: str) -> Iterator[None]:
    """End the block at ``ends_at`` of the monotonic clock with OutOfTime; ``limit`` is the limit as a person wrote it.

    Only the main thread can be ended so. In others, and on systems without such a timer, the block goes on.
    """
    # Python runs handlers of signals in the main thread only, and refuses to set one elsewhere.
    if math.isinf(ends_at) or threading.current_thread() is not threading.main_thread():
        yield
        return
    if not hasattr(signal, "setitimer"):
        yield
        return

    def end(*_: object) -> None:
        raise _Ended

    began = time.monotonic()
    handler = signal.signal(signal.SIGALRM, end)
    # With a period, because something on the way may catch the first end.
    left_s, every_s = signal.setitimer(signal.ITIMER_REAL, max(0.001, ends_at - began), AGAIN_S)
    try:
        yield
    except _Ended:
        raise out_of_time(
            limit,
            "the images were read and compared",
            "give it more time, or name fewer images; other programs may keep this machine busy",
        ) from None
    finally:
        # A timer of the caller goes on as if it had never been replaced.
        signal.setitimer(
            signal.ITIMER_REAL, max(0.001, left_s - (time.monotonic() - began)) if left_s else 0.0, every_s
        )
        signal.signal(signal.SIGALRM, handler)

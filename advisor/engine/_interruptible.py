"""Run work in a thread of its own, so that an interrupt of its caller ends it in order.

A search runs so (``_run.py``): Ctrl-C reaches the main thread, which asks the work to stop and
waits for it. Nothing here knows searches.
"""

import threading
from collections.abc import Callable

LOOK_S = 0.5
"""Seconds between two looks at whether the work has ended.
Some systems notice an interrupt only between two.
"""


def run_interruptibly(work: Callable[[], None], stop: Callable[[], None], name: str) -> bool:
    """Run ``work`` in a thread called ``name`` and wait for its end;
    return whether it was interrupted.

    The first interrupt calls ``stop``, which asks the work to end in order. A second one is raised
    and does not wait: the work still runs then. An error of the work is raised.
    """
    errors = list[BaseException]()
    may_begin = threading.Event()
    ended = threading.Event()

    def work_when_guarded() -> None:
        may_begin.wait()
        try:
            work()
        except BaseException as error:  # the caller raises it again
            errors.append(error)
        finally:
            ended.set()

    def wait() -> None:
        # Only now, because an interrupt before would find the work running
        # and nobody who stops it.
        may_begin.set()
        while not ended.wait(LOOK_S):
            pass

    interrupted = False
    threading.Thread(target=work_when_guarded, name=name, daemon=True).start()
    try:
        wait()
    except KeyboardInterrupt:
        interrupted = True
        stop()
        wait()
    if errors:
        raise errors[0]
    return interrupted

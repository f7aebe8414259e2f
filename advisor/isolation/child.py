"""The child's side: import a function by name, call it, send back what it returned or raised.

Run by :class:`advisor.isolation.worker.Worker` as ``python -m advisor.isolation.child FD`` where FD is one end of a
socket pair. A plain child rather than ``multiprocessing``'s spawn, because spawn runs the caller's main script again:
three lines of Python without a ``__main__`` guard would start the search inside every child.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from advisor.core.errors import AdvisorError, StageError, first_line
from advisor.isolation import scratch

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve calls until the parent closes the connection."""
    atexit.register(scratch.remove_own)
    connection: Connection[Any, Any] = Connection(int(sys.argv[1]))
    if os.environ.get("ADVISOR_CHILD_ENDS_WITH_PARENT"):
        _ended_by_the_kernel()
    _end_with_parent(os.getppid())
    while True:
        try:
            name, args, kwargs = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(_outcome(name, args, kwargs))


def _outcome(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, Any]:
    try:
        return True, _function(name)(*args, **kwargs)
    except AdvisorError as error:
        return False, error
    except MemoryError:
        return False, StageError("ran out of memory")
    except Exception as error:
        traceback.print_exc()
        sys.stderr.flush()
        return False, StageError(f"{type(error).__name__}: {first_line(str(error)) or 'no message'}")


def _function(name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return function


def _ended_by_the_kernel() -> None:
    """Ask Linux to end this process with the thread that started it: one that is stopped cannot watch its parent."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_with_parent(parent: int) -> None:
    """Leave no orphan behind: a parent that was killed cannot stop its children."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        scratch.remove_own()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()

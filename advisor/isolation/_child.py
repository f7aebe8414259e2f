"""Run calls in the child process:
import a function by name, call it, send back its value or its error.

Before the first call, the process gives up what calls do not need: network, foreign folders, other
programs, memory. It also makes the imports of TensorFlow lean. ``main`` has the order.

:class:`advisor.isolation._worker.Worker` starts it as ``python -m advisor.isolation._child FD``,
where FD is one end of a socket pair. We do not use ``multiprocessing``'s spawn, because spawn runs
the caller's main script again: a script without a ``__main__`` guard would start the search inside
every child.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from advisor.core import AdvisorError, StageError, first_line
from advisor.isolation import _scratch as scratch
from advisor.isolation._lean_imports import install_lean_imports
from advisor.isolation._process import ENDS_WITH_PARENT, MEMORY
from advisor.isolation._rights import give_up_files, leave_network, limit_memory
from advisor.isolation._worker import IMPORTS, NETWORK, WRITES_BELOW, YIELDS

_PR_SET_PDEATHSIG = 1

_LEAST_NICE = 19
_AUTOGROUP = Path("/proc/self/autogroup")
"""The lowest priority, and where Linux takes that of a session, if it groups processes by it."""


def has_network() -> bool:
    """Return whether this process has a network interface beside its own loopback."""
    return any(name != "lo" for _, name in socket.if_nameindex())


def main() -> None:
    """Serve calls until the parent closes the connection."""
    # Before there is a second thread: the kernel moves and restricts one thread, not a process.
    _give_up_rights()
    atexit.register(scratch.remove_own)
    install_lean_imports()
    _end_with_parent(os.getppid())
    _import_ahead()
    _serve_calls(Connection(int(sys.argv[1])))


def _give_up_rights() -> None:
    """Give up what the environment says that calls do not need:
    network, foreign folders, other programs, memory.
    """
    if not os.environ.get(NETWORK):
        leave_network()
    writes_below = os.environ.get(WRITES_BELOW)
    if writes_below:
        give_up_files([writes_below, tempfile.gettempdir()])
    most_bytes = os.environ.get(MEMORY)
    if most_bytes:
        limit_memory(int(most_bytes))
    if os.environ.get(YIELDS):
        _yield_to_others()


def _yield_to_others() -> None:
    """Take only the time of processors that no other process wants."""
    # Linux shares the cores evenly between sessions first, and each child has its own session.
    with contextlib.suppress(OSError):
        _AUTOGROUP.write_text(str(_LEAST_NICE), encoding="ascii")
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    # Not Linux, or a container that forbids it.
    except (AttributeError, OSError):
        os.nice(_LEAST_NICE)


def _import_ahead() -> None:
    """Import what the parent expects calls to need, while it prepares the first one."""
    for module in os.environ.get(IMPORTS, "").split():
        # If the module is missing, the call that needs it fails with the reason.
        with contextlib.suppress(Exception):
            importlib.import_module(module)


def _serve_calls(connection: Connection[Any, Any]) -> None:
    """Answer each call of the parent, until it closes the connection."""
    while True:
        try:
            name, arguments = connection.recv()
        # A closed connection is the usual end: the parent stops its children so.
        except (EOFError, OSError):
            return
        connection.send(_answer(name, arguments))


def _answer(name: str, arguments: tuple[object, ...]) -> tuple[bool, object]:
    """Return True and the value of a call, or False and its error."""
    module, _, function = name.partition(":")
    try:
        return True, getattr(importlib.import_module(module), function)(*arguments)
    except AdvisorError as error:
        return False, error
    except MemoryError:
        return False, StageError("ran out of memory")
    # The trace is for the log of the run.
    # The parent gets one line, because the class may exist only in this process.
    except Exception as error:
        traceback.print_exc()
        sys.stderr.flush()
        return False, StageError(
            f"{type(error).__name__}: {first_line(str(error)) or 'no message'}"
        )


def _end_with_parent(parent: int) -> None:
    """Exit when the parent is gone: a parent that was killed cannot stop its children."""
    if ENDS_WITH_PARENT.items() <= os.environ.items():
        # Linux kills this process when its parent's thread ends:
        # a paused process cannot watch its parent.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        scratch.remove_own()
        # With the processes that a call started.
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()

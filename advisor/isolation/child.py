"""Run calls in the child process: import a function by name, call it, send back its value or its error.

:class:`advisor.isolation.pool.Worker` starts it as ``python -m advisor.isolation.child FD``, where FD is one end of a
socket pair. We do not use ``multiprocessing``'s spawn, because spawn runs the caller's main script again: a script
without a ``__main__`` guard would start the search inside every child.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

from advisor.core.errors import AdvisorError, StageError, first_line
from advisor.isolation import resources as scratch
from advisor.isolation.pool import NETWORK, WRITES_BELOW, give_up_files, leave_network

OPTIONAL = frozenset({"matplotlib", "pandas", "sklearn"})
"""Keras imports them, where they are installed, for plots, data frames and wrappers: 1.1 s of 3.5 s, and 110 MB."""

LARGE = frozenset({"tensorflow", "keras"})
"""Their objects stay as long as the process. Python's collection of garbage would look at them again and again while
they are made: 0.6 s of 3.2 s."""


def install_lean_imports() -> None:
    """Make later imports of TensorFlow and Keras lean in this process."""
    sys.meta_path.insert(0, _Lean())


class _Lean(MetaPathFinder):
    """Reports the optional packages as missing while Keras is being imported; other code can import them.

    Large packages are imported without collection of garbage.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in OPTIONAL and _is_importing("keras"):
            raise ModuleNotFoundError(f"Keras is imported without {fullname}", name=fullname)
        if fullname in LARGE and gc.isenabled():
            return _uncollected(PathFinder.find_spec(fullname, path))
        return None


def _is_importing(module: str) -> bool:
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return getattr(spec, "_initializing", False) is True  # set by importlib while the module's code runs


def _uncollected(spec: ModuleSpec | None) -> ModuleSpec | None:
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module = partial(_execute, spec.loader)  # type: ignore[method-assign]
    return spec


def _execute(loader: Loader, module: ModuleType) -> None:
    gc.disable()
    try:
        type(loader).exec_module(loader, module)
    finally:
        gc.freeze()
        gc.enable()


_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve calls until the parent closes the connection."""
    if not os.environ.get(NETWORK):
        leave_network()  # before there is a second thread
    if writes_below := os.environ.get(WRITES_BELOW):
        give_up_files([writes_below, tempfile.gettempdir()])
    atexit.register(scratch.remove_own)
    install_lean_imports()
    connection: Connection[Any, Any] = Connection(int(sys.argv[1]))
    if os.environ.get("ADVISOR_CHILD_ENDS_WITH_PARENT"):
        _ended_by_the_kernel()
    _end_with_parent(os.getppid())
    while True:
        try:
            name, arguments = connection.recv()
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
    except Exception as error:
        traceback.print_exc()
        sys.stderr.flush()
        return False, StageError(f"{type(error).__name__}: {first_line(str(error)) or 'no message'}")


def _ended_by_the_kernel() -> None:
    """Ask Linux to kill this process when its parent's thread ends: a paused process cannot watch its parent."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_with_parent(parent: int) -> None:
    """Exit when the parent is gone: a parent that was killed cannot stop its children."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        scratch.remove_own()
        os.killpg(os.getpgrp(), signal.SIGKILL)  # with the processes that a call started

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()

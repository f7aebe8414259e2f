"""Run calls in the child process:
import a function by name, call it, send back its value or its error.

Before the first call, the process gives up what calls do not need: network, foreign folders, other
programs, memory. It also makes the imports of TensorFlow lean. ``main`` has the order.

:class:`advisor.isolation._pool.Worker` starts it as ``python -m advisor.isolation._child FD``,
where FD is one end of a socket pair. We do not use ``multiprocessing``'s spawn, because spawn runs
the caller's main script again: a script without a ``__main__`` guard would start the search inside
every child.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import resource
import signal
import socket
import struct
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
from pathlib import Path
from types import ModuleType
from typing import Any

from advisor.core import AdvisorError, StageError, first_line
from advisor.isolation import _resources as scratch
from advisor.isolation._pool import IMPORTS, NETWORK, WRITES_BELOW
from advisor.isolation._process import ENDS_WITH_PARENT, MEMORY

OPTIONAL = frozenset({"matplotlib", "pandas", "sklearn"})
"""Keras imports them, where they are installed, for plots, data frames and wrappers:
1.1 s of 3.5 s, and 110 MB.
"""

LARGE = frozenset({"tensorflow", "keras"})
"""Their objects stay as long as the process. Python's collection of garbage would look at them
again and again while they are made: 0.6 s of 3.2 s.
"""

# linux/sched.h
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
# linux/landlock.h and linux/prctl.h;
# the numbers of the system calls are the same on every processor.
_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_PATH_BENEATH = 1
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_EXECUTE = 1 << 0
_WRITE_FILE = 1 << 1
_TRUNCATE = 1 << 14
_CHANGE_FOLDERS = sum(1 << right for right in range(4, 13))
_RENAME_BETWEEN_FOLDERS = 1 << 13
_RENAME_SINCE = 2
_TRUNCATE_SINCE = 3


def install_lean_imports() -> None:
    """Make later imports of TensorFlow and Keras lean in this process."""
    sys.meta_path.insert(0, _LeanFinder())


class _LeanFinder(MetaPathFinder):
    """Reports the optional packages as missing while Keras is being imported;
    other code can import them.

    Large packages are imported without collection of garbage.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        keras = getattr(sys.modules.get("keras"), "__spec__", None)
        # importlib sets _initializing while the module's code runs
        if fullname in OPTIONAL and getattr(keras, "_initializing", False) is True:
            raise ModuleNotFoundError(f"Keras is imported without {fullname}", name=fullname)
        spec = (
            PathFinder.find_spec(fullname, path) if fullname in LARGE and gc.isenabled() else None
        )
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = partial(_import_uncollected, spec.loader)  # type: ignore[method-assign]
        return spec


def _import_uncollected(loader: Loader, module: ModuleType) -> None:
    """Run a module's code without collection of garbage,
    and leave its objects out of later collections.
    """
    gc.disable()
    try:
        type(loader).exec_module(loader, module)
    finally:
        gc.freeze()
        gc.enable()


# Take the network, other programs and foreign folders away from a child process,
# where the kernel allows it.
#
# Linux lets every user make a namespace without network interfaces, unless the distribution or a
# container forbids it. From version 5.13 on, Landlock
# (docs.kernel.org/userspace-api/landlock.html) lets a process give up rights to files.


def leave_network() -> None:
    """Move this process, which must have one thread, into a namespace without a network;
    do nothing if it may not.

    Root gets no user namespace: it would lose the right to files of other users.
    """
    user = os.geteuid()
    group = os.getegid()
    try:
        unshare = ctypes.CDLL(None).unshare
    except (OSError, AttributeError):
        # The call exists on Linux alone.
        return
    if user == 0:
        unshare(_CLONE_NEWNET)
    elif unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0:
        # In this order: the kernel takes a map of groups only
        # from a process that gave up setgroups.
        namespace = {
            "setgroups": "deny",
            "uid_map": f"{user} {user} 1",
            "gid_map": f"{group} {group} 1",
        }
        for name, text in namespace.items():
            # The files stay the user's own; only names of users are not shown.
            with contextlib.suppress(OSError):
                Path("/proc/self", name).write_text(text, encoding="ascii")


def give_up_files(folders: Sequence[str]) -> bool:
    """Let this process, which must have one thread,
    start no program and write below ``folders`` only.

    Returns whether the kernel does that; if not, nothing changes. Everything can still be read.
    """
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
    except (OSError, AttributeError):
        # The call exists on Linux alone.
        return False
    version = call(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    # A kernel refuses a set of rules with a right that it does not know.
    write = _WRITE_FILE
    if version >= _TRUNCATE_SINCE:
        write |= _TRUNCATE
    change = write | _CHANGE_FOLDERS
    if version >= _RENAME_SINCE:
        change |= _RENAME_BETWEEN_FOLDERS
    rules = call(_CREATE_RULESET, struct.pack("=Q", _EXECUTE | change), ctypes.c_size_t(8), 0)
    rights_of_paths = {os.devnull: write, **dict.fromkeys(folders, change)}
    for path, rights in rights_of_paths.items():
        descriptor = os.open(path, os.O_RDONLY)
        call(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
        os.close(descriptor)
    # Without this promise, the kernel restricts only processes of root.
    promised = ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    confined = promised and call(_RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return bool(confined)


def limit_memory(most_bytes: int) -> None:
    """Let this process ask for so much memory at most:
    a call that wants more at once fails, and nothing is taken.

    Files that are mapped to be read do not count (getrlimit(2), RLIMIT_DATA).
    Other systems than Linux may count less.
    """
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))


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
    _serve(Connection(int(sys.argv[1])))


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


def _import_ahead() -> None:
    """Import the modules that the parent expects calls to need, while it prepares the first
    one.
    """
    for module in os.environ.get(IMPORTS, "").split():
        # If the module is missing, the call that needs it fails with the reason.
        with contextlib.suppress(Exception):
            importlib.import_module(module)


def _serve(connection: Connection[Any, Any]) -> None:
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

"""Take the network, other programs and foreign folders away from this process,
where the kernel allows it.

Linux lets every user make a namespace without network interfaces, unless the distribution or a
container forbids it. From version 5.13 on, Landlock
(docs.kernel.org/userspace-api/landlock.html) lets a process give up rights to files. A child calls
these functions before it has a second thread: the kernel restricts one thread, not a process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import struct
from collections.abc import Sequence
from pathlib import Path

# linux/sched.h
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000

# linux/landlock.h and linux/prctl.h;
# the numbers of the system calls are the same on every processor.
_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_PATH_BENEATH = 1

_PR_SET_NO_NEW_PRIVS = 38
# Rights to files and folders, and the versions of Landlock since which some of them exist.
_EXECUTE = 1 << 0
_WRITE_FILE = 1 << 1
_TRUNCATE = 1 << 14
_CHANGE_FOLDERS = sum(1 << right for right in range(4, 13))
_RENAME_BETWEEN_FOLDERS = 1 << 13
_RENAME_SINCE = 2
_TRUNCATE_SINCE = 3


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

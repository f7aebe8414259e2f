"""Take the network, other programs and foreign folders away from a child process, where the kernel allows it.

Linux lets every user make a namespace without network interfaces, unless the distribution or a container forbids it.
From version 5.13 on, Landlock (docs.kernel.org/userspace-api/landlock.html) lets a process give up rights to files.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from collections.abc import Sequence
from pathlib import Path

# linux/sched.h
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
# linux/landlock.h and linux/prctl.h; the numbers of the system calls are the same on every processor.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_EXECUTE, _WRITE_FILE, _TRUNCATE = 1 << 0, 1 << 1, 1 << 14
_CHANGE_FOLDERS = sum(1 << right for right in range(4, 13))
_RENAME_BETWEEN_FOLDERS = 1 << 13
_RENAME_SINCE, _TRUNCATE_SINCE = 2, 3

WRITES_BELOW = "ADVISOR_CHILD_WRITES_BELOW"
"""The environment variable of children that start no program and write below this folder and their temporary one."""

NETWORK = "ADVISOR_CHILD_NETWORK"
"""The environment variable of children that keep the network; it is empty for all others."""


def leave_network() -> None:
    """Move this process, which must have one thread, into a namespace without a network; do nothing if it may not.

    Root gets no user namespace: it would lose the right to files of other users.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        unshare = ctypes.CDLL(None).unshare
    except (OSError, AttributeError):
        return  # not Linux
    if user == 0:
        unshare(_CLONE_NEWNET)
    elif unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with contextlib.suppress(OSError):  # the files stay the user's own; only names of users are not shown
                Path("/proc/self", name).write_text(text, encoding="ascii")


def give_up_files(folders: Sequence[str]) -> bool:
    """Let this process, which must have one thread, start no program and write below ``folders`` only.

    Returns whether the kernel does that; if not, nothing changes. Everything can still be read.
    """
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
    except (OSError, AttributeError):
        return False  # not Linux
    version = call(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    write = _WRITE_FILE | (_TRUNCATE if version >= _TRUNCATE_SINCE else 0)
    change = write | _CHANGE_FOLDERS | (_RENAME_BETWEEN_FOLDERS if version >= _RENAME_SINCE else 0)
    rules = call(_CREATE_RULESET, struct.pack("=Q", _EXECUTE | change), ctypes.c_size_t(8), 0)
    for folder, rights in ((os.devnull, write), *((folder, change) for folder in folders)):
        opened = os.open(folder, os.O_RDONLY)
        call(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, opened), 0)
        os.close(opened)
    confined = ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 and call(_RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return bool(confined)


def has_network() -> bool:
    """Return whether this process has a network interface beside its own loopback."""
    return any(name != "lo" for _, name in socket.if_nameindex())

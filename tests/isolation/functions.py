"""Functions that children run in the tests of the isolation."""

from __future__ import annotations

import ctypes
import os
import signal
import time

from advisor.core.errors import UnsupportedRecipe


def add(first: int, second: int) -> int:
    return first + second


def process() -> int:
    return os.getpid()


def refuse() -> None:
    raise UnsupportedRecipe("not for this model", "try another")


def fail() -> None:
    raise ValueError("a plain error\nwith two lines")


def segfault() -> None:
    ctypes.string_at(0)


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    time.sleep(600)


def eat(size: int) -> None:
    held = bytearray(size)
    for place in range(0, size, 4096):
        held[place] = 1
    time.sleep(600)


def talk() -> None:
    os.write(1, b"native words\n")

"""The child processes and ports of a test, and waiting for them."""

import asyncio
import contextlib
import ctypes
import random
import signal
import socket
import time
from collections.abc import Callable
from types import SimpleNamespace

import psutil

PATIENCE_S = 120.0  # Far more than any condition needs: a busy machine is no failure

BELOW_THE_SYSTEMS_OWN = range(20_000, 32_000)
"""Ports that Linux gives to nobody who asks for any: between the choice and the start, no other program gets it."""

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent() -> None:
    """Let Linux end this process with the one that starts it, even if that is killed: a server's ``preexec_fn``."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def children_with(text: str, parent: int | None = None) -> list[psutil.Process]:
    """Return the living descendants of a process (default: this one) that have a text in their command line."""
    return [child for child in psutil.Process(parent).children(recursive=True) if text in _command_line(child)]


def has_ended(pid: int) -> bool:
    """Return whether a process has ended; one that nobody has collected yet has ended, too."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def clock_from(begins: Callable[[], object]) -> SimpleNamespace:
    """Return what stands for the module ``time``: its monotonic clock begins when ``begins`` first holds."""
    start_s: list[float] = []

    def monotonic() -> float:
        if not start_s and begins():
            start_s.append(time.monotonic())
        return time.monotonic() - start_s[0] if start_s else 0.0

    return SimpleNamespace(monotonic=monotonic, sleep=time.sleep)


async def wait_until(condition: Callable[[], object]) -> None:
    """Let other tasks go on until a condition holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


def free_port() -> int:
    """Return a port that nobody listens at, for a server that must know its own; test runs choose different ones."""
    ports = random.SystemRandom().sample(BELOW_THE_SYSTEMS_OWN, 100)
    return next(port for port in ports if not is_open(port))


def is_open(port: int) -> bool:
    """Return whether a server of this machine listens at a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""

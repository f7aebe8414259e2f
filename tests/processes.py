"""The child processes and ports of a test."""

from __future__ import annotations

import socket

import psutil


def children_with(text: str, parent: int | None = None) -> list[psutil.Process]:
    """Return the descendants of a process (default: this one) that have a text in their command line.

    A process that has ended, or is only not yet collected, is none.
    """
    return [child for child in psutil.Process(parent).children(recursive=True) if text in _command_line(child)]


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

"""Run jobs and measurements on the cores of this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from advisor.engine.execution.machine import Machine
from advisor.isolation import ChildPool, MemoryGate
from advisor.isolation.pool import POOLS
from advisor.measurement import host

Result = TypeVar("Result")


class LocalExecutor:
    """Child processes on the cores of this machine. A measurement gets the whole machine.

    Args:
        workers: how many child processes work at the same time.
        log: returns the file that takes their output, None to show it.
    """

    def __init__(self, workers: int, log: Callable[[], Path | None]) -> None:
        self._log = log
        self.machine = Machine(workers, memory_gate=MemoryGate())
        self.host = host.describe()

    @cached_property
    def pools(self) -> Mapping[str, ChildPool]:
        """Child processes by kind."""
        return {kind: make(self._log()) for kind, make in POOLS.items()}

    def on_device(self, device: str, function: Callable[..., Result], /, *arguments: object) -> Result:
        """Call a measuring function on this machine."""
        return function(*arguments)

    def close(self) -> None:
        """End every child process."""
        for pool in self.pools.values():
            pool.close()

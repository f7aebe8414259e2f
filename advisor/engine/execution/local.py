"""The cores of this machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from advisor.engine.execution.machine import Machine
from advisor.engine.execution.protocol import here
from advisor.isolation import ChildPool, MemoryGate
from advisor.isolation.pools import HEAVY, LIGHT, POOLS, TRAINERS
from advisor.measurement import host

Result = TypeVar("Result")


class LocalExecutor:
    """Children on the cores of this machine, which a measurement takes alone.

    Args:
        workers: how many children work side by side.
        log: gives the file that takes their output, None to show it.
    """

    def __init__(self, workers: int, log: Callable[[], Path | None]) -> None:
        self._log = log
        self.machine = Machine(workers, room=MemoryGate())
        self.host = host.describe()

    @cached_property
    def heavy(self) -> ChildPool:
        """Children that import TensorFlow."""
        return POOLS[HEAVY](self._log())

    @cached_property
    def light(self) -> ChildPool:
        """Children that do not."""
        return POOLS[LIGHT](self._log())

    @cached_property
    def trainers(self) -> ChildPool:
        """Children that train."""
        return POOLS[TRAINERS](self._log())

    def on_device(self, device: str, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call a measurement on this machine."""
        return here(device, function, *arguments)

    def close(self) -> None:
        """End every child."""
        for pool in (self.heavy, self.light, self.trainers):
            pool.close()

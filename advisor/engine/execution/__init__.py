"""Run the work of a search on the cores of this machine, or where an integration runs it.

To add an executor, write one class with the members of :class:`Executor`, and register an :class:`ExecutorSource`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from advisor.core.names import EXECUTORS, LOCAL, integration
from advisor.engine.execution.machine import Machine
from advisor.isolation import ChildPool, Children, MemoryGate
from advisor.isolation.pool import POOLS
from advisor.measurement import host
from advisor.measurement.host import Host

if TYPE_CHECKING:
    from advisor.engine.question import Execution

__all__ = ["Executor", "ExecutorSource", "OnDevice", "call_locally", "executor_for"]

Result = TypeVar("Result")


class OnDevice(Protocol):
    """Calls a measuring function on the machine that has the device."""

    def __call__(self, device: str, function: Callable[..., Result], /, *arguments: object) -> Result:
        """Return ``function(*arguments)``, called on the machine with ``device``."""


class Executor(Protocol):
    """Runs jobs in child processes, and measurements on the machine that has the device."""

    @property
    def machine(self) -> Machine:
        """Decides when a job or a measurement may start."""

    @property
    def pools(self) -> Mapping[str, Children]:
        """Child processes by kind: see :data:`advisor.isolation.pool.POOLS`."""

    @property
    def host(self) -> Host:
        """The machine that measures the device ``host``."""

    def on_device(self, device: str, function: Callable[..., Result], /, *arguments: object) -> Result:
        """Call a measuring function on the machine with the device; on another machine, one call at a time."""

    def close(self) -> None:
        """End every child process, also the busy ones."""


class ExecutorSource(Protocol):
    """A module or an object that makes an executor; registered by its name in ``advisor.executors``."""

    VALUES: str
    """The values of ``--executor`` that mean it, with a word on each."""

    def executor(self, execution: Execution) -> Executor:
        """Return the connected executor.

        Raises:
            UsageError: it cannot be reached, or a package that it needs is not installed.
        """


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


def call_locally(_device: str, function: Callable[..., Result], /, *arguments: object) -> Result:
    """Call a measuring function on this machine, which has a connection to every device."""
    return function(*arguments)


def executor_for(execution: Execution, log: Callable[[], Path | None]) -> Executor:
    """Return the connected executor.

    Args:
        execution: names the executor, with its settings.
        log: returns the file for the output of local child processes, None to show it.

    Raises:
        UsageError: the executor cannot be reached, or a package that it needs is not installed.
    """
    if execution.executor == LOCAL:
        return LocalExecutor(execution.cores, log)
    source: ExecutorSource = integration(EXECUTORS, execution.executor)
    return source.executor(execution)

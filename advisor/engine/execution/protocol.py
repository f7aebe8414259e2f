"""What a search needs from the machines that run its work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from advisor.engine.execution.machine import Machine
    from advisor.isolation import Children
    from advisor.measurement.host import Host

Result = TypeVar("Result")


class OnDevice(Protocol):
    """Calls a measuring function on the machine that has the device."""

    def __call__(self, device: str, function: Callable[..., Result], /, *arguments: object) -> Result:
        """Return ``function(*arguments)``, called where ``device`` is attached."""


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
        """Call a measuring function where the device is attached; on another machine, one call at a time."""

    def close(self) -> None:
        """End every child process, also the busy ones."""


def call_locally(_device: str, function: Callable[..., Result], /, *arguments: object) -> Result:
    """Call a measuring function on this machine, which has a connection to every device."""
    return function(*arguments)

"""What a search asks of the place where its work runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from advisor.engine.execution.machine import Machine
    from advisor.isolation import Children
    from advisor.measurement.host import Host

Result = TypeVar("Result")

OnDevice = Callable[..., Any]
"""Called as ``on_device(device, function, *arguments)``: calls the function where the device is attached."""


class Executor(Protocol):
    """Runs jobs in children, and measurements where their device is."""

    @property
    def machine(self) -> Machine:
        """Says when a job or a measurement may begin."""

    @property
    def heavy(self) -> Children:
        """Children that import TensorFlow."""

    @property
    def light(self) -> Children:
        """Children that do not."""

    @property
    def trainers(self) -> Children:
        """Children that import TensorFlow, see the GPU, and may be paused for a measurement."""

    @property
    def host(self) -> Host:
        """The machine that measures the device ``host``."""

    def on_device(self, device: str, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call a measurement where the device is attached; one at a time where it is another machine."""

    def close(self) -> None:
        """End everything, also what is busy."""


def here(_device: str, function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a measurement on this machine, whatever the device: it has its own connection."""
    return function(*arguments)

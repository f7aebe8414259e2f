"""The settings of a connection to a device, as a profile or the options of a command state them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core import UsageError

if TYPE_CHECKING:
    from advisor.devices._connections.protocol import Connection

HERE = "here"
"""The way of this machine itself. Options can name it; a profile cannot, because others may read it elsewhere."""


@dataclass(frozen=True)
class ConnectionSettings:
    """The connection to a device: over one of the ways to it, or this machine itself."""

    way: str = ""  #: what connects: a key of :data:`advisor.devices._connections.ways.WAYS`, or :data:`HERE`
    address: str = ""  #: what the way leads to, such as ``user@host`` or a serial
    port: int | None = None  #: port for ssh, None for that of the ssh configuration
    python: str = "python3"  #: Python interpreter on the device, for ssh
    benchmark_model: Path | None = None  #: the binary for the phone, for adb
    cores: str = ""  #: hexadecimal mask of the cores to pin it to, for adb

    @property
    def here(self) -> bool:
        """True if the device is this machine."""
        return self.way == HERE

    @classmethod
    def from_options(
        cls,
        ssh: str = "",
        adb: str = "",
        here: bool = False,
        python: str = "python3",
        benchmark_model: str | Path | None = None,
        cores: str = "",
    ) -> ConnectionSettings | None:
        """Return the settings that these options describe, or None if they name no connection.

        UsageError if they name several connections, or what only adb needs.
        """
        addresses = {"ssh": ssh, "adb": adb, HERE: HERE if here else ""}
        stated = [(way, address) for way, address in addresses.items() if address]
        if len(stated) > 1:
            raise _unclear(f"--{way}" for way in addresses)
        if stated:
            binary = Path(benchmark_model) if benchmark_model else None
            return cls(*stated[0], python=python, benchmark_model=binary, cores=cores)
        if benchmark_model or cores:
            raise UsageError("--benchmark-model and --cores need --adb", "name the phone by its serial: --adb SERIAL")
        return None

    def connect(self, accelerator: str = "cpu") -> Connection:
        """Return the connection to a target of this kind; it does not contact the device yet.

        UsageError if the settings name no connection or one that is not valid, or if it cannot measure this kind.
        """
        # The modules that connect are imported here: the command line reads settings, and must start fast.
        from advisor.devices._connections.agent import connect_here
        from advisor.devices._connections.ways import WAYS

        if self.here:
            return connect_here(accelerator)
        if self.way not in WAYS:
            raise _unclear((*WAYS, HERE))
        return WAYS[self.way].connect(self, accelerator)


def _unclear(ways: Iterable[str]) -> UsageError:
    return UsageError("the connection is not clear", f"give one of {', '.join(ways)}")

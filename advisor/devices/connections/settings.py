"""Settings of a connection to a device, from its profile or the command line; they contain no secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.errors import UsageError

if TYPE_CHECKING:
    from advisor.devices.connections.protocol import Connection

DELEGATES: Mapping[str, tuple[str, ...]] = {"cpu": (), "gpu": ("--use_gpu=true",), "npu": ("--use_nnapi=true",)}
"""Options of ``benchmark_model`` that put a model on an accelerator (its own help text)."""


@dataclass(frozen=True)
class ConnectionSettings:
    """The connection to a device: over ssh, over adb, or this machine itself.

    Attributes:
        ssh: host, ``user@host`` or a name of the user's ssh configuration.
        adb: serial of an attached phone.
        here: the device is this machine.
        port: port for ssh, None for that of the ssh configuration.
        python: Python interpreter on the device, for ssh.
        benchmark_model: the binary for the phone, for adb.
        cores: hexadecimal mask of the cores to pin it to, for adb.
    """

    ssh: str = ""
    adb: str = ""
    here: bool = False
    port: int | None = None
    python: str = "python3"
    benchmark_model: Path | None = None
    cores: str = ""

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

        Raises:
            UsageError: there are options for adb but no serial.
        """
        if ssh or adb or here:
            binary = Path(benchmark_model) if benchmark_model else None
            return cls(ssh, adb, here, None, python, binary, cores)
        if benchmark_model or cores:
            raise UsageError("--benchmark-model and --cores need --adb", "name the phone by its serial: --adb SERIAL")
        return None

    def connect(self, accelerator: str = "cpu") -> Connection:
        """Return the connection object; it does not contact the device yet.

        Args:
            accelerator: kind of the target; the agent measures on the CPU only.

        Raises:
            UsageError: the settings name no connection or several, or one that is not valid.
        """
        if sum(map(bool, (self.ssh, self.adb, self.here))) != 1:
            raise UsageError("the connection is not clear", "give one of --ssh, --adb and --here")
        if self.adb:
            return self._adb(accelerator)
        if accelerator != "cpu":
            raise UsageError(
                f"over {'ssh' if self.ssh else 'the host'} the agent measures CPU targets only, not '{accelerator}'",
                "name a CPU target of the device, or connect to a phone over adb",
            )
        if self.ssh:
            from advisor.devices.connections.ssh import SshConnection

            return SshConnection(self.ssh, self.python, self.port)
        from advisor.devices.connections.host import HostConnection

        return HostConnection()

    def _adb(self, accelerator: str) -> Connection:
        from advisor.devices.connections.adb import AdbConnection

        if accelerator not in DELEGATES:
            raise UsageError(
                f"benchmark_model has no option for '{accelerator}'", f"it has options for: {', '.join(DELEGATES)}"
            )
        if self.benchmark_model is None or not self.benchmark_model.is_file():
            raise UsageError(
                f"--benchmark-model: '{self.benchmark_model or ''}' is not a file",
                "download TensorFlow Lite's benchmark_model for the phone's processor",
            )
        return AdbConnection(self.adb, self.benchmark_model, self.cores, DELEGATES[accelerator])

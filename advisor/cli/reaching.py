"""Options that say how a device is reached: shared by the commands that measure on one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from advisor.devices.connections.settings import ConnectionSettings

Ssh = Annotated[
    str, typer.Option(metavar="HOST", help="Reach it over ssh: host, user@host or a name of your ssh config.")
]
Adb = Annotated[str, typer.Option(metavar="SERIAL", help="Reach it over adb: its serial.")]
Python = Annotated[str, typer.Option(metavar="PATH", help="The device's Python, with a TFLite runtime (--ssh).")]
BenchmarkModel = Annotated[
    str, typer.Option(metavar="PATH", help="TensorFlow Lite's benchmark_model for the phone's processor (--adb).")
]
Cores = Annotated[
    str, typer.Option(metavar="MASK", help="Mask of the cores to pin to, hexadecimal, such as f0 (--adb).")
]


def reach(ssh: str, adb: str, here: bool, python: str, benchmark_model: str, cores: str) -> ConnectionSettings | None:
    """Return the way that the options describe, None where they name none.

    Raises:
        UsageError: an option that belongs to another way.
    """
    from pathlib import Path

    from advisor.core.errors import UsageError
    from advisor.devices.connections.settings import ConnectionSettings

    if not (ssh or adb or here):
        if benchmark_model or cores:
            raise UsageError("--benchmark-model and --cores need --adb", "say which phone, by its serial")
        return None
    return ConnectionSettings(ssh, adb, here, None, python, Path(benchmark_model) if benchmark_model else None, cores)

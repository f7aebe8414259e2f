"""Options of the commands that measure on a device: how to connect to it."""

from __future__ import annotations

from typing import Annotated

import typer

Ssh = Annotated[
    str, typer.Option(metavar="HOST", help="Connect over ssh: host, user@host or a name of your ssh configuration.")
]
Adb = Annotated[str, typer.Option(metavar="SERIAL", help="Connect over adb to the phone with this serial.")]
Python = Annotated[
    str,
    typer.Option(metavar="PATH", help="Python interpreter of the device that has a TFLite runtime (--ssh)."),
]
BenchmarkModel = Annotated[
    str, typer.Option(metavar="PATH", help="TensorFlow Lite's benchmark_model for the phone's processor (--adb).")
]
Cores = Annotated[
    str, typer.Option(metavar="MASK", help="Hexadecimal mask of the cores that run the models, such as f0 (--adb).")
]

"""Options of several commands, and values of options as a user writes them: several names, a shape, numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from advisor.cli import completion
from advisor.core.errors import UsageError
from advisor.core.units import channel_values

RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run folder, such as runs/latest.", autocompletion=completion.runs),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel="Output")]
Sort = Annotated[
    str,
    typer.Option(
        metavar="COLUMNS",
        help="Sort the table by these columns, joined by commas; one after '-' descends: --sort=-size.",
        rich_help_panel="Output",
    ),
]
Filter = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="CONDITION",
        help="Show only rows such as 'size<5MB' or 'card=mobilenet*,lenet'; repeat for more. Signs: = != < <= > >=.",
        rich_help_panel="Output",
    ),
]
LogTo = Annotated[
    str | None,
    typer.Option(
        metavar="PLACE",
        help="Also log the answer to mlflow:ADDRESS, with the question, the figures, the front and the bundle.",
        rich_help_panel="Output",
    ),
]
Format = Annotated[
    str, typer.Option("--format", metavar="FORMAT", help="Format of the output: text, markdown or json.")
]
Catalogs = Annotated[
    list[str] | None,
    typer.Option("--catalog", metavar="FILE", help="Catalogue file of your own (YAML); repeat for more."),
]
ProfileFolders = Annotated[
    list[str] | None,
    typer.Option("--profiles", metavar="DIR", help="Folder of your own device profiles; repeat for more."),
]
Mirror = Annotated[str | None, typer.Option(metavar="PLACE", help="Folder or address of weights that is asked first.")]
Offline = Annotated[bool, typer.Option("--offline", help="Open no connection.")]
Shape = Annotated[
    str | None,
    typer.Option(metavar="SHAPE", help="Shape of the first input, if the file leaves it open: 1,224,224,3."),
]
Xnnpack = Annotated[bool, typer.Option("--xnnpack/--no-xnnpack", help="Use XNNPACK where it applies.")]
Mean = Annotated[
    str | None, typer.Option(metavar="NUMBERS", help="Value subtracted from RGB 0 to 255, if no file states it: 127.5.")
]
Std = Annotated[str | None, typer.Option(metavar="NUMBERS", help="Value that the difference is divided by: 127.5.")]

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


def split(values: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the parts of an option that may be repeated, or joined by commas; None if the option is not given."""
    parts = tuple(part.strip() for value in values or () for part in value.split(",") if part.strip())
    return parts or None


def shape_of(text: str | None) -> tuple[int, ...] | None:
    """Parse a shape: ``1,224,224,3`` or ``1x224x224x3``.

    Raises:
        UsageError: something else.
    """
    if text is None:
        return None
    parts = text.replace("x", ",").split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"--shape: '{text}' is not a shape", "write for example --shape 1,224,224,3")
    return tuple(int(part) for part in parts)


def numbers(text: str | None, option: str) -> tuple[int, ...] | None:
    """Parse whole numbers from 0 on, joined by commas.

    Raises:
        UsageError: something else.
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise UsageError(f"{option}: '{text}' is not a list of whole numbers", f"write for example {option} 0,1")
    return tuple(map(int, parts))


def channels(text: str | None, option: str) -> tuple[float, ...] | None:
    """Parse one number, or three joined by commas: ``127.5`` or ``123.7,116.3,103.5``.

    Raises:
        UsageError: something else.
    """
    return None if text is None else channel_values(text, option)

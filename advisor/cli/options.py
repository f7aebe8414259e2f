"""Options of several commands, their completion, and values of options as a user writes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

from advisor.core.errors import UsageError
from advisor.core.options import GROUPS, OUTPUT, SEARCH, Option, Table
from advisor.core.units import channel_values

if TYPE_CHECKING:
    from typer._click.core import Context, Parameter
    from typer._click.formatting import HelpFormatter


Complete = Callable[[str], list[str]]


def completion_of(option: str) -> Complete:
    """Return the completion of an option of a search; of several names joined by commas, the last is completed."""

    def complete(incomplete: str) -> list[str]:
        from advisor.api.options import choices

        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in _matching(choices(option), last)]

    return complete


def complete_runs(incomplete: str) -> list[str]:
    """Return the run folders below the folder that is named, ``runs`` by default."""
    folder = Path(incomplete.rpartition("/")[0] or "runs")
    with suppress(OSError):
        return _matching((str(path.parent) for path in sorted(folder.glob("*/request.yaml"))), incomplete)
    return []


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run folder, such as runs/latest.", autocompletion=complete_runs),
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
    """Parse a shape: ``1,224,224,3`` or ``1x224x224x3``. Raises UsageError: something else."""
    if text is None:
        return None
    parts = text.replace("x", ",").split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"--shape: '{text}' is not a shape", "write for example --shape 1,224,224,3")
    return tuple(int(part) for part in parts)


def numbers(text: str | None, option: str) -> tuple[int, ...] | None:
    """Parse whole numbers from 0 on, joined by commas. Raises UsageError: something else."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise UsageError(f"{option}: '{text}' is not a list of whole numbers", f"write for example {option} 0,1")
    return tuple(map(int, parts))


def channels(text: str | None, option: str) -> tuple[float, ...] | None:
    """Parse one number, or three joined by commas: ``127.5`` or ``123.7,116.3,103.5``.

    Raises UsageError: something else.
    """
    return None if text is None else channel_values(text, option)


Command = Callable[..., None]


def annotations_of(table: Table, defaults: bool = True) -> Mapping[str, Any]:
    """Return the annotation of a command's parameter for each option; it is None if it is not given.

    Args:
        table: the options.
        defaults: the help states the defaults of a search.
    """
    return {name: _annotation(name, option, defaults) for name, option in table.items()}


def _annotation(name: str, option: Option, defaults: bool) -> Any:
    kind: Any = list[str] if isinstance(option.default, tuple) else type(option.default)
    declared = typer.Option(
        *([f"--{name}"] if option.default is False else []),  # a flag has no negative form
        metavar=option.metavar or None,
        help=option.help if defaults else option.text,
        rich_help_panel=option.group,
        callback=split if option.joined else None,
        autocompletion=complete_runs if name == "resume" else completion_of(name),
    )
    return Annotated[kind | None, declared]


def takes(options: Mapping[str, Any]) -> Callable[[Command], Command]:
    """Declare options of a command before its own; the command receives them as keyword arguments.

    Args:
        options: the annotation of each option by its name. The default of each is None.
    """

    def declare(command: Command) -> Command:
        kind = inspect.Parameter.KEYWORD_ONLY
        shared = [inspect.Parameter(name, kind, default=None, annotation=each) for name, each in options.items()]
        declared = inspect.signature(command, eval_str=True).parameters.values()
        own = [each for each in declared if each.kind is not inspect.Parameter.VAR_KEYWORD]
        parameters = sorted([*shared, *own], key=lambda each: each.kind)  # arguments come before options
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return declare


class GroupedCommand(TyperCommand):
    """A command whose plain help shows each ``rich_help_panel`` under its own heading, in the order of ``GROUPS``."""

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the options of each group; an option without a group belongs to the output."""
        for group in GROUPS:
            _write(group, [option for option in self.get_params(ctx) if _group(option) == group], ctx, formatter)


class SearchCommand(GroupedCommand):
    """A command whose help shows the options that are needed first; ``--help-all`` shows all of them by group."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        """Return the parameters with ``--help-all`` before ``--help``."""
        *parameters, help_option = super().get_params(ctx)
        every: Any = copy(help_option)
        every.name, every.opts, every.callback = "help_all", ["--help-all"], _show_all
        every.help = "Show all options, by group, and exit."
        return [*parameters, every, help_option]

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the first options in the order of the table, or every group if ``--help-all`` is given."""
        if ctx.meta.get(_ALL):
            super().format_options(ctx, formatter)
            return
        shown = [name for name, option in SEARCH.items() if option.first] + ["help_all", "help"]
        _write("Options", [each for each in self.get_params(ctx) if each.name in shown], ctx, formatter)


_ALL = "advisor.help_all"


def _show_all(ctx: Context, _: Parameter, given: bool) -> None:
    if given and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        typer.echo(ctx.get_help())
        ctx.exit()


def _write(title: str, options: list[Parameter], ctx: Context, formatter: HelpFormatter) -> None:
    rows = [record for option in options if (record := option.get_help_record(ctx))]
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)


def _group(option: Parameter) -> str:
    named = option.rich_help_panel if isinstance(option, TyperOption | TyperArgument) else None
    return named or OUTPUT

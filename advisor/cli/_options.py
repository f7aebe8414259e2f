"""What commands share: groups with ``--quiet``, options with their completion, values as a user writes them.

A command may have its options as one value of a dataclass. To add a command of an integration, register an
:class:`IntegrationCommand` in the group :data:`INTEGRATIONS`.
"""

from __future__ import annotations

import inspect
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer._click.exceptions import NoSuchOption, UsageError as WrongUse
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandFunctionType

from advisor.cli._output import BEGAN, QUIET
from advisor.core import (
    GROUPS,
    OUTPUT,
    SEARCH,
    Option,
    Table,
    UsageError,
    list_registered,
    load_integration,
    show_flag,
    units,
)

if TYPE_CHECKING:
    from typer import _click
    from typer._click.core import Context, Parameter
    from typer._click.formatting import HelpFormatter

Command = Callable[..., Any]

INTEGRATIONS = "advisor.commands"
"""Entry points of further commands, each an :class:`IntegrationCommand`."""

OWNERS_SHOWN = 3
"""Commands that an error names because they have the option that another one lacks."""

EXTRA_ARGUMENT = "Got unexpected extra argument"
"""The beginning of Click's error of arguments that no parameter takes: often the unit of ``5 minutes``."""

PATHS = ("PATH", "DIR")
"""The word for a file or folder in the help of an option."""

_ALL = "advisor.help_all"


def option(metavar: str, text: str, *names: str, **more: Any) -> Any:
    """Declare an option: what stands for its value (nothing for a flag), its help, its names if they are others."""
    return typer.Option(*names, metavar=metavar or None, help=text, **more)


def of_output(metavar: str, text: str, *names: str) -> Any:
    """Declare an option of the group of the output."""
    return option(metavar, text, *names, rich_help_panel=OUTPUT)


def argument(metavar: str, text: str, complete: Callable[[str], list[str]] | None = None) -> Any:
    """Declare an argument: what stands for it, its help, its completion."""
    return typer.Argument(metavar=metavar, help=text, autocompletion=complete)


def completion_of(name: str) -> Callable[[str], list[str]]:
    """Return the completion of an option of a search; of several names joined by commas, the last is completed."""

    def complete(incomplete: str) -> list[str]:
        from advisor.api import choices

        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in _matching(choices(name), last)]

    return complete


def complete_runs(incomplete: str) -> list[str]:
    """Return the run folders below the folder that is named, ``runs`` by default."""
    folder = Path(incomplete.rpartition("/")[0] or "runs")
    # An error here would be printed into the line that the user types.
    with suppress(OSError):
        return _matching((str(path.parent) for path in sorted(folder.glob("*/request.yaml"))), incomplete)
    return []


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    """Return the names that begin so, in small or capital letters; ``Pixel 8`` begins as ``pixel-8`` does."""
    begun = incomplete.casefold()
    return [name for name in names if name.casefold().startswith((begun, begun.replace(" ", "-")))]


Quiet = Annotated[bool, of_output("", "Show the answer and errors, but no progress.", "--quiet", "-q")]
RunArgument = Annotated[str, argument("RUN", "A run folder, such as runs/latest.", complete_runs)]
AsJson = Annotated[bool, of_output("", "Print JSON.", "--json")]
Brief = Annotated[bool, of_output("", "Print only the first lines of the answer.", "--brief")]
Sort = Annotated[
    str,
    of_output("COLUMNS", "Sort the table by these columns, joined by commas; one after '-' descends: --sort=-size."),
]
Filter = Annotated[
    list[str] | None,
    of_output(
        "CONDITION",
        "Show only rows such as 'size<5MB' or 'card=mobilenet*,lenet'; repeat for more. Signs: = != < <= > >=.",
        "--filter",
    ),
]
LogTo = Annotated[
    str | None,
    of_output(
        "PLACE", "Also log the answer to mlflow:ADDRESS, with the question, the figures, the front and the bundle."
    ),
]
Format = Annotated[str, option("FORMAT", "Format of the output: text, markdown or json.", "--format")]
Catalogs = Annotated[
    list[str] | None, option("FILE", "Catalogue file of your own (YAML); repeat for more.", "--catalog")
]
ProfileFolders = Annotated[
    list[str] | None, option("DIR", "Folder of your own device profiles; repeat for more.", "--profiles")
]
Mirror = Annotated[str | None, option("PLACE", "Folder or address of weights that is asked first.")]
Offline = Annotated[bool, option("", "Open no connection.", "--offline")]
Shape = Annotated[str | None, option("SHAPE", "Shape of the first input, if the file leaves it open: 1,224,224,3.")]
Xnnpack = Annotated[bool, option("", "Use XNNPACK where it applies.", "--xnnpack/--no-xnnpack")]
Mean = Annotated[str | None, option("NUMBERS", "Value subtracted from RGB 0 to 255, if no file states it: 127.5.")]
Std = Annotated[str | None, option("NUMBERS", "Value that the difference is divided by: 127.5.")]


def split(values: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the parts of an option that may be repeated, or joined by commas; None if the option is not given."""
    words = [part.strip() for part in ",".join(values or ()).split(",")]
    return tuple(filter(None, words)) or None


def shape_of(text: str | None) -> tuple[int, ...] | None:
    """Parse a shape: ``1,224,224,3`` or ``1x224x224x3``. Raises UsageError: something else."""
    if text is None:
        return None
    sides = tuple(units.whole_number(part) or 0 for part in text.replace("x", ",").split(","))
    if not all(sides):
        raise UsageError(f"--shape: '{text}' is not a shape", "write for example --shape 1,224,224,3")
    return sides


def numbers(text: str | None, option: str) -> tuple[int, ...] | None:
    """Parse whole numbers from 0 on, joined by commas. Raises UsageError: something else."""
    if text is None:
        return None
    parsed = list(map(units.whole_number, text.split(",")))
    if None in parsed:
        raise UsageError(f"{option}: '{text}' is not a list of whole numbers", f"write for example {option} 0,1")
    return tuple(number for number in parsed if number is not None)


def channels(text: str | None, option: str) -> tuple[float, ...] | None:
    """Parse one number, or three joined by commas; see :func:`advisor.core.channel_values`."""
    return None if text is None else units.channel_values(text, option)


def annotations_of(table: Table, defaults: bool = True) -> Mapping[str, Any]:
    """Return the annotation of a parameter for each option; the help states defaults of a search if ``defaults``."""
    return {name: _annotation(name, row, defaults) for name, row in table.items()}


def _annotation(name: str, declared: Option, defaults: bool) -> Any:
    kind: Any = list[str] if isinstance(declared.default, tuple) else type(declared.default)
    names = [show_flag(name)] if declared.default is False else []  # a flag has no negative form
    autocompletion = complete_runs if name == "resume" else completion_of(name)
    return Annotated[
        kind | None,
        option(
            declared.metavar,
            declared.help if defaults else declared.text,
            *names,
            rich_help_panel=declared.group,
            callback=split if declared.joined else None,
            autocompletion=autocompletion,
        ),
    ]


def takes(options: Mapping[str, Any]) -> Callable[[Command], Command]:
    """Declare options, by their annotations, before a command's own; it receives them as keywords, None by default."""

    def declare(command: Command) -> Command:
        parameters = []
        for name, annotation in options.items():
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(name, kind, default=None, annotation=annotation))
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            # The command receives the shared options in ``**given``, which Typer could not read.
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                parameters.append(parameter)
        # Arguments come before options.
        parameters.sort(key=lambda parameter: parameter.kind)
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return declare


class GroupedCommand(TyperCommand):
    """A command whose plain help shows each ``rich_help_panel`` under its own heading, in the order of ``GROUPS``."""

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the options of each group; an option without a group belongs to the output."""
        by_group: dict[str, list[Parameter]] = {group: [] for group in GROUPS}
        for parameter in self.get_params(ctx):
            group = getattr(parameter, "rich_help_panel", "") or OUTPUT
            if group in by_group:
                by_group[group].append(parameter)
        for group, parameters in by_group.items():
            _write_group(group, parameters, ctx, formatter)


class SearchCommand(GroupedCommand):
    """A command whose help shows the options that are needed first; ``--help-all`` shows all of them by group."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        """Return the parameters with ``--help-all`` before ``--help``."""
        *parameters, help_option = super().get_params(ctx)
        every: Any = copy(help_option)
        every.name = "help_all"
        every.opts = ["--help-all"]
        every.callback = _show_all
        every.help = "Show all options, by group, and exit."
        return [*parameters, every, help_option]

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the first options in the order of the table, or every group if ``--help-all`` is given."""
        if ctx.meta.get(_ALL):
            super().format_options(ctx, formatter)
            return
        names = {name for name, row in SEARCH.items() if row.first} | {"demo", "help_all", "help"}
        parameters = []
        for parameter in self.get_params(ctx):
            if parameter.name in names:
                parameters.append(parameter)
        _write_group("Options", parameters, ctx, formatter)


def _show_all(ctx: Context, _: Parameter, given: bool) -> None:
    # While a shell completes a line, what is printed here would count as completions.
    if given and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        typer.echo(ctx.get_help())
        ctx.exit()


def _write_group(title: str, options: list[Parameter], ctx: Context, formatter: HelpFormatter) -> None:
    # A hidden option has no record.
    rows = list(filter(None, [parameter.get_help_record(ctx) for parameter in options]))
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)


class Commands(typer.Typer):
    """A group of commands, each with ``--quiet``."""

    @classmethod
    def group(cls, name: str, text: str, short: str) -> Commands:
        """Return a group below ``advisor`` with its help."""
        return cls(name=name, help=text, short_help=short, no_args_is_help=True, rich_markup_mode=None)

    def command(self, *names: Any, **settings: Any) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Register a command, as Typer does."""
        register = super().command(*names, **settings)

        def declare(command: CommandFunctionType) -> CommandFunctionType:
            register(_quietable(command))
            return command

        return declare


@dataclass(frozen=True)
class IntegrationCommand:
    """A command that an integration adds."""

    run: Command  #: the function; Typer makes the options from its parameters. Its module must be light.
    short_help: str  #: what the command does, for the list of commands


class AllCommands(TyperGroup):
    """The commands of this package, then those of integrations, which are looked up only when they are needed."""

    @property
    def commands(self) -> MutableMapping[str, _click.Command]:
        """Every command by its name."""
        for name in list_registered(INTEGRATIONS):
            if name not in self._found:
                # Typer makes a command of a function only in an app, so each has an app for itself.
                app = Commands(add_completion=False, rich_markup_mode=None)
                added = load_integration(INTEGRATIONS, name)
                app.command(name, short_help=added.short_help)(added.run)
                self._found[name] = typer.main.get_command(app)
        return self._found

    @commands.setter
    def commands(self, named_commands: MutableMapping[str, _click.Command]) -> None:
        self._found = named_commands

    def parse_args(self, ctx: _click.Context, args: list[str]) -> list[str]:
        """Parse what stands before the command, with errors that help."""
        with self._explaining_errors():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: _click.Context) -> Any:
        """Run the command, with errors that help."""
        with self._explaining_errors():
            return super().invoke(ctx)

    @contextmanager
    def _explaining_errors(self) -> Iterator[None]:
        """Add to an error of the block what helps: the owners of an unknown option, quotes for a value with a space."""
        try:
            yield
        except NoSuchOption as error:
            owners = self._name_owners(error)
            if owners:
                verb = "have" if len(owners) > 1 else "has"
                error.message = f"{error.message} ({', '.join(owners[:OWNERS_SHOWN])} {verb} it)"
            raise
        except WrongUse as error:
            if error.message.startswith(EXTRA_ARGUMENT):
                error.message += f": {_place_extra(error)}"
            raise

    def _name_owners(self, error: NoSuchOption) -> list[str]:
        """Return the commands that have an unknown option; first those of the same arguments, such as a run."""
        wanted = _arguments_of(error.ctx.command) if error.ctx else set()
        owners = []
        for name, command in self._found.items():
            if any(error.option_name in parameter.opts for parameter in command.params):
                owners.append(name)
        owners.sort(key=lambda name: not wanted & _arguments_of(self._found[name]))
        return [f"advisor {name}" for name in owners]

    def get_command(self, ctx: _click.Context, cmd_name: str) -> _click.Command | None:
        """Return the command with a name."""
        # A command of this package starts faster without a look-up of the integrations.
        return self._found.get(cmd_name) or super().get_command(ctx, cmd_name)


def _arguments_of(command: _click.Command) -> set[str | None]:
    """Return what stands for the arguments of a command in its help, such as ``RUN``."""
    names = set()
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            names.add(parameter.metavar)
    return names


def _place_extra(error: WrongUse) -> str:
    """Return what to do with an argument that no parameter takes: name a path by its option, or quote a space."""
    extra = error.message.rpartition("(")[2].rstrip(")")
    parameters = error.ctx.command.params if error.ctx else []
    if Path(extra).exists():
        for parameter in parameters:
            if parameter.metavar in PATHS:
                flag = parameter.opts[0]
                return f"name it by an option, such as {flag} {shlex.quote(extra)}"
    return 'write a value that has a space in quotes, such as "5 minutes"'


def _quietable(command: Command) -> Command:
    """Return a command with ``--quiet`` in addition; the command itself does not receive it."""
    # In modules with postponed annotations, these are texts; Typer needs the types.
    declared = inspect.signature(command, eval_str=True)
    kinds: dict[str, type] = {name: parameter.annotation for name, parameter in declared.parameters.items()}
    groups = {name: kind for name, kind in kinds.items() if is_dataclass(kind)}

    @wraps(command)
    def run(*, quiet: bool, **values: Any) -> Any:
        tokens = QUIET.set(quiet), BEGAN.set(time.monotonic())
        try:
            for name, kind in groups.items():
                values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            return command(**values)
        finally:
            QUIET.reset(tokens[0])
            BEGAN.reset(tokens[1])

    quiet_parameter = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet)
    # Typer reads the options from the signature, and would take that of the wrapped command.
    run.__signature__ = declared.replace(parameters=[*_flat(declared), quiet_parameter])  # type: ignore[attr-defined]
    return run


def _flat(declared: inspect.Signature) -> Iterator[inspect.Parameter]:
    """Yield the parameters, with the fields of a dataclass in its place."""
    for parameter in declared.parameters.values():
        if not is_dataclass(parameter.annotation):
            yield parameter
            continue
        hints = get_type_hints(parameter.annotation, include_extras=True)
        for field in fields(parameter.annotation):
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            yield inspect.Parameter(field.name, parameter.kind, default=default, annotation=hints[field.name])

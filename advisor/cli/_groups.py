"""Groups of commands: each has ``--quiet``, help by groups of options.

A command may have its options as one value of a dataclass, which Typer does not know
(:func:`_add_quiet` spreads it). To add a command of an integration, register an
:class:`IntegrationCommand` in the group :data:`INTEGRATIONS`; its name is a contract with other
packages.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, get_type_hints

import typer
from typer._click.exceptions import NoArgsIsHelpError, UsageError as WrongUse
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandFunctionType

from advisor.cli._options import Command, Quiet
from advisor.cli._output import BEGAN, QUIET
from advisor.cli._wrong_words import explain_error
from advisor.core import SEARCH, OptionGroup, list_registered, load_integration

if TYPE_CHECKING:
    from typer import _click
    from typer._click.core import Context, Parameter
    from typer._click.formatting import HelpFormatter

INTEGRATIONS = "advisor.commands"
"""Entry points of further commands, each an :class:`IntegrationCommand`."""

_ALL = "advisor.help_all"


class GroupedCommand(TyperCommand):
    """A command whose plain help shows each ``rich_help_panel`` under its own heading,
    in the order of :class:`.OptionGroup`.
    """

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the options of each group; an option without a group belongs to the output."""
        by_group: dict[str, list[Parameter]] = {group: [] for group in OptionGroup}
        for parameter in self.get_params(ctx):
            group = getattr(parameter, "rich_help_panel", "") or OptionGroup.OUTPUT
            if group in by_group:
                by_group[group].append(parameter)
        for group, parameters in by_group.items():
            _write_group(group, parameters, ctx, formatter)


class SearchCommand(GroupedCommand):
    """A command whose help shows the options that are needed first;
    ``--help-all`` shows all of them by group.
    """

    def get_params(self, ctx: Context) -> list[Parameter]:
        """Return the parameters with ``--help-all`` before ``--help``."""
        *parameters, help_option = super().get_params(ctx)
        help_all: Any = copy(help_option)
        help_all.name = "help_all"
        help_all.opts = ["--help-all"]
        help_all.callback = _show_all
        help_all.help = "Show all options, by group, and exit."
        return [*parameters, help_all, help_option]

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the first options in the order of the table,
        or every group if ``--help-all`` is given.
        """
        if ctx.meta.get(_ALL):
            super().format_options(ctx, formatter)
            return
        names = {name for name, row in SEARCH.items() if row.first} | {"demo", "help_all", "help"}
        parameters = []
        for parameter in self.get_params(ctx):
            if parameter.name in names:
                parameters.append(parameter)
        _write_group("Options", parameters, ctx, formatter)


def _show_all(ctx: Context, _: Parameter, is_asked: bool) -> None:
    # While a shell completes a line, what is printed here would count as completions.
    if is_asked and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        typer.echo(ctx.get_help())
        ctx.exit()


def _write_group(
    title: str, options: list[Parameter], ctx: Context, formatter: HelpFormatter
) -> None:
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
        return cls(
            name=name, help=text, short_help=short, no_args_is_help=True, rich_markup_mode=None
        )

    def command(
        self, *names: Any, **settings: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Register a command, as Typer does."""
        register = super().command(*names, **settings)

        def declare(command: CommandFunctionType) -> CommandFunctionType:
            register(_add_quiet(command))
            return command

        return declare


@dataclass(frozen=True)
class IntegrationCommand:
    """A command that an integration adds."""

    #: the function; Typer makes the options from its parameters. Its module must be light
    run: Command
    short_help: str  #: what the command does, for the list of commands


class AllCommands(TyperGroup):
    """The commands of this package, then those of integrations,
    which are looked up only when they are needed.
    """

    @property
    def commands(self) -> MutableMapping[str, _click.Command]:
        """Every command by its name."""
        for name in list_registered(INTEGRATIONS):
            if name not in self._found:
                # Typer makes a command of a function only in an app,
                # so each has an app for itself.
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
        """Raise an error of the parser in the words of this package, with its hint."""
        try:
            yield
        # It is the help, which the user asks for with a command that has no other meaning.
        except NoArgsIsHelpError:
            raise
        except WrongUse as error:
            raise explain_error(error, self._found) from error

    def get_command(self, ctx: _click.Context, cmd_name: str) -> _click.Command | None:
        """Return the command with a name."""
        # A command of this package starts faster without a look-up of the integrations.
        return self._found.get(cmd_name) or super().get_command(ctx, cmd_name)


def _add_quiet(command: Command) -> Command:
    """Return a command with ``--quiet`` in addition; the command itself does not receive it."""
    # In modules with postponed annotations, these are texts; Typer needs the types.
    declared = inspect.signature(command, eval_str=True)
    groups = dict[str, Any]()
    for name, parameter in declared.parameters.items():
        if is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation

    @wraps(command)
    def run(*, quiet: bool, **values: Any) -> Any:
        was_quiet = QUIET.set(quiet)
        began_before = BEGAN.set(time.monotonic())
        try:
            for name, group in groups.items():
                values[name] = group(
                    **{field.name: values.pop(field.name) for field in fields(group)}
                )
            return command(**values)
        finally:
            QUIET.reset(was_quiet)
            BEGAN.reset(began_before)

    quiet_parameter = inspect.Parameter(
        "quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet
    )
    # Typer reads the options from the signature, and would take that of the wrapped command.
    run.__signature__ = declared.replace(parameters=[*_spread_groups(declared), quiet_parameter])  # type: ignore[attr-defined]
    return run


def _spread_groups(declared: inspect.Signature) -> Iterator[inspect.Parameter]:
    """Yield the parameters, with the fields of a dataclass in its place."""
    for parameter in declared.parameters.values():
        if not is_dataclass(parameter.annotation):
            yield parameter
            continue
        hints = get_type_hints(parameter.annotation, include_extras=True)
        for field in fields(parameter.annotation):
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            yield inspect.Parameter(
                field.name, parameter.kind, default=default, annotation=hints[field.name]
            )

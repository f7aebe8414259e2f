"""Options of ``advisor search`` and of commands with some of the same options, from the table of the options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

from advisor.cli import completion
from advisor.cli.options import split
from advisor.core.options import GROUPS, OUTPUT, SEARCH, Option, Table

if TYPE_CHECKING:  # Typer 0.29 brings its own copy of Click; older ones import it.
    from typer._click.core import Context, Parameter
    from typer._click.formatting import HelpFormatter

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
        autocompletion=completion.runs if name == "resume" else completion.of(name),
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

"""Groups of commands that all take ``--quiet``. A command may have its options as one value of a dataclass.

To add a command of an integration, register an :class:`IntegrationCommand` in the group :data:`INTEGRATIONS`.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup
from typer.models import CommandFunctionType

from advisor.cli.output import BEGAN, QUIET
from advisor.core.names import integration, registered

if TYPE_CHECKING:
    from typer import _click

Command = Callable[..., Any]

INTEGRATIONS = "advisor.commands"
"""Entry points of further commands, each an :class:`IntegrationCommand`."""

Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Show the answer and errors, but no progress.", rich_help_panel="Output"),
]


class Commands(typer.Typer):
    """A group of commands, each with ``--quiet``."""

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
        for name in registered(INTEGRATIONS):
            if name not in self._found:
                self._found[name] = _made(name, integration(INTEGRATIONS, name))
        return self._found

    @commands.setter
    def commands(self, own: MutableMapping[str, _click.Command]) -> None:
        self._found = own

    def get_command(self, ctx: _click.Context, cmd_name: str) -> _click.Command | None:
        """Return the command with a name."""
        return self._found.get(cmd_name) or super().get_command(ctx, cmd_name)


def _made(name: str, command: IntegrationCommand) -> _click.Command:
    alone = Commands(add_completion=False, rich_markup_mode=None)
    alone.command(name, short_help=command.short_help)(command.run)
    return typer.main.get_command(alone)


def _quietable(command: Command) -> Command:
    """Return a command with ``--quiet`` in addition; the command itself does not receive it."""
    declared = inspect.signature(command, eval_str=True)
    kinds: dict[str, type] = {name: each.annotation for name, each in declared.parameters.items()}
    groups = {name: kind for name, kind in kinds.items() if is_dataclass(kind)}

    @wraps(command)
    def run(*, quiet: bool, **values: Any) -> Any:
        tokens = QUIET.set(quiet), BEGAN.set(time.monotonic())
        try:
            for name, kind in groups.items():
                values[name] = kind(**{each.name: values.pop(each.name) for each in fields(kind)})
            return command(**values)
        finally:
            QUIET.reset(tokens[0])
            BEGAN.reset(tokens[1])

    own = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet)
    run.__signature__ = declared.replace(parameters=[*_flat(declared), own])  # type: ignore[attr-defined]
    return run


def _flat(declared: inspect.Signature) -> Iterator[inspect.Parameter]:
    """Yield the parameters, with the fields of a dataclass in its place."""
    for parameter in declared.parameters.values():
        if not is_dataclass(parameter.annotation):
            yield parameter
            continue
        hints = get_type_hints(parameter.annotation, include_extras=True)
        for each in fields(parameter.annotation):
            default = inspect.Parameter.empty if each.default is MISSING else each.default
            yield inspect.Parameter(each.name, parameter.kind, default=default, annotation=hints[each.name])

"""Groups of commands that all take ``--quiet``."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer
from typer.models import CommandFunctionType

from advisor.cli.progress import BEGAN, QUIET

Command = Callable[..., Any]

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


def _quietable(command: Command) -> Command:
    """Return a command with ``--quiet`` in addition; the command itself does not receive it."""

    @wraps(command)
    def run(*, quiet: bool, **values: Any) -> Any:
        tokens = QUIET.set(quiet), BEGAN.set(time.monotonic())
        try:
            return command(**values)
        finally:
            QUIET.reset(tokens[0])
            BEGAN.reset(tokens[1])

    declared = inspect.signature(command, eval_str=True)
    own = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet)
    run.__signature__ = declared.replace(parameters=[*declared.parameters.values(), own])  # type: ignore[attr-defined]
    return run

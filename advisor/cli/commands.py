"""Groups of commands that all take ``--quiet``. A command may have its options as one value of a dataclass."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_type_hints

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

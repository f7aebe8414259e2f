"""Errors of the parser of the command line, in the words of this package.

The parser (Click, inside Typer) says what it could not read, without a hint. :func:`explain_error`
makes a ``UsageError`` of it, which names the option or command, the value, the nearest valid
name, and what to type.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer._click.exceptions import (
    BadOptionUsage,
    BadParameter,
    MissingParameter,
    NoSuchOption,
    UsageError as WrongUse,
)

from advisor.core import UsageError, listed, nearest

if TYPE_CHECKING:
    from typer import _click
    from typer._click.core import Parameter

OWNERS_SHOWN = 3
"""Most commands that an error names because they have an option which another one lacks."""

EXTRA_ARGUMENT = "Got unexpected extra argument"
"""The beginning of Click's error of arguments that no parameter takes:
often the unit of ``5 minutes``.
"""

NO_COMMAND = "No such command"
"""The beginning of Click's error of an unknown command."""

PATHS = ("PATH", "DIR")
"""The word for a file or folder in the help of an option."""

EXAMPLE = "Example: "
"""The beginning of the last line of a command's help: a line to type."""

_KINDS = {"int_parsing": "a whole number", "float_parsing": "a number"}
"""The kind of value that Pydantic expected, by the type of its error."""


def explain_error(error: WrongUse, commands: Mapping[str, _click.Command]) -> UsageError:
    """Return an error of the parser with its hint.

    Args:
        error: what the parser raised.
        commands: the commands whose options may be meant, by their names.
    """
    if isinstance(error, NoSuchOption):
        return _explain_option(error, commands)
    if isinstance(error, BadOptionUsage):
        return _explain_usage(error, commands)
    if isinstance(error, MissingParameter):
        name = error.param.get_error_hint() if error.param else error.message
        return UsageError(f"{_unquote(name)} is missing", _give_example(error))
    if isinstance(error, BadParameter):
        return _explain_value(error)
    if error.message.startswith(EXTRA_ARGUMENT):
        return _explain_extra(error)
    if error.message.startswith(NO_COMMAND):
        return _explain_command(error)
    return UsageError(error.format_message().rstrip("."), _name_help(error))


def _explain_option(error: NoSuchOption, commands: Mapping[str, _click.Command]) -> UsageError:
    """Return the error of an unknown option: the nearest one, or the commands that have it."""
    option = error.option_name
    owners = _name_owners(error, commands)
    known = []
    for parameter in _list_parameters(error):
        known += [*parameter.opts, *parameter.secondary_opts]
    close = "" if owners else nearest(option, known)
    message = f"'{_name_command(error)}' has no option '{option}'{close}"
    if not owners:
        return UsageError(message, _name_help(error))
    verb = "have" if len(owners) > 1 else "has"
    shown = listed(owners, OWNERS_SHOWN)
    return UsageError(message, f"leave it out; {shown} {verb} it. {_name_help(error)}")


def _name_owners(error: NoSuchOption, commands: Mapping[str, _click.Command]) -> list[str]:
    """Return the commands that have an unknown option;
    first those of the same arguments, such as a run.
    """
    wanted = _name_arguments(_list_parameters(error))
    owners = []
    for name, command in commands.items():
        if any(error.option_name in parameter.opts for parameter in command.params):
            owners.append(name)
    owners.sort(key=lambda name: not wanted & _name_arguments(commands[name].params))
    return list(map("advisor {}".format, owners))


def _name_arguments(parameters: Iterable[Parameter]) -> set[str | None]:
    """Return what stands for the arguments of a command in its help, such as ``RUN``."""
    names = set()
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            names.add(parameter.metavar)
    return names


def _explain_usage(error: BadOptionUsage, commands: Mapping[str, _click.Command]) -> UsageError:
    """Return the error of an option without its value, or of a switch with one."""
    option = error.option_name
    # The parser does not say which command has the option.
    parameter = _find_option(option, commands.values())
    if parameter is not None and getattr(parameter, "is_flag", False):
        message = f"{option}: a value is given, and it takes none"
        return UsageError(message, f"write {option} alone")
    hint = f"write a value behind {option}"
    if parameter is not None:
        meaning = getattr(parameter, "help", None) or ""
        hint = f"write {option} {parameter.metavar or 'VALUE'}: {meaning}".rstrip(": .")
    return UsageError(f"{option}: its value is missing", hint)


def _find_option(option: str, commands: Iterable[_click.Command]) -> Parameter | None:
    """Return an option of the commands, or of the commands in groups among them, by its name."""
    for command in commands:
        for parameter in command.params:
            if option in parameter.opts:
                return parameter
        within = getattr(command, "commands", {})
        parameter_within = _find_option(option, within.values())
        if parameter_within is not None:
            return parameter_within
    return None


def _explain_value(error: BadParameter) -> UsageError:
    """Return the error of a value of the wrong kind, which Pydantic found."""
    name = _unquote(error.param.get_error_hint()) if error.param else "the value"
    problems: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    if not problems:
        return UsageError(f"{name}: {error.message.rstrip('.')}", _name_help(error))
    problem = problems[0]
    kind = _KINDS.get(problem["type"])
    what = f"'{problem['input']}' is not {kind}" if kind else problem["msg"]
    hint = f"write for example {name} 1" if kind else _name_help(error)
    return UsageError(f"{name}: {what}", hint)


def _explain_extra(error: WrongUse) -> UsageError:
    """Return the error of an argument that no parameter takes:
    name a path by its option, or quote a space.
    """
    extra = error.message.rpartition("(")[2].rstrip(")")
    message = f"'{_name_command(error)}' has no place for '{extra}'"
    if Path(extra).exists():
        for parameter in _list_parameters(error):
            if parameter.metavar in PATHS:
                named = f"{parameter.opts[0]} {shlex.quote(extra)}"
                return UsageError(message, f"name it by an option, such as {named}")
    return UsageError(message, 'write a value that has a space in quotes, such as "5 minutes"')


def _explain_command(error: WrongUse) -> UsageError:
    """Return the error of an unknown command, with the nearest one."""
    name = error.message.split("'")[1]
    known = getattr(error.ctx.command, "commands", {}) if error.ctx else {}
    group = _name_command(error)
    return UsageError(
        f"'{group}' has no command '{name}'{nearest(name, known)}",
        f"{group} --help lists the commands",
    )


def _list_parameters(error: WrongUse) -> list[Parameter]:
    """Return the options and arguments of the command that refused."""
    return list(error.ctx.command.params) if error.ctx else []


def _name_command(error: WrongUse) -> str:
    """Return the command as a user types it: ``advisor devices show``."""
    path = error.ctx.command_path if error.ctx else ""
    words = []
    # The path begins with the name of the program, and shows arguments in braces.
    for word in path.removeprefix("python -m ").split()[1:]:
        if not word.startswith(("{", "[")):
            words.append(word)
    return " ".join(["advisor", *words])


def _name_help(error: WrongUse) -> str:
    """Return where the options of the command are listed: some commands show only the first
    ones without ``--help-all``.
    """
    offered = error.ctx.command.get_params(error.ctx) if error.ctx else []
    flag = "--help"
    for parameter in offered:
        if parameter.name == "help_all":
            flag = "--help-all"
    return f"{_name_command(error)} {flag} lists the options"


def _give_example(error: WrongUse) -> str:
    """Return the example of the command's help; where it has none, where its options are."""
    help_text = (error.ctx.command.help if error.ctx else None) or ""
    for line in help_text.splitlines():
        if line.startswith(EXAMPLE):
            return f"write for example: {line.removeprefix(EXAMPLE)}"
    return _name_help(error)


def _unquote(name: str) -> str:
    """Return the name of a parameter without the parser's quotes."""
    return name.replace("'", "")

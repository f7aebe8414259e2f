"""The public functions as Python calls them:
their errors name arguments in place of options, and say their hint.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial, wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_COMMAND = re.compile(r"(\badvisor [a-z]+[^;,:]*)")
"""A command line in a text: it is typed as it stands."""

_OPTION = re.compile(
    r"(?<![\w-])--([a-z][a-z0-9-]*)(?:"
    r" ((?=\S*(?:[\d/]|\.\w)|[A-Z]+\b|(?:none|all)\b)(?:[^\s,;:?)]|,(?=\S))+))?(?=(:?))"
)
"""An option, with its value if that has a digit, a slash or an extension, or is ``none``, ``all``
or a word in capital letters; and whether a colon follows.
"""

_LINE = re.compile(r"(?<=write )(for example )?([a-z_]+): (\S.*)")
"""A line of a request file, as an example."""

_LISTS = ("Sequence[", "Files", "Folders")
"""Beginnings of the annotations of arguments that are lists."""

_ARGUMENTS = {
    "all": "everything",
    "cache_size": "size",
    "log_to": "place",
    "max_drop": "max_drop_points",
    "recipe": "recipes",
    "runs": "folder",
}
"""Arguments of functions that have another name than the option of the command."""


def speak_python(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function whose errors are texts for Python:
    ``budget`` in place of ``--budget``, with the hint.

    It takes one text or path where it takes several.
    """
    parameters = inspect.signature(function).parameters
    places = [
        name
        for name, parameter in parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]

    def listed(name: str, value: object) -> object:
        if not isinstance(value, str | Path) or name not in parameters:
            return value
        annotation = parameters[name].annotation
        # Arguments that are declared with their option have a type, the others the text of one.
        text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
        return (value,) if text.removeprefix("collections.abc.").startswith(_LISTS) else value

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        given = (*map(listed, places, args), *args[len(places) :])
        named = {name: listed(name, value) for name, value in kwargs.items()}
        try:
            return function(*given, **named)  # type: ignore[arg-type]
        except Exception as error:
            message, hint = getattr(error, "message", None), getattr(error, "hint", None)
            # An ``AdvisorError``; this module imports no room.
            if message is not None and hint is not None:
                lines = [in_python(message, parameters), f"hint: {in_python(hint, parameters)}"]
                error.args = ("\n".join(lines if hint else lines[:1]),)
            raise

    return called


def in_python(
    text: str, parameters: Mapping[str, inspect.Parameter] = inspect.Signature().parameters
) -> str:
    """Return a text with arguments in place of options: ``budget="50ms"`` for ``--budget 50ms``.

    ``parameters`` are those of the function that is called.
    """
    parts = _COMMAND.split(text)
    written = partial(_argument, parameters)
    texts = []
    for number, part in enumerate(parts):
        texts.append(part if number % 2 else _OPTION.sub(written, part))
    return _LINE.sub(lambda line: f"{line[1] or ''}{line[2]}={_literal(line[3])}", "".join(texts))


def _argument(parameters: Mapping[str, inspect.Parameter], option: re.Match[str]) -> str:
    name, value = option[1].replace("-", "_"), option[2]
    other = _ARGUMENTS.get(name, "")
    if name not in parameters and other in parameters:
        name = other
    if value:
        return f"{name}={_literal(value)}"
    is_switch = name in parameters and parameters[name].default is False
    if is_switch and not option[3]:
        return f"{name}=True"
    return name


def _literal(value: str) -> str:
    """Return a value as Python writes it: ``1``, ``"50ms"``, ``["int8", "rounded"]``, ``True``."""
    if value in ("true", "false"):
        return value.title()
    if value.replace(".", "", 1).isdecimal() or value == "...":
        return value
    items = value.strip("[]").replace(", ", ",").split(",")
    is_list = value.startswith("[") or (len(items) > 1 and "=" not in value)
    if is_list:
        return f"[{', '.join(map(_literal, items))}]"
    return f'"{value}"'

"""The public functions as Python calls them: their errors name arguments in place of options, and say their hint."""

import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from advisor.core import AdvisorError

P = ParamSpec("P")
R = TypeVar("R")

_COMMAND = re.compile(r"(\badvisor [a-z]+[^;,:]*)")
"""A command line in a text: it is typed as it stands."""

_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]*)(?: ((?=\S*[\d/]|[A-Z]+\b)[^\s,;:?)]+))?")
"""An option, with its value if that has a digit or a slash, or is a word in capital letters."""


def speak_python(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function whose errors are texts for Python: ``budget`` in place of ``--budget``, with the hint."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except AdvisorError as error:
            hint = f"\nhint: {in_python(error.hint)}" if error.hint else ""
            error.args = (f"{in_python(error.message)}{hint}",)
            raise

    return called


def in_python(text: str) -> str:
    """Return a text with arguments in place of options: ``budget="50ms"`` for ``--budget 50ms``."""
    parts = _COMMAND.split(text)
    return "".join(part if number % 2 else _OPTION.sub(_argument, part) for number, part in enumerate(parts))


def _argument(option: re.Match[str]) -> str:
    name, value = option[1].replace("-", "_"), option[2]
    return f'{name}="{value}"' if value else name

"""Options as keywords of public functions, with their types and texts, as editors and ``help``
show them.

A public function of ``api``, ``catalog`` or ``devices`` is decorated with :func:`takes_options`
and has its options from the table that its command uses, too.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any, TypeVar, get_type_hints

from advisor.core._option import Table, defaults_of, table_of

Function = TypeVar("Function", bound=Callable[..., Any])


def takes_options(
    kind: type, defaults: bool = True, stated: bool = False
) -> Callable[[Function], Function]:
    """Declare the options of a function's ``**options: Unpack[kind]``;
    the function refuses other keywords.

    ``inspect.signature`` and ``help`` show the options. None is an option that is not given.

    Args:
        kind: typed dictionary of the options.
        defaults: the documentation states the defaults of a search.
        stated: the signature has the stated defaults, and the function gets them for options that
            are not given.
    """

    def declare(function: Function) -> Function:
        stated_defaults = defaults_of(kind) if stated else {}
        signature = _add_options(inspect.signature(function), kind, stated_defaults)

        @wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            options = dict(stated_defaults)
            for name, value in keywords.items():
                if name not in signature.parameters:
                    raise TypeError(
                        f"{function.__name__}() got an unexpected keyword argument '{name}'"
                    )
                if value is not None:
                    options[name] = value
            return function(*arguments, **options)

        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__annotations__ = {
            name: parameter.annotation for name, parameter in signature.parameters.items()
        }
        entries = "\n".join(_list_entries(table_of(kind), defaults and not stated))
        with_places = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not inspect.Parameter.KEYWORD_ONLY
        ]
        call.__doc__ = _document_options(
            inspect.cleandoc(function.__doc__ or ""), entries, len(with_places)
        )
        return call  # type: ignore[return-value]

    return declare


def _add_options(
    plain: inspect.Signature, kind: type, stated_defaults: Mapping[str, Any]
) -> inspect.Signature:
    """Return a signature with the options in place of ``**options``: after the parameters that
    have a place, and before the function's other keywords.
    """
    keyword = inspect.Parameter.KEYWORD_ONLY
    places = []
    others = []
    for parameter in plain.parameters.values():
        if parameter.kind is keyword:
            others.append(parameter)
        elif parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            places.append(parameter)
    options = []
    for name, hint in get_type_hints(kind).items():
        options.append(
            inspect.Parameter(name, keyword, default=stated_defaults.get(name), annotation=hint)
        )
    return plain.replace(parameters=[*places, *options, *others])


def _document_options(text: str, entries: str, places: int) -> str:
    """Return a docstring with the options among its arguments, after those that have a place."""
    head, title, rest = text.partition("Args:\n")
    arguments, end, more = rest.partition("\n\n") if title else ("", "", "")
    if not title:
        head, title, more = text.partition("Raises:\n")
        return f"{head}Args:\n{entries}\n\n{title}{more}"
    parts = re.split(r"\n(?=    \w)", arguments)
    return f"{head}Args:\n" + "\n".join([*parts[:places], entries, *parts[places:]]) + end + more


def _list_entries(table: Table, defaults: bool) -> Iterator[str]:
    for name, option in table.items():
        text = option.help if defaults else option.text
        if isinstance(option.default, str) and option.default:
            text = text.replace(f"Default: {option.default}.", f"Default: ``{option.default}``.")
        text = re.sub(
            r"--([a-z]+(?:-[a-z]+)*)", lambda match: f"``{match[1].replace('-', '_')}``", text
        )
        yield f"    {name}: {text}"

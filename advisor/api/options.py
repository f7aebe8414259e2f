"""The options of a search for their users: keywords of functions, names that a shell completes, request files."""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from advisor.core.options import GROUPS, PLAN, SEARCH, Table, defaults_of, table_of

Function = TypeVar("Function", bound=Callable[..., Any])

WIDTH = 100
"""Columns of a comment."""

LISTED: Mapping[str, tuple[str, str]] = {
    "compressions": ("advisor.compression.recipes", "RECIPES"),
    "task": ("advisor.core.tasks", "TASKS"),
    "training": ("advisor.core.training", "choosable"),
}
"""Module, and value or function, that list the names of an option; the module is imported when it is needed."""


def takes_options(kind: type, defaults: bool = True, stated: bool = False) -> Callable[[Function], Function]:
    """Declare the options of a function's ``**options: Unpack[kind]``; the function refuses other keywords.

    ``inspect.signature`` and ``help`` show the options. None is an option that is not given.

    Args:
        kind: typed dictionary of the options.
        defaults: the documentation states the defaults of a search.
        stated: the signature has the stated defaults, and the function gets them for options that are not given.
    """

    def declare(function: Function) -> Function:
        plain = inspect.signature(function)
        own = [each for each in plain.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        by_keyword = inspect.Parameter.KEYWORD_ONLY
        known = defaults_of(kind) if stated else {}
        shared = [
            inspect.Parameter(name, by_keyword, default=known.get(name), annotation=hint)
            for name, hint in get_type_hints(kind).items()
        ]
        places = [each for each in own if each.kind is not by_keyword]
        signature = plain.replace(parameters=[*places, *shared, *(each for each in own if each.kind is by_keyword)])

        @wraps(function)
        def call(*arguments: Any, **given: Any) -> Any:
            for name in given:
                if name not in signature.parameters:
                    raise TypeError(f"{function.__name__}() got an unexpected keyword argument '{name}'")
            stated_or_given = {**known, **{name: value for name, value in given.items() if value is not None}}
            return function(*arguments, **stated_or_given)

        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}
        entries = "\n".join(_entries(table_of(kind), defaults and not stated))
        call.__doc__ = _documented(inspect.cleandoc(function.__doc__ or ""), entries, len(places))
        return call  # type: ignore[return-value]

    return declare


def _documented(text: str, entries: str, places: int) -> str:
    """Return a docstring with the options among its arguments, after those that have a place."""
    head, found, rest = text.partition("Args:\n")
    own, end, more = rest.partition("\n\n") if found else ("", "", "")
    if not found:
        head, found, more = text.partition("Raises:\n")
        return f"{head}Args:\n{entries}\n\n{found}{more}"
    parts = re.split(r"\n(?=    \w)", own)
    return f"{head}Args:\n" + "\n".join([*parts[:places], entries, *parts[places:]]) + end + more


def _entries(table: Table, defaults: bool) -> Iterator[str]:
    for name, option in table.items():
        text = option.help if defaults else option.text
        if isinstance(option.default, str) and option.default:
            text = text.replace(f"Default: {option.default}.", f"Default: ``{option.default}``.")
        text = re.sub(r"--([a-z]+(?:-[a-z]+)*)", lambda found: f"``{found[1].replace('-', '_')}``", text)
        yield f"    {name}: {text}"


def choices(option: str) -> tuple[str, ...]:
    """Return the names that an option takes; none for an option that takes something else."""
    if option in ("candidates", "card"):
        from advisor.catalog.catalogue import load_catalogue

        catalogue = load_catalogue([])
        return (*(catalogue.families if option == "candidates" else ()), *catalogue)
    if option in ("device", "must_run_on"):
        from advisor.devices.profiles.listing import known_devices

        return tuple(known_devices(()))
    if option not in LISTED:
        return SEARCH[option].choices if option in SEARCH else ()
    module, value = LISTED[option]
    listed = getattr(import_module(module), value)
    return tuple(each if isinstance(each, str) else each.name for each in (listed() if callable(listed) else listed))


def write_request(file: str | Path, options: Mapping[str, Any], *, force: bool = False) -> Path:
    """Write a request file: the options that are given, and all others as comments with their defaults.

    Args:
        file: the YAML file to write.
        options: value by name of the option; None is an option that was not given.
        force: replace a file that exists.

    Raises:
        UsageError: an option is not valid, the file exists, or its folder does not.
    """
    from advisor.core.errors import UsageError
    from advisor.engine.question import resolve
    from advisor.store.files import write_atomically

    path = Path(file)
    if path.exists() and not force:
        raise UsageError(f"'{path}' already exists", "give another name, or add --force to replace it")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"the folder '{path.parent}' does not exist", "create it, or give another folder")
    given = {name: value for name, value in options.items() if value is not None}
    resolve(given)
    write_atomically(path, "\n".join(_lines(path.name, given)) + "\n")
    return path


def _lines(name: str, given: Mapping[str, Any]) -> Iterator[str]:
    from advisor.store.files import shipped_folder

    # Editors read the schema that this comment names: they complete keys and mark mistakes.
    yield f"# yaml-language-server: $schema={shipped_folder('schemas') / 'request.schema.json'}"
    yield f"# Run it with: advisor search --request {name}. Options on the command line take precedence."
    yield "schema_version: 1"
    for group in GROUPS:
        yield f"\n# ---- {group} ----"
        for key, option in PLAN.items():
            if option.group == group and option.kept:
                yield ""
                yield from textwrap.wrap(option.help, WIDTH, initial_indent="# ", subsequent_indent="# ")
                line = _line(key, given.get(key, option.default))
                yield line if key in given else f"# {line}"


def _line(option: str, value: object) -> str:
    import yaml

    if value in ("", (), 0) and not isinstance(value, bool):
        return f"{option}:"
    if isinstance(value, list | tuple):
        listed = yaml.safe_dump(list(value), default_flow_style=True, allow_unicode=True, width=10_000)
        return f"{option}: {listed.strip()}"
    plain = value if isinstance(value, bool | int) else str(value)
    return yaml.safe_dump({option: plain}, allow_unicode=True, width=10_000).strip()

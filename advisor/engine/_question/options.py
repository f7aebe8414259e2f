"""Hold the options of one search as a user writes them, with their types checked.

They come from the command line, from Python or from a request file, and ``parsing.py`` makes the
question of them. Their names are the keys of request files and of the ``request.yaml`` in a run
folder. A key that changes its meaning needs a new :data:`SCHEMA_VERSION`, here, in
``store/_run_documents.py`` and in the file that ``advisor init`` writes (``api/_options.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from advisor.core import (
    PLAN,
    Table,
    UsageError,
    nearest,
    parse_count,
    require_known,
    show_flag,
    without_passwords,
)
from advisor.isolation import usable_cores
from advisor.store import YamlDocument

SCHEMA_VERSION = 1
"""Version of request files; raised when a key changes its meaning."""

REQUEST_OPTIONS = tuple(name for name, option in PLAN.items() if option.kept)
"""Names of the options of a request file."""

FREE_ON_RESUME = tuple(name for name in REQUEST_OPTIONS if PLAN[name].free)
"""Options that a resumed run may change: they do not change what is asked.
An address may get its password again.
"""

QUESTION_OPTIONS = tuple(name for name in REQUEST_OPTIONS if not PLAN[name].free)
"""Names of the options that make up the question."""


@dataclass(frozen=True)
class Options:
    """The options of one search as a user writes them, by name.
    An empty text or tuple means: not given.
    """

    values: Mapping[str, Any]
    table: Table

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def parse_option(self, name: str) -> Any:
        """Return the value of an option as a search uses it, None for a text that is not given.

        Raises:
            UsageError: the value is invalid.
        """
        value = self.values[name]
        option = self.table[name]
        # An empty text stands for an option that was not given: it has no value to parse.
        if value == "" and option.default == "":
            return None
        if option.parse is not None:
            return option.parse(value, show_flag(name))
        if option.choices and isinstance(value, str):
            return require_known(show_flag(name), value, option.choices)
        return value

    def fields_of(self, kind: type) -> dict[str, Any]:
        """Return the parsed values of the options that have the same name
        as a field of a dataclass.

        So an option acts because ``Question`` or ``Execution`` has a field of its name. Options
        whose value has another name, such as limits, or is made of several, are read one by one in
        ``parsing.py``.
        """
        values = {}
        for field in fields(kind):
            if field.name in self.values:
                values[field.name] = self.parse_option(field.name)
        return values

    def to_dict(self) -> dict[str, object]:
        """Return the keys and values of a request file; passwords are left out."""
        return {key: without_passwords(value) for key, value in self.values.items()}


def collect_options(written: Mapping[str, object], table: Table = PLAN) -> Options:
    """Return the options that a user wrote, and the defaults of the others;
    refuse unknown names and wrong types.
    """
    defaults = {name: option.default for name, option in table.items() if option.kept}
    for key in written:
        if key not in defaults:
            raise UsageError(
                f"unknown option '{key}'{nearest(key, defaults)}",
                f"options: {', '.join(defaults)}",
            )
    converted = {
        key: _convert_to_type(key, value, defaults[key]) for key, value in written.items()
    }
    return Options({**defaults, **converted}, table)


def read_request_file(file: Path) -> Mapping[str, object]:
    """Return the options of a request file; dashes in names become underscores."""
    try:
        values = YamlDocument.read(file).values
    except UsageError as error:
        raise UsageError(
            f"--request: {error.message}", "give the path of a YAML file; advisor init writes one"
        ) from None
    if not isinstance(values, dict):
        raise UsageError(f"--request: '{file}' holds no keys", "write for example: budget: 50ms")
    # People write request files by hand, and may leave the version out.
    version = values.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"--request: '{file}' has schema version {version}, this advisor reads version"
            f" {SCHEMA_VERSION}",
            "update advisor, or write the file anew with advisor init",
        )
    options = {}
    for key, value in values.items():
        if key != "schema_version":
            options[str(key).replace("-", "_")] = value
    return options


def _convert_to_type(key: str, value: Any, default: object) -> Any:
    """Return ``value`` with the type of the option's default."""
    if value is None:
        raise UsageError(
            f"{key}: no value",
            f"write for example {key}: {default or '...'}, or leave the line out",
        )
    if isinstance(default, tuple):
        return _convert_to_tuple(key, value)
    # Before whole numbers: True is an int in Python.
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise UsageError(f"{key}: '{value}' is neither true nor false", f"write {key}: true")
        return value
    if isinstance(default, int):
        # The default stands for no value, so it may lie outside the bounds of values.
        return default if value == default else parse_count(key, value, key)
    if isinstance(value, Mapping | list | tuple | bool):
        raise UsageError(
            f"{key}: '{value}' is not one value", f"write for example {key}: {default or '...'}"
        )
    return str(value)


def _convert_to_tuple(key: str, value: Any) -> tuple[str | int, ...]:
    """Return the values of an option that may be repeated; one value needs no list."""
    items = list(value) if isinstance(value, list | tuple) else [value]
    for item in items:
        # YAML reads some words as truth values, which would become the names 'True' and 'False'.
        if isinstance(item, bool) or not isinstance(item, str | int | float | Path):
            raise UsageError(
                f"{key}: '{item}' is not one value",
                f"write for example {key}: [first, second]",
            )
    if key == "threads":
        return tuple(map(_parse_thread_count, items))
    return tuple(map(str, items))


def _parse_thread_count(item: object) -> int:
    return usable_cores() if str(item) == "all" else parse_count("threads", item, "threads")

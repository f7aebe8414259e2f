"""The options of a search as a user writes them: collected from a file and from what is given, each of its type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from advisor.core.errors import UsageError, nearest
from advisor.core.names import require_known, without_password
from advisor.core.options import PLAN, Table, flag
from advisor.isolation.resources import usable_cores
from advisor.store.yamlfile import read_yaml

SCHEMA_VERSION = 1
"""Version of request files; raised when a key changes its meaning."""

MOST_THREADS = 64


@dataclass(frozen=True)
class Options:
    """The options of one search as a user writes them. An empty text or tuple means: not given.

    Attributes:
        values: value of each option of a request file by its name, of the type of its default.
        table: the options that there are.
    """

    values: Mapping[str, Any]
    table: Table

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def parsed(self, name: str) -> Any:
        """Return the value of an option as a search uses it; None for a text that is not given.

        Raises:
            UsageError: the value is not valid.
        """
        value, option = self.values[name], self.table[name]
        if value == "" and option.default == "":
            return None
        if option.parse is not None:
            return option.parse(value, flag(name))
        return require_known(flag(name), value, option.choices) if option.choices and isinstance(value, str) else value

    def fields_of(self, kind: type) -> dict[str, Any]:
        """Return the parsed values of the options that have the same name as a field of a dataclass."""
        return {field.name: self.parsed(field.name) for field in fields(kind) if field.name in self.values}

    def to_dict(self) -> dict[str, object]:
        """Return the keys and values of a request file; passwords are left out."""
        values = {**self.values, "storage": without_password(self["storage"])}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


REQUEST_OPTIONS = tuple(name for name, option in PLAN.items() if option.kept)
"""Names of the options of a request file."""

FREE_ON_RESUME = tuple(name for name in REQUEST_OPTIONS if PLAN[name].free)
"""Options that a resumed run may change: they do not change what is asked. ``storage`` may add a password."""

QUESTION_OPTIONS = tuple(name for name in REQUEST_OPTIONS if not PLAN[name].free)
"""Names of the options that make up the question."""


def collect_options(given: Mapping[str, object], table: Table = PLAN) -> Options:
    """Return the options that were given, and the defaults of the others.

    Args:
        given: value by name of the option, of the type that a YAML file or the command line has.
        table: the options that there are.

    Raises:
        UsageError: an unknown name, or a value of a wrong type.
    """
    defaults = {name: option.default for name, option in table.items() if option.kept}
    for key in given:
        if key not in defaults:
            raise UsageError(f"unknown option '{key}'{nearest(key, defaults)}", f"options: {', '.join(defaults)}")
    return Options(defaults | {key: _typed(key, value, defaults[key]) for key, value in given.items()}, table)


def read_file(file: Path) -> Mapping[str, object]:
    """Return the options of a request file; dashes in names become underscores.

    Raises:
        UsageError: the file cannot be read, or holds no keys.
    """
    try:
        values = read_yaml(file).values
    except UsageError as error:
        raise UsageError(f"--request: {error.message}", "give the path of a YAML file; see docs/search.md") from None
    if not isinstance(values, dict):
        raise UsageError(f"--request: '{file}' holds no keys", "write for example: budget: 50ms")
    version = values.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"--request: '{file}' has schema version {version}, this advisor reads version {SCHEMA_VERSION}",
            "update advisor, or write the file anew with advisor init",
        )
    return {str(key).replace("-", "_"): value for key, value in values.items() if key != "schema_version"}


def _typed(key: str, value: Any, default: object) -> Any:
    """Return ``value`` with the type of the option's default."""
    if value is None:
        raise UsageError(f"{key}: no value", f"write for example {key}: {default or '...'}, or leave the line out")
    if isinstance(default, tuple):
        items = list(value) if isinstance(value, list | tuple) else [value]
        wrong = [item for item in items if isinstance(item, bool) or not isinstance(item, str | int | float | Path)]
        if wrong:
            raise UsageError(f"{key}: '{wrong[0]}' is not one value", f"write for example {key}: [first, second]")
        return tuple(_thread_count(item) if key == "threads" else str(item) for item in items)
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise UsageError(f"{key}: '{value}' is neither true nor false", f"write {key}: true")
        return value
    if isinstance(default, int):
        return _whole_number(key, value)
    if isinstance(value, Mapping | list | tuple | bool):
        raise UsageError(f"{key}: '{value}' is not one value", f"write for example {key}: {default or '...'}")
    return str(value)


def _whole_number(key: str, value: object) -> int:
    try:
        number = int(str(value))
    except ValueError:
        raise UsageError(f"{key}: '{value}' is not a whole number", f"write for example {key}: 1") from None
    if number < 0:
        raise UsageError(f"{key}: {number} is below zero", f"write for example {key}: 1")
    return number


def _thread_count(item: object) -> int:
    if str(item) == "all":
        return usable_cores()
    count = _whole_number("threads", item)
    if not 1 <= count <= MOST_THREADS:
        raise UsageError(
            f"threads: {count} is not between 1 and {MOST_THREADS}", "write for example --threads 1 --threads all"
        )
    return count

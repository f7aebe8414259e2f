"""Flags, a request file and the defaults become one question, validated before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from advisor.core.errors import UsageError, nearest
from advisor.engine.question.validation import validate
from advisor.engine.question.values import Request
from advisor.isolation.cores import usable_cores
from advisor.store.yamlfile import read_yaml


def resolve(options: Mapping[str, Any], file: Path | None = None) -> Request:
    """Join flags, a request file and the defaults (in this order of weight) into a validated request.

    Args:
        options: what was given, by the names of :class:`Request`'s attributes; None values are not given.
        file: YAML with the same keys.

    Raises:
        UsageError: an unknown key, a wrong type, a value without unit or not above zero, a contradiction.
    """
    values: dict[str, Any] = dict(read_file(file)) if file else {}
    values.update({key: value for key, value in options.items() if value is not None})
    known = {field.name: field for field in fields(Request)}
    for key in values:
        if key not in known:
            raise UsageError(f"unknown option '{key}'{nearest(key, known)}", f"options: {', '.join(known)}")
    request = Request(**{key: _typed(key, value, getattr(Request, key)) for key, value in values.items()})
    validate(request)
    return request


def read_file(file: Path) -> Mapping[str, Any]:
    """Return the options of a request file, by the names of :class:`Request`'s attributes.

    Raises:
        UsageError: it cannot be read, or holds no keys.
    """
    try:
        values = read_yaml(file).values
    except UsageError as error:
        raise UsageError(f"--request: {error.message}", "give the path of a YAML file; see docs/search.md") from None
    if not isinstance(values, dict):
        raise UsageError(f"--request: '{file}' holds no keys", "write for example: budget: 50ms")
    return {str(key).replace("-", "_"): value for key, value in values.items() if key != "schema_version"}


def _typed(key: str, value: Any, default: Any) -> Any:
    if isinstance(default, tuple):
        items = [value] if isinstance(value, str | int | Path) else list(value)
        return tuple(_thread(item) if key == "threads" else str(item) for item in items)
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise UsageError(f"{key}: '{value}' is neither true nor false", f"write {key}: true")
        return value
    if isinstance(default, int):
        return _whole(key, value)
    if isinstance(value, Mapping | list | tuple | bool):
        raise UsageError(f"{key}: '{value}' is not one value", f"write for example {key}: {default or '...'}")
    return str(value)


def _whole(key: str, value: Any) -> int:
    try:
        number = int(str(value))
    except ValueError:
        raise UsageError(f"{key}: '{value}' is not a whole number", f"write for example {key}: 1") from None
    if number < 0:
        raise UsageError(f"{key}: {number} is below zero", f"write for example {key}: 1")
    return number


def _thread(item: Any) -> int:
    if str(item) == "all":
        return usable_cores()
    count = _whole("threads", item)
    if not 1 <= count <= 64:
        raise UsageError(f"threads: {count} is not between 1 and 64", "write for example --threads 1 --threads all")
    return count

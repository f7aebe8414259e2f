"""Frozen dataclasses as JSON objects and back, by the types of their fields."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

_SCALARS = frozenset({float, int, str, bool})


def to_json(value: Any, defaults: bool = False) -> dict[str, Any]:
    """Return a dataclass as a JSON object.

    Args:
        value: the dataclass.
        defaults: also write the fields that have their default value; those of nested dataclasses are never written.
    """
    return {
        field.name: _plain(getattr(value, field.name))
        for field in fields(value)
        if defaults or getattr(value, field.name) != _default(field)
    }


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return to_json(value)
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def parse(kind: Any, value: Any) -> Any:
    """Return a JSON value as ``kind``.

    Args:
        kind: a dataclass, a named tuple, an enum, ``float`` (any finite number), ``int``, ``str``, ``bool``, ``object``
            (anything), ``X | None``, or a tuple or mapping of these.
        value: what ``json.loads`` returned.

    Raises:
        TypeError, ValueError: the value does not fit, or an entry is unknown or missing.
    """
    if kind in _SCALARS:
        return _scalar(kind, value)
    origin, arguments = _generic(kind)
    if origin is UnionType:
        return None if value is None else parse(arguments[0], value)
    if origin is Mapping:
        return {str(name): parse(arguments[1], each) for name, each in _entries(value).items()}
    if origin is tuple:
        return _items(arguments, value)
    if kind is object:
        return value
    if issubclass(kind, Enum):
        return kind(value)
    hints = types_of(kind)
    if issubclass(kind, tuple):
        return kind(*_items(tuple(hints.values()), value))
    return kind(**{name: parse(hints.get(name, object), each) for name, each in _entries(value).items()})


def parse_known(kinds: Mapping[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that fit their kinds; a damaged entry counts as unknown, so it is left out."""
    found = {}
    for name in kinds.keys() & entries.keys():
        with suppress(TypeError, ValueError):
            found[name] = parse(kinds[name], entries[name])
    return found


@cache
def types_of(kind: Any) -> dict[str, Any]:
    """Return the type of each field of a dataclass or named tuple."""
    return get_type_hints(kind)


@cache
def _generic(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(kind), get_args(kind)


def _entries(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r} is not a mapping")
    return value


def _items(kinds: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"{value!r} is not a list")
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(value)
    return tuple(parse(kind, each) for kind, each in zip(kinds, value, strict=True))


def _scalar(kind: type, value: Any) -> Any:
    fits = type(value) is kind or (kind is float and type(value) is int)
    if not fits or (type(value) is float and not math.isfinite(value)):
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value

"""Frozen dataclasses as JSON objects and back, by the types of their fields.

It is the one reader and writer of the JSON documents of runs and commands. Two forms are written.
A document for others has the entries that its class states (:class:`Written`), or all fields
(:func:`to_document`). What only advisor reads again has the fields that differ from their defaults
(:func:`to_json`). :func:`parse` reads both, and what earlier versions wrote: an entry that gets
another name needs a line in ``_NEW_NAMES``.
"""

import math
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from pathlib import PurePath
from types import UnionType
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

_SCALARS = frozenset({float, int, str, bool})

_NEW_NAMES = {
    "agreement_pictures": "agreement_images",
    "reached_over": "connection",
    "held_ms": "p90_ms",
    "elsewhere": "required_devices",
    "promised": "guaranteed",
    "twin": "onnx_export",
}
"""Names of entries in documents of older versions, with the names of today. They are renamed in
every class that is read, so no new field may have one of the old names.
"""


class Written:
    """A dataclass that is written as a document.

    ``entries`` lists what the document has, in its order: a field or property, ``name=path`` for
    another name or for an entry of a part, and ``*`` for every field. A path that ends in ``?`` is
    null where its value is empty.
    """

    entries: ClassVar[tuple[str, ...]] = ("*",)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {name: _follow_path(self, path) for name, path in entries_of(type(self)).items()}


def entries_of(kind: Any) -> dict[str, str]:
    """Return the path of each entry of a document."""
    entries = kind.entries if issubclass(kind, Written) else ("*",)
    paths = dict[str, str]()
    for entry in entries:
        if entry == "*":
            paths |= {field.name: field.name for field in fields(kind)}
        else:
            name, _, path = entry.partition("=")
            paths[name] = path or name
    return paths


def _follow_path(value: Any, path: str) -> Any:
    for step in path.rstrip("?").split("."):
        value = None if value is None else getattr(value, step)
    if value or not path.endswith("?"):
        return to_document(value)
    return None


def to_document(value: Any) -> Any:
    """Return a value as JSON has it;
    a dataclass has its own ``to_json``, or each of its fields is an entry.
    """
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return {field.name: to_document(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: to_document(entry) for name, entry in value.items()}
    if isinstance(value, tuple | list):
        return list(map(to_document, value))
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, PurePath):
        return str(value)
    return value


def to_json(value: Any, defaults: bool = False) -> dict[str, Any]:
    """Return a dataclass as a JSON object;
    ``defaults`` writes its fields with default values too, not nested ones.
    """
    plain = {}
    for field in fields(value):
        entry = getattr(value, field.name)
        if defaults or entry != _find_default(field):
            plain[field.name] = _to_plain(entry)
    return plain


def _to_plain(value: Any) -> Any:
    if is_dataclass(value):
        return to_json(value)
    if isinstance(value, Mapping):
        return {name: _to_plain(entry) for name, entry in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_to_plain, value))
    return value


def _find_default(field: Field[Any]) -> Any:
    if field.default_factory is MISSING:
        return field.default
    return field.default_factory()


def parse(kind: Any, value: Any) -> Any:
    """Return a value that ``json.loads`` returned as ``kind``.

    This is a dataclass, a named tuple, an enum, ``float`` (any finite number), ``int``, ``str``,
    ``bool``, ``object`` (anything), ``X | None``, or a tuple or mapping of these. Entries that a
    :class:`Written` computes from its fields are ignored. Raises TypeError, ValueError: the value
    does not fit, or an entry is unknown or missing.
    """
    return _make_reader(kind)(value)


@cache
def _make_reader(kind: Any) -> Callable[[Any], Any]:
    """Return the function that reads values of a kind: a folder of runs has a million of them."""
    origin = get_origin(kind)
    arguments = get_args(kind)
    if kind in _SCALARS:
        return partial(_parse_scalar, kind)
    if origin is UnionType:
        reader = _make_reader(arguments[0])
        return lambda value: None if value is None else reader(value)
    if origin is Mapping:
        if arguments[1] is object:
            return lambda value: dict(_require_mapping(value))
        return partial(_parse_mapping, _make_reader(arguments[1]))
    if origin is tuple:
        return partial(_parse_items, arguments)
    if kind is object:
        return _keep_value
    if issubclass(kind, Enum):
        reader_of_names: Callable[[Any], Any] = kind
        return reader_of_names
    return partial(_parse_object, kind)


def _keep_value(value: Any) -> Any:
    return value


def _parse_object(kind: Any, value: Any) -> Any:
    if issubclass(kind, tuple):
        return kind(*_parse_items(tuple(types_of(kind).values()), value))
    entries = with_new_names(_require_mapping(value))
    readers = _make_readers(kind)
    computed = _list_computed(kind)
    fields_of_value = {}
    for name, entry in entries.items():
        if name not in computed:
            read_entry = readers.get(name, _keep_value)
            fields_of_value[name] = read_entry(entry)
    return kind(**fields_of_value)


@cache
def _make_readers(kind: Any) -> Mapping[str, Callable[[Any], Any]]:
    return {field.name: _make_reader(types_of(kind)[field.name]) for field in fields(kind)}


@cache
def _list_computed(kind: Any) -> Set[str]:
    """Return the entries of a document that are no fields."""
    if not issubclass(kind, Written):
        return frozenset()
    return entries_of(kind).keys() - {field.name for field in fields(kind)}


def with_new_names(entries: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the entries of an object under the names of today."""
    if _NEW_NAMES.keys().isdisjoint(entries):
        return entries
    return {_NEW_NAMES.get(name, name): value for name, value in entries.items()}


def parse_known(kinds: Mapping[str, Any] | type, entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that fit their kinds;
    a damaged entry counts as unknown, so it is left out.

    ``kinds`` has the type of each entry, or is a class with a field for each.
    """
    if isinstance(kinds, type):
        kinds = types_of(kinds)
    parsed = {}
    for name in kinds.keys() & entries.keys():
        with suppress(TypeError, ValueError):
            parsed[name] = parse(kinds[name], entries[name])
    return parsed


@cache
def types_of(kind: Any) -> dict[str, Any]:
    """Return the type of each field of a dataclass or named tuple."""
    return get_type_hints(kind)


def _require_mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict | Mapping):
        raise TypeError(f"{value!r} is not a mapping")
    return value


def _parse_items(kinds: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"{value!r} is not a list")
    if kinds[-1] is Ellipsis:
        return tuple(map(_make_reader(kinds[0]), value))
    return tuple(parse(kind, entry) for kind, entry in zip(kinds, value, strict=True))


def _parse_mapping(read_entry: Callable[[Any], Any], value: Any) -> dict[str, Any]:
    entries = _require_mapping(value)
    return {str(name): read_entry(entry) for name, entry in entries.items()}


def _parse_scalar(kind: type, value: Any) -> Any:
    fits = type(value) is kind or (kind is float and type(value) is int)
    if not fits or (type(value) is float and not math.isfinite(value)):
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value

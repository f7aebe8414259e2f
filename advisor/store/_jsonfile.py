"""Read untrusted JSON with limits, and say what is beyond a limit, and where; type table columns.

Run folders, annotations and profiles are read here. :data:`KINDS` has the type of each entry of
the documents of a run: an entry of another type is ignored, so a type may become wider, not
narrower.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core import ContentError, UsageError, parse_known, require_extra, visible
from advisor.store._yamlfile import MAX_DEPTH, read_text

if TYPE_CHECKING:
    import pandas as pd


MAX_BYTES = 2**28  # Bytes of a file: the split of a million images fits
MAX_STRING = 2**16  # Characters of a string; the longest path has 4,096

MAX_INTEGER = 2**63

_SHOWN = 40  # Characters of a key in an error

SCHEMA_VERSION = 1

_Texts = Mapping[str, str]
_Names = tuple[str, ...]
_Rows = tuple[Mapping[str, object], ...]

KINDS: Mapping[str, Mapping[str, Any]] = {
    "manifest.json": {
        "advisor": str,
        "command_line": _Names,
        "updated": str,
        "versions": _Texts,
        "host": Mapping[str, object],
        "data_fingerprint": str,
        "weights": Mapping[str, object],
        "cards": _Texts,
        "without_weights": _Texts,
        "whole_networks": _Names,
        "configurations": int,
        "space": Mapping[str, object],
        "durations": Mapping[str, float],
        "stopped": _Texts,
        "reevaluated": _Texts,
        "devices": Mapping[str, object],
        "targets": _Texts,
        "seal": Mapping[str, object],
    },
    "dataset.json": {
        "folder": str,
        "pictures_per_class": Mapping[str, int],
        "train": int,
        "validation": int,
        "holdout": int,
        "own_split": _Names,
        "notes": _Names,
        "rejected": _Rows,
        "leaks": tuple[_Names, ...],
        "fingerprint": str,
        "boxes_per_class": Mapping[str, int],
        "listed": int,
        "most_images": int,
        "copies": Mapping[str, int],
    },
    "split.json": {
        "fingerprint": str,
        "classes": _Names,
        "train": _Rows,
        "validation": _Rows,
        "holdout": _Rows,
    },
    "labels.json": {"card": str, "images": int, "found": _Rows},
    "diagnosis.json": {"forms": tuple[Mapping[str, object], ...]},
    "study.json": {"study": str},
    "inputs.json": {"folder": str, "catalogs": _Texts},
}
"""Type of each entry of each document, as :func:`advisor.core.parse` takes it;
other entries are only shown.
"""


NUMBERS = (
    "_percent",
    "_points",
    "_ms",
    "_us",
    "_s",
    "_probability",
    "_share",
    "_auroc",
    "_db",
    "gflops",
    "before",
    "after",
)
"""Ends of the names of columns that hold numbers."""

COUNTS = (
    "_bytes",
    "threads",
    "params",
    "macs",
    "classes",
    "measurements",
    "targets",
    "position",
    "images",
    "_px",
)
"""Ends of the names of columns that hold whole numbers."""

FLAGS = ("meets_budget", "contended", "beyond_noise", "weights_here", "is_default", "changed")
"""Names of columns that are true or false."""


def read_json(path: Path, max_bytes: int = MAX_BYTES) -> object:
    """Return the value in a JSON file;
    UsageError if it cannot be read, or :func:`parse_json` refuses its text.
    """
    text = read_text(path, max_bytes)
    try:
        return parse_json(text)
    except ValueError as error:
        raise UsageError(f"{path}: {error}", "restore this file, or remove it") from None


def parse_json(text: str) -> object:
    """Return the value in a JSON text.

    ValueError with the line or the keys if the text is not JSON, or a value is beyond the limits.
    """
    try:
        value: object = json.loads(text)
    except RecursionError:
        raise ContentError(f"values nested more than {MAX_DEPTH} deep") from None
    except json.JSONDecodeError as error:
        raise ContentError(f"line {error.lineno}: {error.msg}") from None
    except ValueError:  # Python converts at most 4,300 digits
        raise ContentError("a number of more than 4,300 digits") from None
    fault = _find_fault(value, 0)
    if fault:
        raise ContentError(fault.lstrip(".: "))
    return value


def _find_fault(value: object, depth: int) -> str:
    """Return the keys to the first value that is beyond the limits and what it is;
    empty if there is none.
    """
    if isinstance(value, str):
        return _find_text_fault(value)
    if isinstance(value, float):
        return "" if math.isfinite(value) else ": a number that is not finite"
    if isinstance(value, int):
        return (
            "" if -MAX_INTEGER <= value < MAX_INTEGER else ": a whole number of more than 64 bits"
        )
    if value is None:
        return ""
    if depth == MAX_DEPTH:
        return f": values nested more than {MAX_DEPTH} deep"
    entries: Iterable[tuple[object, object]] = value.items() if isinstance(value, dict) else ()
    if isinstance(value, (list, tuple)):
        entries = enumerate(value)
    for key, entry in entries:
        fault = _find_text_fault(key) if isinstance(key, str) else ""
        if fault:
            return f": a key with {fault.removeprefix(': ')}"
        fault = _find_fault(entry, depth + 1)
        if fault:
            return f".{visible(str(key)[:_SHOWN])}{fault}"
    return ""


def _find_text_fault(value: str) -> str:
    if len(value) > MAX_STRING:
        return f": a text of {len(value)} characters"
    if "\0" in value:
        return ": a NUL character"
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        return ": half a character (a lone surrogate)"
    return ""


class ColumnType(StrEnum):
    """Type of a column, as pandas names it.
    A missing value is ``NaN`` in texts and numbers, ``<NA>`` in the others.
    """

    TEXT = "str"
    NUMBER = "float64"
    COUNT = "Int64"
    FLAG = "boolean"


@dataclass(frozen=True)
class Document:
    """A JSON document as far as it can be used."""

    # The entries without those of a wrong type; empty if the document is missing or damaged.
    entries: Mapping[str, Any]
    problems: tuple[str, ...] = ()  # what is wrong with the document, and the consequence


def read_document(path: Path) -> Document:
    """Read a document of a run folder; it never fails, because every document can be missing."""
    try:
        content = read_json(path)
    except UsageError as error:
        return Document(
            {},
            (f"is damaged ({error.message.removeprefix(f'{path}: ')}): its content is ignored",),
        )
    if not isinstance(content, dict):
        return Document({}, ("is damaged (it is not a mapping): its content is ignored",))
    kinds = KINDS.get(path.name, {})
    fitting = parse_known(kinds, content)
    known = [name for name in content if name in kinds]
    wrong = [name for name in known if name not in fitting]
    problems = [f"is damaged ({name} is of a wrong type): this entry is ignored" for name in wrong]
    version = content.get("schema_version")
    if version != SCHEMA_VERSION:
        shown = version if isinstance(version, int) else "unknown"
        problems.append(f"is of schema {shown}, not {SCHEMA_VERSION}: its content may be misread")
    return Document(
        {name: value for name, value in content.items() if name not in wrong}, tuple(problems)
    )


def type_of(column: str) -> ColumnType:
    """Return the type of a column by its name: its unit is the end of the name."""
    if column in FLAGS:
        return ColumnType.FLAG
    if column.endswith(COUNTS):
        return ColumnType.COUNT
    return ColumnType.NUMBER if column.endswith(NUMBERS) else ColumnType.TEXT


def type_cell(column: str, value: Any) -> Any:
    """Return a value as its column holds it, see :func:`type_of`; None for a missing one."""
    # NaN alone differs from itself.
    if value is None or value != value:
        return None
    converters = {
        ColumnType.TEXT: str,
        ColumnType.NUMBER: float,
        ColumnType.COUNT: int,
        ColumnType.FLAG: bool,
    }
    return converters[type_of(column)](value)


def value_at(value: Any, path: str) -> Any:
    """Return what a path of attributes, keys and indices leads to, such as ``latency.value``;
    None if a part lacks.
    """
    for name in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(name)
        elif name.isdecimal():
            value = next(iter(value[int(name) :]), None) if value else None
        else:
            value = getattr(value, name, None)
    return value


def build_frame(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> pd.DataFrame:
    """Return a table with these columns, typed by :func:`type_of`;
    None and a missing key are missing values.
    """
    require_extra("pandas", "parquet", "a table of pandas needs pandas, which is not installed")
    import pandas as pd

    listed = list(rows)
    typed = {}
    for name in columns:
        cells = [row.get(name) for row in listed]
        typed[name] = pd.Series(cells, dtype=type_of(name))
    return pd.DataFrame(typed, columns=list(columns))

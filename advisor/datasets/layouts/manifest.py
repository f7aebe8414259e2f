"""Read a manifest: a table with images, their labels and, if wanted, a split and groups."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.errors import UsageError, nearest, require_extra
from advisor.core.units import plain as plain_text
from advisor.datasets.dataset import PARTS, Entry, Listing, Rejected

if TYPE_CHECKING:
    from fastparquet import ParquetFile

PARQUET = frozenset({".parquet", ".pq"})
CSV = frozenset({".csv", ".tsv"})
SUFFIXES = CSV | PARQUET
LONGEST_LABEL = 1000
SHOWN = 80
"""Characters of a column's name in an error."""

_DELIMITERS = ",;\t"

Row = dict[str, str]
"""The cells of a row by the names of the columns here."""


@dataclass(frozen=True)
class ManifestColumns:
    """The columns of a kind of table."""

    names: Mapping[str, tuple[str, ...]]  # the columns and their accepted names, in any case
    needed: tuple[str, ...]  # the columns that a table must have
    hint: str  # what a table should look like, for errors


SPLIT = {"split": ("split", "part", "subset"), "group": ("group",)}
"""Columns that each kind of table may have."""

LABELLED = ManifestColumns(
    {"path": ("path", "file", "filename", "image"), "label": ("label", "class"), **SPLIT},
    ("path", "label"),
    "columns: path, label and, optionally, split (train, validation, test) and group; paths are relative to it",
)


def list_manifest(path: Path) -> Listing:
    """List the files of a CSV or Parquet table. Rows without a label and repeated rows are rejected."""
    entries: list[Entry] = []
    rejected: list[Rejected] = []
    seen: set[tuple[str, str]] = set()
    for number, row in read_rows(path, LABELLED):
        entry = entry_of(path, number, row, LABELLED)
        fault = "no label" if not entry.label.strip() else "listed twice" if _key(entry) in seen else ""
        if fault:
            rejected.append(Rejected(entry.path, f"{fault} (row {number} of '{path.name}')"))
        else:
            seen.add(_key(entry))
            entries.append(entry)
    _require_rows(path, entries)
    return Listing(path.parent, entries, (), rejected)


def _known_columns(path: Path, wanted: ManifestColumns) -> dict[str, str]:
    """Return the columns that a table has of those wanted, each with its name in the table."""
    found = _columns_of(path)
    plain = {name.strip().casefold(): name for name in found}
    known = {name: plain[one] for name, several in wanted.names.items() for one in reversed(several) if one in plain}
    for name in wanted.needed:
        if name not in known:
            names = ", ".join(f"'{plain_text(column)[:SHOWN]}'" for column in found[:12]) or "nothing"
            raise UsageError(
                f"--data: '{path}' has no column '{name}'{nearest(name, map(plain_text, plain))}, but {names}",
                wanted.hint,
            )
    return known


def read_rows(path: Path, wanted: ManifestColumns) -> Iterator[tuple[int, Row]]:
    """Yield (line or row number from 1, cells by column); cells are text, missing ones are empty.

    Raises UsageError if the file cannot be read as the format of its extension, or a needed column is missing.
    """
    known = _known_columns(path, wanted)
    read = _parquet_rows if path.suffix.lower() in PARQUET else _csv_rows
    for number, row in read(path, list(known.values())):
        yield number, {name: row[column] for name, column in known.items()}


def entry_of(manifest: Path, number: int, row: Row, columns: ManifestColumns) -> Entry:
    """Return the image that a row names, with its label, part and group.

    Raises UsageError if the row names no image or an unknown part, or its label is too long.
    """
    name, written = row["path"].strip(), row.get("split", "").strip()
    if not name or "\0" in name:
        raise UsageError(f"--data: row {number} of '{manifest}' names no image", columns.hint)
    if "\0" in row["label"] or len(row["label"]) > LONGEST_LABEL:
        raise UsageError(
            f"--data: row {number} of '{manifest}' has a label with NUL or of more than {LONGEST_LABEL} characters",
            "write another name of the class",
        )
    if written and written.casefold() not in PARTS:
        raise UsageError(
            f"--data: row {number} of '{manifest}' has the split '{written}'{nearest(written.casefold(), PARTS)}",
            "write train, validation or test, or leave it empty",
        )
    path = Path(os.path.normpath(manifest.parent / name))
    return Entry(path, row["label"], PARTS.get(written.casefold(), ""), row.get("group", "").strip())


def _key(entry: Entry) -> tuple[str, str]:
    return str(entry.path), entry.label


def _require_rows(path: Path, entries: Sequence[Entry]) -> None:
    labels = {entry.label for entry in entries}
    if not entries:
        raise UsageError(f"--data: '{path}' names no image with a label", LABELLED.hint)
    if len(labels) == 1:
        raise UsageError(f"--data: '{path}' has one class only, '{labels.pop()}'", "add images of a second class")


def _columns_of(path: Path) -> list[str]:
    return [str(name) for name in _parquet(path).columns] if path.suffix.lower() in PARQUET else _csv_header(path)


def _csv_header(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            line = file.readline()
            file.seek(0)
            return next(csv.reader(file, delimiter=_delimiter(line)), [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(path, error) from None


def _csv_rows(path: Path, _columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            delimiter = _delimiter(file.readline())
            file.seek(0)
            reader = csv.DictReader(file, delimiter=delimiter, restval="")
            for row in reader:
                yield reader.line_num, {str(key): value for key, value in row.items() if key is not None}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(path, error) from None


def _delimiter(header: str) -> str:
    """Return the most frequent delimiter of the header, or a comma."""
    return max(_DELIMITERS, key=header.count)


def _parquet(path: Path) -> ParquetFile:
    message = f"--data: '{path}' is Parquet, which fastparquet reads, and it is not installed; CSV needs no package"
    require_extra("fastparquet", "parquet", message)
    from fastparquet import ParquetFile

    try:
        return ParquetFile(str(path))
    except Exception as error:  # a damaged file fails in many ways
        raise _unreadable(path, error) from None


def _parquet_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
    number = 0
    try:
        for frame in _parquet(path).iter_row_groups(columns=list(columns)):
            for values in zip(*(frame[name] for name in columns), strict=True):
                number += 1
                yield number, dict(zip(columns, map(_text, values), strict=True))
    except UsageError:
        raise
    except Exception as error:
        raise _unreadable(path, error) from None


def _text(value: object) -> str:
    """Return a cell as text; whole floats, from nullable integer columns, become integers."""
    if value is None or value != value:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _unreadable(path: Path, error: Exception) -> UsageError:
    kind = "Parquet" if path.suffix.lower() in PARQUET else "CSV in UTF-8"
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
    return UsageError(f"--data: '{path}' cannot be read as {kind}: {why}", "write the manifest again")

"""Read tables that name images: CSV, Parquet and JSON lines, with classes, or with boxes or masks."""

from __future__ import annotations

import csv
import io
import itertools
import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.core.errors import UsageError, nearest, require_extra
from advisor.core.units import plain as plain_text
from advisor.datasets.dataset import Entry, Listing, Rejected
from advisor.datasets.folders import is_system_name, some_of
from advisor.datasets.images import is_candidate
from advisor.datasets.parts import PARTS, UNLABELLED, part_of
from advisor.datasets.sources.isolated import read_natively
from advisor.datasets.sources.tables import NEEDS_PYARROW
from advisor.store.jsonfile import parse_json
from advisor.store.yamlfile import encoding_of, open_file

MAX_TABLE_BYTES = 2**30
PARQUET = frozenset({".parquet", ".pq"})
CSV = frozenset({".csv", ".tsv"})
JSON_LINES = frozenset({".jsonl"})
SUFFIXES = CSV | PARQUET | JSON_LINES
MAX_LINE = 2**20  # Characters of one line of JSON
PROBED = 20  # Rows whose images are looked for where the table says
LONGEST_LABEL = 1000
SHOWN = 80  # Characters of a column's name in an error
_DELIMITERS = ",;\t"
_DELIMITER_LINE = re.compile(rf'"?sep=([{_DELIMITERS}])"?', re.IGNORECASE)
LISTED_EVERY = 10_000  # Images between two reports of a listing: a manifest has about as many rows in 0.2 s
Listed = Callable[[int], None]
Row = dict[str, str]  # The cells of a row by the names of the columns here


@dataclass(frozen=True)
class ManifestColumns:
    """The columns of a kind of table."""

    names: Mapping[str, tuple[str, ...]]  # the columns and their accepted names, in any case
    needed: tuple[str, ...]  # the columns that a table must have
    hint: str  # what a table should look like, for errors


SPLIT = {"split": ("split", "part", "subset"), "group": ("group",)}  # Columns that each kind of table may have

_IMAGE_COLUMNS = "path file filename file_name filepath file_path image image_path image_id id_code id"
_LABEL_COLUMNS = "label class class_name category classid diagnosis dx breed species target"

LABELLED = ManifestColumns(
    {"path": tuple(_IMAGE_COLUMNS.split()), "label": tuple(_LABEL_COLUMNS.split()), **SPLIT},
    ("path", "label"),
    "columns: path, label and, optionally, split (train, validation, test) and group; paths are relative to it",
)


def fits(path: Path) -> bool:
    """Return whether a table has columns for images and their classes."""
    try:
        return bool(_known_columns(path, LABELLED))
    except UsageError:
        return False


def list_manifest(path: Path, listed: Listed = lambda _count: None, root: Path | None = None) -> Listing:
    """List the files of a table. Rows without a label and repeated rows are rejected.

    If the table has names alone, and no image beside it has one, all are found by their names, with or without an
    extension, in the folders below ``root`` (default: the folder of the table). ``listed`` is called now and then with
    the number of rows so far.
    """
    entries: dict[tuple[Path, str], Entry] = {}
    rejected: list[Rejected] = []
    for number, row in read_rows(path, LABELLED):
        entry = entry_of(path, number, row, LABELLED)
        if number % LISTED_EVERY == 0:
            listed(number)
        fault = "" if entry.label.strip() else "no label"
        if fault or entries.setdefault((entry.path, entry.label), entry) is not entry:
            rejected.append(Rejected(entry.path, f"{fault or 'listed twice'} (row {number} of '{path.name}')"))
    labels = {entry.label for entry in entries.values()}
    if not labels:
        raise UsageError(f"--data: '{path}' names no image with a label", LABELLED.hint)
    if len(labels) == 1:
        raise UsageError(f"--data: '{path}' has one class only, '{labels.pop()}'", "add images of a second class")
    images, notes = _found_by_name(path, list(entries.values()), root or path.parent)
    return Listing(root or path.parent, images, (), rejected, notes)


def labels_of(tables: Sequence[Path]) -> set[str]:
    """Return the labels that tables have."""
    return {row["label"].strip() for table in tables for _, row in read_rows(table, LABELLED)}


def _found_by_name(table: Path, entries: list[Entry], root: Path) -> tuple[list[Entry], tuple[str, ...]]:
    """Return the entries with the images that have their names in folders below the table, and a sentence about it."""
    first = entries[:PROBED]
    if any(is_there(entry.path) or entry.path.parent != table.parent for entry in first):
        return entries, ()
    places: dict[str, Path | None] = {}
    for folder, inner, files in os.walk(root):
        inner[:] = sorted(name for name in inner if not is_system_name(name))
        for file in files:
            if is_candidate(Path(file)) and not is_system_name(file):
                for name in (file, Path(file).stem):
                    # Two images of one name: nothing says which is meant.
                    places[name] = None if name in places else Path(folder, file)
    paths = [places.get(entry.path.name) or places.get(entry.path.stem) for entry in entries]
    folders = sorted({str(path.parent.relative_to(root)) for path in paths if path})
    if not folders:
        return entries, ()
    moved = [replace(entry, path=path or entry.path) for entry, path in zip(entries, paths, strict=True)]
    return moved, (f"The images of '{table.name}' are found by their names in {some_of(folders)}.",)


def _known_columns(path: Path, wanted: ManifestColumns) -> dict[str, str]:
    """Return the columns that a table has of those wanted, each with its name in the table."""
    if path.suffix.lower() in PARQUET:
        columns = _parquet_columns(path)
    elif path.suffix.lower() in JSON_LINES:
        columns = list(next((row for _, row in _json_rows(path, ())), {}))
    else:
        with _csv_reader(path) as reader:
            columns = list(reader.fieldnames or [])
    if path.suffix.lower() in PARQUET and any(name.endswith(".bytes") for name in columns):
        require_extra("pyarrow", "arrow", f"--data: '{path}' {NEEDS_PYARROW}")
    plain = {name.strip().casefold(): name for name in columns}
    known = {name: plain[one] for name, several in wanted.names.items() for one in reversed(several) if one in plain}
    for name in wanted.needed:
        if name not in known:
            names = ", ".join(f"'{plain_text(column)[:SHOWN]}'" for column in columns[:12]) or "nothing"
            close = nearest(name, map(plain_text, plain))
            raise UsageError(f"--data: '{path}' has no column '{name}'{close}, but {names}", wanted.hint)
    return known


def read_rows(path: Path, wanted: ManifestColumns) -> Iterator[tuple[int, Row]]:
    """Yield (line or row number from 1, cells by column); cells are text, missing ones are empty.

    Raises UsageError if the file cannot be read as the format of its extension, or a needed column is missing.
    """
    known = _known_columns(path, wanted)
    kind = path.suffix.lower()
    read = _parquet_rows if kind in PARQUET else _json_rows if kind in JSON_LINES else _csv_rows
    for number, row in read(path, list(known.values())):
        yield number, {name: row.get(column, "") for name, column in known.items()}


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
    part = part_of(written) if written else ""
    if written and part in ("", UNLABELLED):
        raise UsageError(
            f"--data: row {number} of '{manifest}' has the split '{written}'{nearest(written.casefold(), PARTS)}",
            "write train, validation or test, or leave it empty",
        )
    return Entry(locate(manifest.parent, name), row["label"], part, row.get("group", "").strip())


def is_there(path: Path) -> bool:
    """Return whether a file exists; False for a name that no file can have."""
    return os.path.exists(path)  # noqa: PTH110 -- it raises no error for a name that is too long


def locate(folder: Path, name: str) -> Path:
    """Return the file that a table or an annotation names, relative to a folder.

    Windows separates names by backslashes. A name with accents may be composed in the table (NFC) and not on the disk
    (NFD), or the other way.
    """
    if "\\" in name and "/" not in name:
        name = name.replace("\\", "/")
    path = os.path.normpath(os.path.join(folder, name))  # noqa: PTH118 -- a third of the time of paths
    if name.isascii() or os.path.exists(path):  # noqa: PTH110
        return Path(path)
    forms = (Path(unicodedata.normalize(form, path)) for form in ("NFC", "NFD"))
    return next((form for form in forms if is_there(form)), Path(path))


@contextmanager
def _csv_reader(path: Path) -> Iterator[csv.DictReader[str]]:
    """Open a table; the delimiter is the most frequent one of the header, or a comma.

    A first line ``sep=;``, as Excel writes it, names the delimiter.
    """
    try:
        with open_file(path, MAX_TABLE_BYTES) as content:
            encoding = encoding_of(content.read(2))
            content.seek(0)
            with io.TextIOWrapper(content, encoding, newline="") as file:
                yield _dict_reader(file)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(path, error) from None


def _dict_reader(file: io.TextIOWrapper) -> csv.DictReader[str]:
    header = file.readline()
    named = _DELIMITER_LINE.fullmatch(header.rstrip("\r\n"))
    if named is not None:
        return csv.DictReader(file, delimiter=named[1], restval="")
    file.seek(0)
    return csv.DictReader(file, delimiter=max(_DELIMITERS, key=header.count), restval="")


def _csv_rows(path: Path, _columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
    with _csv_reader(path) as reader:
        for row in reader:
            yield reader.line_num, {str(key): value for key, value in row.items() if key is not None}


def _json_rows(path: Path, _columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
    """Yield the objects of a file that has one a line, with their values as text."""
    try:
        with open_file(path, MAX_TABLE_BYTES) as content, io.TextIOWrapper(content, "utf-8-sig") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), ""), start=1):
                if line.strip():
                    row = parse_json(line)
                    if not isinstance(row, dict):
                        raise ValueError(f"line {number} is no object")
                    yield number, {name: _text(value) for name, value in row.items()}
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _parquet_columns(path: Path) -> list[str]:
    message = f"--data: '{path}' is Parquet, which fastparquet reads, and it is not installed; CSV needs no package"
    require_extra("fastparquet", "parquet", message)
    return list(read_natively(path, "Parquet", "columns:column_names"))


def _parquet_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
    number = 0
    for group in itertools.count():
        rows = read_natively(path, "Parquet", "columns:read_group", list(columns), group)
        if rows is None:
            return
        for values in rows:
            number += 1
            yield number, dict(zip(columns, values, strict=True))


def _text(value: object) -> str:
    """Return a cell as text; whole floats, from nullable integer columns, become integers."""
    if value is None or value != value:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _unreadable(path: Path, error: Exception) -> UsageError:
    suffix = path.suffix.lower()
    kind = "Parquet" if suffix in PARQUET else "lines of JSON" if suffix in JSON_LINES else "CSV in UTF-8"
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
    return UsageError(f"--data: '{path}' cannot be read as {kind}: {why}", "write the manifest again")

"""Read tables that name images: CSV, Parquet and JSON lines, with classes, or with boxes or masks."""

from __future__ import annotations

import csv
import io
import itertools
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.core.errors import ContentError, UsageError, nearest, reason_of, require_extra
from advisor.core.units import plain as plain_text, plural
from advisor.datasets.category_files import class_descriptions, read_category_labels
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
JSON = frozenset({".json"})
LABEL_SUFFIXES = SUFFIXES | JSON  # Of files that name images and their classes
MAX_LINE = 2**20  # Characters of one line of JSON
PROBED = 20  # Rows whose images are looked for where the table says
LONGEST_LABEL = 1000
SHOWN = 80  # Characters of a column's name in an error
ANNOTATIONS = "annotations"  # Name of the folder that COCO and iNaturalist have for their tables
IDENTIFIED_LABEL = "labelname"  # Column of Open Images whose labels are identifiers of classes
BOX_EDGES = frozenset({"xmin", "ymin", "xmax", "ymax"})
NO_CONFIDENCE = frozenset({"0", "0.0"})  # Of a label that people looked for in the image, and did not find
TRUE_WORDS = frozenset({"1", "1.0", "true", "yes", "y", "t"})
FALSE_WORDS = frozenset({"0", "0.0", "false", "no", "n", "f"})
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


SPLIT = {
    "split": ("split", "part", "subset", "data_split", "split_name", "usage"),
    "group": ("group",),
    **{f"is_{name}": (f"is_{name}", f"is_{name}ing") for name in ("train", "valid", "test")},
}
"""Columns that each kind of table may have. ``is_train`` and the like are 1 or true for the images of a part."""


_IMAGE_COLUMNS = "path file filename file_name filepath file_path image image_path image_id imageid id_code id"
_LABEL_COLUMNS = "label class class_name category labelname classid diagnosis dx breed species target"

LABELLED = ManifestColumns(
    {
        "path": tuple(_IMAGE_COLUMNS.split()),
        "label": tuple(_LABEL_COLUMNS.split()),
        "confidence": ("confidence",),
        **SPLIT,
    },
    ("path", "label"),
    "columns: path, label and, optionally, split (train, validation, test) and group; paths are relative to it",
)


def fits(path: Path) -> bool:
    """Return whether a file has columns for images and their classes, or the lists of a JSON file, and no boxes."""
    try:
        return not has_edges(path) and bool(_known_columns(path, LABELLED))
    except UsageError:
        return False


def fault_of(path: Path) -> str:
    """Return why a table has no columns for images and their classes, in words; empty if it has."""
    try:
        _known_columns(path, LABELLED)
    except UsageError as error:
        return error.message.removeprefix("--data: ")
    return ""


def has_edges(path: Path) -> bool:
    """Return whether a table has columns for the edges of boxes."""
    try:
        columns = {name.strip().casefold() for name in _written_columns(path)}
    except UsageError:
        return False
    return columns >= BOX_EDGES


def list_manifest(path: Path, listed: Listed = lambda _count: None, root: Path | None = None) -> Listing:
    """List the files of a table. Rows without a label, repeated rows and images of several classes are rejected.

    If no image is where the table says, all are found by their names, with or without an extension, in the folders
    below ``root`` (default: :func:`folder_of_images`). ``listed`` is called now and then with the number of rows.
    """
    entries: dict[tuple[Path, str], Entry] = {}
    labels_of_image: dict[Path, list[str]] = {}
    rejected: list[Rejected] = []
    absent = 0
    for number, row in read_rows(path, LABELLED):
        if row.get("confidence", "").strip() in NO_CONFIDENCE:
            absent += 1
            continue
        entry = entry_of(path, number, row, LABELLED)
        if number % LISTED_EVERY == 0:
            listed(number)
        fault = "" if entry.label.strip() else "no label"
        if fault or entries.setdefault((entry.path, entry.label), entry) is not entry:
            rejected.append(Rejected(entry.path, f"{fault or 'listed twice'} (row {number} of '{path.name}')"))
        else:
            labels_of_image.setdefault(entry.path, []).append(entry.label)
    single: list[Entry] = []
    several: set[Path] = set()
    for entry in entries.values():
        labels = labels_of_image[entry.path]
        if len(labels) == 1:
            single.append(entry)
        elif entry.path not in several:
            several.add(entry.path)
            rejected.append(Rejected(entry.path, f"of several classes: {', '.join(labels)}"))
    _refuse_few_classes(path, {entry.label for entry in single}, len(several))
    root = root or folder_of_images(path)
    paths, notes = find_by_name(path, [entry.path for entry in single], root)
    images = [replace(entry, path=place) for entry, place in zip(single, paths, strict=True)]
    if absent:
        note = f"{plural(absent, 'label')} of '{path.name}' with confidence 0 say what an image does not show."
        notes = (*notes, note)
    return Listing(root, images, (), rejected, notes)


def _refuse_few_classes(path: Path, labels: Collection[str], several: int) -> None:
    """Refuse a table with fewer than two classes; ``several`` is the number of images that have more than one."""
    more = f"; {plural(several, 'image has', 'images have')} several classes" if several else ""
    if not labels:
        raise UsageError(f"--data: '{path}' names no image with a label{more}", LABELLED.hint)
    if len(labels) == 1:
        label = next(iter(labels))
        raise UsageError(f"--data: '{path}' has one class only, '{label}'{more}", "add images of a second class")


def labels_of(tables: Sequence[Path]) -> set[str]:
    """Return the labels that tables have."""
    return {row["label"].strip() for table in tables for _, row in read_rows(table, LABELLED)}


def folder_of_images(table: Path) -> Path:
    """Return the folder that a table is in, or the one above ``annotations``."""
    return table.parent.parent if table.parent.name.casefold() == ANNOTATIONS else table.parent


def find_by_name(table: Path, paths: Sequence[Path], root: Path) -> tuple[Sequence[Path], tuple[str, ...]]:
    """Return the images of a table, and a sentence if they are not where it says, but below ``root`` by their names."""
    if any(map(is_there, paths[:PROBED])):
        return paths, ()
    places = _places_of_images(root)
    places_of_paths = []
    for path in paths:
        names = (f"{path.parent.name}/{path.name}", path.name, path.stem)
        places_of_paths.append(next(filter(None, map(places.get, names)), None))
    folders = sorted({str(path.parent.relative_to(root)) for path in places_of_paths if path})
    if not folders:
        return paths, ()
    moved = [place or path for place, path in zip(places_of_paths, paths, strict=True)]
    return moved, (f"The images of '{table.name}' are found by their names in {some_of(folders)}.",)


def _places_of_images(root: Path) -> dict[str, Path | None]:
    """Return the images below a folder by name, by name without extension, and by the names of folder and file.

    None where several images have a name: nothing says which is meant.
    """
    places: dict[str, Path | None] = {}
    for folder, inner, files in os.walk(root):
        inner[:] = sorted(name for name in inner if not is_system_name(name))
        for file in files:
            if is_candidate(Path(file)) and not is_system_name(file):
                path = Path(folder, file)
                for name in (file, path.stem, f"{path.parent.name}/{file}"):
                    places[name] = None if name in places else path
    return places


def _written_columns(path: Path) -> list[str]:
    """Return the names of a table's columns; raises UsageError as :func:`read_rows`."""
    suffix = path.suffix.lower()
    if suffix in JSON:
        next(read_category_labels(path), None)  # It has the lists, or is refused
        return ["path", "label"]
    if suffix in JSON_LINES:
        return list(next((row for _, row in _json_rows(path, ())), {}))
    if suffix not in PARQUET:
        with _csv_reader(path) as reader:
            return list(reader.fieldnames or [])
    columns = _parquet_columns(path)
    if any(name.endswith(".bytes") for name in columns):
        require_extra("pyarrow", "arrow", f"--data: '{path}' {NEEDS_PYARROW}")
    return columns


def _known_columns(path: Path, wanted: ManifestColumns) -> dict[str, str]:
    """Return the columns that a table has of those wanted, each with its name in the table."""
    columns = _written_columns(path)
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
    kind = path.suffix.lower()
    if kind in JSON:
        for number, (file, label) in enumerate(read_category_labels(path), start=1):
            yield number, {"path": file, "label": label}
        return
    known = _known_columns(path, wanted)
    identified = known["label"].strip().casefold() == IDENTIFIED_LABEL
    names = class_descriptions(path.parent) if identified else {}
    read = _parquet_rows if kind in PARQUET else _json_rows if kind in JSON_LINES else _csv_rows
    for number, row in read(path, list(known.values())):
        cells = {name: row.get(column, "") for name, column in known.items()}
        cells["label"] = names.get(cells["label"], cells["label"])
        yield number, cells


def entry_of(manifest: Path, number: int, row: Row, columns: ManifestColumns) -> Entry:
    """Return the image that a row names, with its label, part and group.

    Raises UsageError if the row names no image or an unknown part, or its label is too long.
    """
    name, written = row["path"].strip(), row.get("split", "").strip() or _part_by_flags(row)
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


def _part_by_flags(row: Row) -> str:
    """Return the part that the columns ``is_train``, ``is_valid`` and ``is_test`` say; not to train is to test."""
    other = ""
    for column, cell in row.items():
        flag = cell.strip().casefold()
        if not column.startswith("is_"):
            continue
        part = column.removeprefix("is_")
        if flag in TRUE_WORDS:
            return part
        if flag in FALSE_WORDS and other != "test":
            other = "test" if part == "train" else "train"
    return other


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
    """Return the reader of a table; one without a header, of two cells a row, has the columns path and label."""
    header = file.readline()
    named = _DELIMITER_LINE.fullmatch(header.rstrip("\r\n"))
    if named is not None:
        return csv.DictReader(file, delimiter=named[1], restval="")
    file.seek(0)
    delimiter = max(_DELIMITERS, key=header.count)
    cells = next(csv.reader([header], delimiter=delimiter), [])
    without_header = len(cells) == 2 and is_candidate(Path(cells[0])) and Path(cells[0]).suffix != ""
    columns = ["path", "label"] if without_header else None
    return csv.DictReader(file, columns, delimiter=delimiter, restval="")


def _csv_rows(path: Path, _columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
    with _csv_reader(path) as reader:
        for row in reader:
            yield reader.line_num, {str(key): _unquoted(value) for key, value in row.items() if key is not None}


def _unquoted(cell: str) -> str:
    """Return a cell without the single quotes around it."""
    return cell[1:-1] if len(cell) > 2 and cell[0] == cell[-1] == "'" else cell


def _json_rows(path: Path, _columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
    """Yield the objects of a file that has one a line, with their values as text."""
    try:
        with open_file(path, MAX_TABLE_BYTES) as content, io.TextIOWrapper(content, "utf-8-sig") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), ""), start=1):
                if line.strip():
                    row = parse_json(line)
                    if not isinstance(row, dict):
                        raise ContentError(f"line {number} is no object")
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
    return UsageError(f"--data: '{path}' cannot be read as {kind}: {reason_of(error)}", "write the manifest again")

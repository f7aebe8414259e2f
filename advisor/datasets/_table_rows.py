"""Read the rows of tables as text: CSV, lists in text files, Parquet, JSON and lines of JSON.

``_column_search.py`` looks at the first rows, ``_manifests.py`` reads all. Rows of CSV and lines
of JSON are read one by one, as a table may have a gigabyte; child processes read Parquet.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from advisor.core import ContentError, UsageError, plain, require_extra
from advisor.datasets._category_files import read_category_labels
from advisor.datasets._json_labels import read_json_rows, read_line_row
from advisor.datasets._read_errors import explain_error
from advisor.datasets._sources.isolated import read_natively
from advisor.datasets._sources.tables import NEEDS_PYARROW
from advisor.datasets._untitled_columns import LABEL, PATH, name_untitled_columns, split_line
from advisor.store import MAX_BYTES, open_text, parse_json, read_text

MAX_TABLE_BYTES = 2**30
MAX_LINE = 2**20  # Characters of one line of JSON
SHOWN = 80  # Characters of a line or of a column's name in an error
PROBED = 20  # Rows that tell what columns without a title mean
PARQUET = frozenset({".parquet", ".pq"})
CSV = frozenset({".csv", ".tsv"})
TEXT = frozenset({".txt", ".lst", ".list"})
JSON_LINES = frozenset({".jsonl", ".ndjson", ".manifest"})
JSON = frozenset({".json", ".labels"})
_DELIMITERS = ",;\t|"
_DELIMITER_LINE = re.compile(rf'"?sep=([{re.escape(_DELIMITERS)}])"?', re.IGNORECASE)
_BLANKS = str.maketrans("\t,;", "   ")  # What separates the words of a list, as a blank does
Row = dict[str, str]  # The cells of a row by the names of the columns


def read_column_names(path: Path) -> list[str]:
    """Return the names of a table's columns; UsageError if it is not as its extension says."""
    suffix = path.suffix.lower()
    if suffix in JSON:
        names: dict[str, None] = {}
        # An object has the keys that it needs, so the first one alone may lack a column.
        for _, row in islice(_read_json_file(path), PROBED):
            names |= dict.fromkeys(row)
        return list(names) or ["path", "label"]
    if suffix in JSON_LINES:
        return list(next((row for _, row in _read_json_lines(path)), {}))
    if suffix in TEXT:
        return list(next((row for _, row in _read_text_list(path)), {}))
    if suffix not in PARQUET:
        with _open_csv(path) as reader:
            return list(filter(None, reader.fieldnames or []))
    columns = _read_parquet_columns(path)
    if any(name.endswith(".bytes") for name in columns):
        require_extra("pyarrow", "arrow", f"--data: '{path}' {NEEDS_PYARROW}")
    return columns


def read_table_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
    """Yield (line or row number from 1, cells) of a table, with some of the columns at least.

    Raises UsageError as :func:`read_column_names`, or if a row has more cells than the table has
    columns.
    """
    suffix = path.suffix.lower()
    if suffix in PARQUET:
        return _read_parquet_rows(path, columns)
    if suffix in JSON:
        return _read_json_file(path)
    if suffix in JSON_LINES:
        return _read_json_lines(path)
    return _read_text_list(path) if suffix in TEXT else _read_csv_rows(path)


def _read_json_file(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a JSON file: that of iNaturalist, or one of :func:`.read_json_rows`."""
    try:
        rows = read_json_rows(parse_json(read_text(path, MAX_BYTES)))
    except ValueError:
        rows = None  # The other reader says what is wrong with the file
    if rows is None:
        rows = [{"path": file, "label": label} for file, label in read_category_labels(path)]
    yield from enumerate(rows, start=1)


@contextmanager
def _open_csv(path: Path) -> Iterator[csv.DictReader[str]]:
    """Open a table; the delimiter is the most frequent one of the header, or a comma.

    A first line ``sep=;``, as Excel writes it, names the delimiter.
    """
    try:
        with open_text(path, MAX_TABLE_BYTES) as file:
            yield _make_csv_reader(file)
    except (OSError, csv.Error) as error:
        raise _unreadable_error(path, error) from None


def _make_csv_reader(file: io.TextIOWrapper) -> csv.DictReader[str]:
    """Return the reader of a table; columns without titles get names.

    See :func:`.name_untitled_columns`.
    """
    header = file.readline()
    begin = 0
    # It is a comment only if the next line has more columns:
    # some programs write `#path,label` as titles.
    if header.startswith("#"):
        begin = file.tell()
        comment = header
        header = file.readline()
        if max(map(header.count, _DELIMITERS)) <= max(map(comment.count, _DELIMITERS)):
            begin = 0
            header = comment
    named = _DELIMITER_LINE.fullmatch(header.rstrip("\r\n"))
    if named is not None:
        return csv.DictReader(file, delimiter=named[1], restval="", skipinitialspace=True)
    delimiter = max(_DELIMITERS, key=header.count)
    file.seek(begin)
    rows = csv.reader(islice(file, PROBED), delimiter=delimiter, skipinitialspace=True)
    columns = name_untitled_columns([row for row in rows if row])
    file.seek(begin)
    return csv.DictReader(file, columns, delimiter=delimiter, restval="", skipinitialspace=True)


def _read_csv_rows(path: Path) -> Iterator[tuple[int, Row]]:
    with _open_csv(path) as reader:
        for row in reader:
            extra_cells: object = row.pop(None, None)
            if isinstance(extra_cells, list) and any(map(str.strip, extra_cells)):
                raise UsageError(
                    f"--data: row {reader.line_num} of '{path}' has more cells than the table has"
                    " columns",
                    "put a text with a comma into double quotes",
                )
            # Sheets have empty rows behind the last one.
            if any(map(str.strip, row.values())):
                yield reader.line_num, {name: _strip_quotes(cell) for name, cell in row.items()}


def _read_text_list(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield the images of a list with one in each line, and the word beside it.

    UsageError for a line of another form.
    """
    lines = read_text(path, MAX_TABLE_BYTES).splitlines()
    _refuse_attributes(path, lines[:3])
    for number, line in enumerate(lines, start=1):
        cells = split_line(line.strip().translate(_BLANKS))
        if cells:
            yield number, dict(zip((PATH, LABEL), map(_strip_quotes, cells), strict=True))
        # The first line may be a heading.
        elif line.strip() and number > 1:
            raise UsageError(
                f"--data: line {number} of '{path}' is not an image and its class:"
                f" '{plain(line.strip())[:SHOWN]}'",
                "write 'images/1.jpg cat' in each line, or a CSV file with the columns path and"
                " label",
            )


def _refuse_attributes(path: Path, lines: Sequence[str]) -> None:
    """Refuse a list of attributes as CelebA has it: number, names, then 1 or -1 for each image."""
    if len(lines) < 3 or not lines[0].strip().isdecimal():
        return
    _, *flags = lines[2].split() or [""]
    if set(flags) <= {"1", "-1"}:
        names = lines[1].split()
        command = f"awk 'NR > 2 {{print $1, $2}}' {shlex.quote(str(path))} > list.txt"
        raise UsageError(
            f"--data: '{path}' has {len(names)} attributes for each image, of which several hold:"
            " they are no classes",
            f"keep one as the class, here '{names[0]}': {command}",
        )


def _strip_quotes(cell: str) -> str:
    """Return a cell without the single quotes around it."""
    is_quoted = len(cell) > 2 and cell[0] == cell[-1] == "'"
    return cell[1:-1] if is_quoted else cell


def _read_json_lines(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield the objects of a file that has one a line, with their values as text."""
    try:
        with open_text(path, MAX_TABLE_BYTES) as file:
            # Not the lines of the file: a line without an end would be read whole,
            # whatever its size.
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), ""), start=1):
                if line.strip():
                    row = parse_json(line)
                    if not isinstance(row, dict):
                        raise ContentError(f"line {number} is no object")
                    yield number, read_line_row(row)
    except (OSError, ValueError) as error:
        raise _unreadable_error(path, error) from None


def _read_parquet_columns(path: Path) -> list[str]:
    message = (
        f"--data: '{path}' is Parquet, which fastparquet reads, and it is not installed; CSV needs"
        " no package"
    )
    require_extra("fastparquet", "parquet", message)
    return list(read_natively(path, "Parquet", "columns:column_names"))


def _read_parquet_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
    number = 0
    for group in itertools.count():
        rows = read_natively(path, "Parquet", "columns:read_group", list(columns), group)
        if rows is None:
            return
        for values in rows:
            number += 1
            yield number, dict(zip(columns, values, strict=True))


def _unreadable_error(path: Path, error: Exception) -> UsageError:
    suffix = path.suffix.lower()
    kind = "CSV in UTF-8"
    if suffix in PARQUET:
        kind = "Parquet"
    elif suffix in JSON_LINES:
        kind = "lines of JSON"
    return UsageError(
        f"--data: '{path}' cannot be read as {kind}: {explain_error(error)}",
        "save the table as CSV in UTF-8; Excel calls it 'CSV UTF-8'",
    )

"""Read the rows of a CSV, TSV or Parquet file."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.errors import UsageError

if TYPE_CHECKING:
    from fastparquet import ParquetFile

PARQUET = frozenset({".parquet", ".pq"})
CSV = frozenset({".csv", ".tsv"})
_DELIMITERS = ",;\t"

Row = dict[str, str]


def columns_of(path: Path) -> list[str]:
    """Return the names of a table's columns.

    Raises:
        UsageError: the file cannot be read as the format of its extension.
    """
    return [str(name) for name in _parquet(path).columns] if path.suffix.lower() in PARQUET else _csv_header(path)


def rows_of(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
    """Yield (line or row number from 1, values by column); values are text, missing ones are empty.

    Raises:
        UsageError: as :func:`columns_of`.
    """
    return _parquet_rows(path, columns) if path.suffix.lower() in PARQUET else _csv_rows(path)


def _csv_header(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            line = file.readline()
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from None
    return next(csv.reader([line], delimiter=_delimiter(line)), [])


def _csv_rows(path: Path) -> Iterator[tuple[int, Row]]:
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

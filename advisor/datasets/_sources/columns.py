"""Read the columns of a Parquet manifest as text.

``_table_rows.py`` calls these functions in a child process by their names, as the library is
native: ``columns:column_names`` and ``columns:read_group`` must keep them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from advisor.core import ContentError
from advisor.datasets._sources.base import refuse_file

if TYPE_CHECKING:
    from fastparquet import ParquetFile

MOST_CHARACTERS = 65_536  # Of a cell
HINT = "write the manifest again"


def column_names(file: Path) -> list[str]:
    """Return the names of the columns; UsageError if the file cannot be read as Parquet."""
    try:
        return list(map(str, _open_once(file, file.stat().st_mtime_ns).columns))
    except Exception as error:
        # A damaged file fails in many ways, and one with two columns of one name, too.
        repeated = _find_repeated_name(file)
        why = (
            ContentError(f"it has several columns named '{repeated[:80]}'") if repeated else error
        )
        raise refuse_file(file, "Parquet", why, HINT) from None


def _find_repeated_name(file: Path) -> str:
    """Return the name that several columns have; empty for none, or without pyarrow."""
    if find_spec("pyarrow") is None:
        return ""
    import pyarrow.parquet as pq

    with suppress(Exception):
        names = Counter(pq.read_schema(file).names)
        return next((name for name, count in names.items() if count > 1), "")
    return ""


def read_group(file: Path, columns: Sequence[str], number: int) -> list[tuple[str, ...]] | None:
    """Return the rows of a row group by its index, cells as text; None for no such group.

    Rows of a Parquet file are stored in groups, each of which is read as a whole. A list of names
    or numbers is the text of a JSON list. Raises UsageError if the file cannot be read, or a cell
    is another list or a struct.
    """
    try:
        table = _open_once(file, file.stat().st_mtime_ns)
        if number >= len(table.row_groups):
            return None
        frame = table[number].to_pandas(columns=list(columns))
        cells = []
        for name in columns:
            cells.append([_convert_cell(value, name) for value in frame[name]])
    except Exception as error:
        raise refuse_file(file, "Parquet", error, HINT) from None
    return list(zip(*cells, strict=True))


@lru_cache(maxsize=1)
def _open_once(file: Path, _changed_ns: int) -> ParquetFile:
    from fastparquet import ParquetFile

    return ParquetFile(str(file))


def _convert_cell(value: object, column: str) -> str:
    """Return a cell as text; whole floats, from nullable integer columns, become integers."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list) and all(isinstance(entry, str | np.integer) for entry in value):
        # Labels of an image; the reader of manifests takes such a list apart.
        value = json.dumps(value, ensure_ascii=False, default=int)
    if isinstance(value, list | tuple | dict | set):
        raise ContentError(f"the cells of its column '{column[:80]}' are lists, and not text")
    if value is None or value != value:
        return ""
    if isinstance(value, bytes):
        text = value.decode("utf-8", "replace")
    else:
        text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    if len(text) > MOST_CHARACTERS:
        raise ContentError(
            f"a cell of its column '{column[:80]}' has more than {MOST_CHARACTERS:,} characters"
        )
    return text

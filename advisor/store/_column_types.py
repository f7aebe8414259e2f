"""Tell the type of a table column by its name, and build tables of pandas.

Reports, comparisons and the catalogue make their tables so. The names of columns are those of
exported files: their ends, such as ``_ms``, are units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from advisor.core import require_extra

if TYPE_CHECKING:
    import pandas as pd

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


class ColumnType(StrEnum):
    """Type of a column, as pandas names it.

    A missing value is ``NaN`` in texts and numbers, ``<NA>`` in the others.
    """

    TEXT = "str"
    NUMBER = "float64"
    COUNT = "Int64"
    FLAG = "boolean"

    @staticmethod
    def of_column(column: str) -> ColumnType:
        """Return the type of a column by its name: its unit is the end of the name."""
        if column in FLAGS:
            return ColumnType.FLAG
        if column.endswith(COUNTS):
            return ColumnType.COUNT
        return ColumnType.NUMBER if column.endswith(NUMBERS) else ColumnType.TEXT

    def convert_cell(self, value: Any) -> Any:
        """Return a value as a column of this type holds it; None for a missing one."""
        # NaN alone differs from itself.
        if value is None or value != value:
            return None
        converters = {
            ColumnType.TEXT: str,
            ColumnType.NUMBER: float,
            ColumnType.COUNT: int,
            ColumnType.FLAG: bool,
        }
        return converters[self](value)


def value_at(value: Any, path: str) -> Any:
    """Return the value at a path of attributes, keys and indices, such as ``latency.value``.

    None if a part of the path is missing.
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
    """Return a table with these columns, typed by :meth:`ColumnType.of_column`; None stands for no
    value.
    """
    require_extra("pandas", "parquet", "a table of pandas needs pandas, which is not installed")
    import pandas as pd

    listed = list(rows)
    typed = {}
    for name in columns:
        cells = [row.get(name) for row in listed]
        typed[name] = pd.Series(cells, dtype=ColumnType.of_column(name))
    return pd.DataFrame(typed, columns=list(columns))

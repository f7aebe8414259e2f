"""Tables of results as pandas DataFrames: the unit is in the name of a column, the type follows from the name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

TEXT, NUMBER, COUNT, FLAG = "str", "float64", "Int64", "boolean"
"""Types of columns. A missing value is ``NaN`` in texts and numbers, ``<NA>`` in counts and flags."""

NUMBERS = (
    "_percent", "_points", "_ms", "_us", "_s", "_probability", "_share", "_auroc", "_db", "gflops", "before", "after",
)  # fmt: skip
"""Ends of the names of columns that hold numbers."""

COUNTS = (
    "_bytes", "threads", "params", "macs", "classes", "measurements", "targets", "position", "images", "_px",
)  # fmt: skip
"""Ends of the names of columns that hold whole numbers."""

FLAGS = ("meets_budget", "contended", "beyond_noise", "weights_here", "is_default", "changed")
"""Names of columns that are true or false."""


def type_of(column: str) -> str:
    """Return the type of a column by its name: its unit is the end of the name."""
    if column in FLAGS:
        return FLAG
    if column.endswith(COUNTS):
        return COUNT
    return NUMBER if column.endswith(NUMBERS) else TEXT


def value_at(value: Any, path: str) -> Any:
    """Return what a path of attributes, keys and indices leads to, such as ``latency.value``; None if a part lacks."""
    for name in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(name)
        elif name.isdecimal():
            value = next(iter(value[int(name) :]), None) if value else None
        else:
            value = getattr(value, name, None)
    return value


def frame(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> pd.DataFrame:
    """Return a table with these columns; None and a missing key are missing values.

    Args:
        columns: their names, which also set the types, see :func:`type_of`.
        rows: values by column.
    """
    import pandas as pd

    listed = list(rows)
    typed = {name: pd.Series([row.get(name) for row in listed], dtype=type_of(name)) for name in columns}
    return pd.DataFrame(typed, columns=list(columns))

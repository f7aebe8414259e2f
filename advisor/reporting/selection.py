"""Sort and filter the rows of any table by its columns: ``--sort`` and ``--filter``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from advisor.core import units
from advisor.core.errors import UsageError, nearest
from advisor.store.jsonfile import FLAG, TEXT, frame, type_of, value_at

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

SIGNS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le, ">=": operator.ge, "!=": operator.ne, "=": operator.eq, "<": operator.lt, ">": operator.gt,
}  # fmt: skip

UNITS: Mapping[str, tuple[Mapping[str, float], str]] = {
    "_bytes": (units.BYTES, "5MB"),
    "_ms": (units.MILLISECONDS, "50ms"),
    "_us": ({unit: 1e3 * factor for unit, factor in units.MILLISECONDS.items()}, "500us"),
    "_s": (units.SECONDS, "10min"),
    "_percent": (units.PERCENT, "90%"),
    "_points": (units.POINTS, "1pt"),
    "_probability": ({"%": 0.01}, "90%"),
    "_share": ({"%": 0.01}, "90%"),
    "params": (units.COUNTS, "5M"),
    "macs": (units.COUNTS, "300M"),
}
"""Units of the values that a column is compared with and an example, by the end of the column's name."""

BARE = ("_percent", "_points", "_probability", "_share", "params", "macs")
"""Ends of the names of columns whose values need no unit."""

TRUTH: Mapping[str, bool] = {"yes": True, "true": True, "no": False, "false": False}

_CONDITION = re.compile(r"\s*([\w .-]+?)\s*(<=|>=|!=|=|<|>)\s*(.*?)\s*", re.DOTALL)


@dataclass(frozen=True)
class Condition:
    """A column compared with values: a row passes if one of them holds; with ``!=``, if all do.

    Attributes:
        column: name of the column.
        sign: a key of :data:`SIGNS`.
        values: numbers in the unit of the column, truth values, or texts, in which ``*`` and ``?`` match anything.
    """

    column: str
    sign: str
    values: tuple[float | bool | str, ...]

    def passes(self, cells: pd.Series[Any]) -> pd.Series[bool]:
        """Return for each cell of the column whether it passes; a missing value passes only ``!=``."""
        if type_of(self.column) == TEXT:
            either = "|".join(translate(str(value)) for value in self.values)
            found = cells.fillna("").str.fullmatch(either, case=False)
            return ~found if self.sign == "!=" else found
        if self.sign in ("=", "!="):
            found = cells.isin(self.values)
            return ~found if self.sign == "!=" else found
        passed: pd.Series[bool] = SIGNS[self.sign](cells, self.values[0]).fillna(False).astype(bool)
        return passed


@dataclass(frozen=True)
class Rows(Generic[T]):
    """The rows of a table that can be sorted and filtered.

    Attributes:
        columns: names of the columns, which also set the types, see :func:`advisor.store.jsonfile.type_of`.
        row: returns the values of an item by column.
    """

    columns: tuple[str, ...]
    row: Callable[[T], Mapping[str, object]]

    def select(self, sort: str | None = None, filters: Sequence[str] | None = None) -> Selection[T]:
        """Return what ``--sort`` and ``--filter`` ask for.

        Args:
            sort: columns joined by commas; one after ``-`` descends. The end of a name may be left out: the first
                column that begins so is meant, for example ``size`` for ``size_bytes``.
            filters: conditions such as ``size<5MB`` or ``family=mobilenet*``.

        Raises:
            UsageError: an unknown column, or a comparison that cannot be made.
        """
        names = [part.strip() for part in (sort or "").split(",") if part.strip()]
        order = [(_column(name.removeprefix("-"), self.columns, "--sort"), not name.startswith("-")) for name in names]
        return Selection(self, tuple(order), tuple(_condition(text, self.columns) for text in filters or ()))


def rows_of(paths: Mapping[str, str]) -> Rows[Any]:
    """Return a table whose columns hold what attributes hold, by :func:`advisor.store.jsonfile.value_at`."""
    return Rows(tuple(paths), lambda item: {column: value_at(item, path) for column, path in paths.items()})


@dataclass(frozen=True)
class Selection(Generic[T]):
    """The rows of a table to show, and their order.

    Attributes:
        rows: what the rows are.
        order: columns to sort by, each with whether it ascends; empty for the table's own order.
        conditions: a row must pass all of them.
    """

    rows: Rows[T]
    order: tuple[tuple[str, bool], ...] = ()
    conditions: tuple[Condition, ...] = ()

    def of(self, items: Sequence[T]) -> tuple[T, ...]:
        """Return the items whose rows are shown, in their order; missing values come last."""
        if not self.order and not self.conditions:
            return tuple(items)
        found = frame(self.rows.columns, map(self.rows.row, items))
        for condition in self.conditions:
            found = found[condition.passes(found[condition.column])]
        if self.order:
            names, ascending = zip(*self.order, strict=True)
            found = found.sort_values(list(names), ascending=list(ascending), kind="stable", key=_folded)
        return tuple(items[index] for index in found.index)


def _column(name: str, columns: Sequence[str], option: str) -> str:
    """Return the column that a name means."""
    plain = re.sub(r"[\s-]+", "_", name.strip().casefold())
    for column in columns:
        if column == plain:
            return column
    for column in columns:
        if column.startswith(f"{plain}_"):
            return column
    short = [column.rpartition("_")[0] or column for column in columns]
    listed = f"columns: {', '.join(columns)}"
    raise UsageError(f"{option}: unknown column '{name}'{nearest(plain, [*short, *columns])}", listed)


def _condition(text: str, columns: Sequence[str]) -> Condition:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(
            f"--filter: '{text}' is not a comparison", f"write COLUMN, one of {' '.join(SIGNS)}, and a value: size<5MB"
        )
    name, sign, value = match.groups()
    column = _column(name, columns, "--filter")
    parts = [part.strip() for part in value.split(",")] if sign in ("=", "!=") else [value]
    if type_of(column) in (TEXT, FLAG) and sign not in ("=", "!="):
        kind = "texts" if type_of(column) == TEXT else "yes or no"
        raise UsageError(f"--filter: '{column}' holds {kind}, and '{sign}' compares numbers", "compare it by = or !=")
    return Condition(column, sign, tuple(_value(part, column) for part in parts))


def _value(text: str, column: str) -> float | bool | str:
    """Return a value in the unit of a column.

    Raises:
        UsageError: it is no value of this column.
    """
    if type_of(column) == TEXT:
        return text
    if type_of(column) == FLAG:
        if text.casefold() not in TRUTH:
            raise UsageError(f"--filter: '{column}' is yes or no, not '{text}'", f"write --filter {column}=yes")
        return TRUTH[text.casefold()]
    end = next((end for end in UNITS if column.endswith(end)), "")
    try:
        number = float(text)
    except ValueError:
        number = None
    if number is not None and (not end or end in BARE or number == 0):
        return number
    if not end:
        raise UsageError(f"--filter: '{text}' is not a number", f"'{column}' holds numbers")
    known, example = UNITS[end]
    try:
        return units.parse(text, known, f"--filter {column}", example)
    except UsageError as error:
        hint = f"write for example --filter '{column}<{example}'; units: {', '.join(known)}"
        raise UsageError(error.message, hint) from None


def _folded(cells: pd.Series[Any]) -> pd.Series[Any]:
    """Return texts without upper case, so that their order ignores it."""
    return cells.str.casefold() if type_of(str(cells.name)) == TEXT else cells

"""Rows of any table, sorted and filtered by columns: what ``--sort`` and ``--filter`` ask for.

A command selects before its work, so that a wrong column costs no time, and shows the rows
afterwards. The name of a column sets its type and the units of its values, by its end.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from operator import itemgetter
from typing import Any, Generic, TypeAlias, TypeVar

from advisor.core import UsageError, nearest, units
from advisor.store import ColumnType, value_at

T = TypeVar("T")

_Row: TypeAlias = tuple[Mapping[str, Any], T]
"""The cells of an item by column, and the item."""

SIGNS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}

EQUALITIES = ("=", "!=")
"""Signs that compare any value, and with several ones; the others compare one number."""

UNITS_BY_ENDING: Mapping[str, tuple[Mapping[str, float], str]] = {
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
"""Units of the values that a column is compared with and an example,
by the end of the column's name.
"""

UNITLESS_ENDINGS = ("_percent", "_points", "_probability", "_share", "params", "macs")
"""Ends of the names of columns whose values need no unit."""

YES_OR_NO: Mapping[str, bool] = {"yes": True, "true": True, "no": False, "false": False}

# Signs of two characters come first: the first that matches is taken.
_CONDITION = re.compile(r"\s*([\w .-]+?)\s*(<=|>=|!=|=|<|>)\s*(.*?)\s*", re.DOTALL)


@dataclass(frozen=True)
class Condition:
    """A column compared with values: a row passes if one of them holds; with ``!=``, if all do.

    The sign is a key of :data:`SIGNS`; texts may have ``*`` and ``?``, which match anything.
    """

    column: str
    sign: str
    values: tuple[float | bool | str, ...]

    def passes(self, value: Any) -> bool:
        """Return whether a value of the column passes; a missing one passes only ``!=``."""
        if ColumnType.of_column(self.column) == ColumnType.TEXT:
            any_of_them = "|".join(translate(str(pattern)) for pattern in self.values)
            matches = re.fullmatch(any_of_them, value or "", re.IGNORECASE) is not None
            return matches is (self.sign == "=")
        if self.sign in EQUALITIES:
            return (value in self.values) is (self.sign == "=")
        return value is not None and bool(SIGNS[self.sign](value, self.values[0]))


@dataclass(frozen=True)
class Rows(Generic[T]):
    """The rows of a table that can be sorted and filtered:
    ``row`` returns the values of an item by column.

    The names of the columns set the types, see :meth:`ColumnType.of_column`.
    """

    columns: tuple[str, ...]
    row: Callable[[T], Mapping[str, object]]

    def cells(self, item: T) -> dict[str, Any]:
        """Return the values of an item by column, as the columns hold them;
        None for a missing one.
        """
        row = self.row(item)
        cells = {}
        for column in self.columns:
            cells[column] = ColumnType.of_column(column).convert_cell(row.get(column))
        return cells

    def select(
        self, sort: str | None = None, filters: Sequence[str] | None = None
    ) -> Selection[T]:
        """Return what ``--sort`` and ``--filter`` ask for, or raise a ``UsageError``.

        Columns to sort by are joined by commas; one after ``-`` descends. The end of a name may be
        left out: ``size`` for ``size_bytes``. Conditions are such as ``size<5MB`` or
        ``family=mobilenet*``.
        """
        order = []
        for part in (sort or "").split(","):
            name = part.strip()
            if name:
                column = _find_column(name.removeprefix("-"), self.columns, "--sort")
                ascending = not name.startswith("-")
                order.append((column, ascending))
        conditions = tuple(_parse_condition(text, self.columns) for text in filters or ())
        return Selection(self, tuple(order), conditions)

    @classmethod
    def of_paths(cls, paths: Mapping[str, str]) -> Rows[Any]:
        """Return a table whose columns hold attributes, see :func:`advisor.store.value_at`."""
        return cls(
            tuple(paths),
            lambda item: {column: value_at(item, path) for column, path in paths.items()},
        )


@dataclass(frozen=True)
class Selection(Generic[T]):
    """The rows to show: those that pass all conditions, ordered by columns,
    each with whether it ascends.
    """

    rows: Rows[T]
    order: tuple[tuple[str, bool], ...] = ()
    conditions: tuple[Condition, ...] = ()

    def of(self, items: Sequence[T]) -> tuple[T, ...]:
        """Return the items whose rows are shown, in their order; missing values come last."""
        if not self.order and not self.conditions:
            return tuple(items)
        rows: list[_Row[T]] = []
        for item in items:
            cells = self.rows.cells(item)
            if all(condition.passes(cells[condition.column]) for condition in self.conditions):
                rows.append((cells, item))
        # Sorting keeps the order of equal values, so the column that matters most comes last.
        for column, ascending in reversed(self.order):
            rows = _sort_rows(rows, column, ascending)
        return tuple(item for _, item in rows)


def _sort_rows(rows: Sequence[_Row[T]], column: str, ascending: bool) -> list[_Row[T]]:
    """Return the rows in the order of a column;
    those without a value there come last, in either order.
    """
    keyed = []
    missing = []
    for row in rows:
        cells, _ = row
        value = cells[column]
        if value is None:
            missing.append(row)
        else:
            keyed.append((_fold_case(value), row))
    keyed.sort(key=itemgetter(0), reverse=not ascending)
    return [row for _, row in keyed] + missing


def _fold_case(value: Any) -> Any:
    """Return a text without upper case, so that its order ignores it; other values as they are."""
    return value.casefold() if isinstance(value, str) else value


def _find_column(name: str, columns: Sequence[str], option: str) -> str:
    """Return the column that a user's name means:
    that of this name, or the first that begins so.
    """
    plain = re.sub(r"[\s-]+", "_", name.strip().casefold())
    if plain in columns:
        return plain
    for column in columns:
        if column.startswith(f"{plain}_"):
            return column
    without_unit = [column.rpartition("_")[0] or column for column in columns]
    raise UsageError(
        f"{option}: unknown column '{name}'{nearest(plain, [*without_unit, *columns])}",
        f"columns: {', '.join(columns)}",
    )


def _parse_condition(text: str, columns: Sequence[str]) -> Condition:
    """Parse a comparison of ``--filter``, such as ``size<5MB``; UsageError for another text."""
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(
            f"--filter: '{text}' is not a comparison",
            f"write COLUMN, one of {' '.join(SIGNS)}, and a value: size<5MB",
        )
    name, sign, value = match.groups()
    column = _find_column(name, columns, "--filter")
    if sign in EQUALITIES:
        texts = [part.strip() for part in value.split(",")]
        return Condition(column, sign, tuple(_parse_value(text, column) for text in texts))
    if ColumnType.of_column(column) in (ColumnType.TEXT, ColumnType.FLAG):
        kind = "texts" if ColumnType.of_column(column) == ColumnType.TEXT else "yes or no"
        raise UsageError(
            f"--filter: '{column}' holds {kind}, and '{sign}' compares numbers",
            "compare it by = or !=",
        )
    return Condition(column, sign, (_parse_value(value, column),))


def _parse_value(text: str, column: str) -> float | bool | str:
    """Return a value in the unit of a column,
    or raise a ``UsageError`` if it is no value of this column.
    """
    if ColumnType.of_column(column) == ColumnType.TEXT:
        return text
    if ColumnType.of_column(column) == ColumnType.FLAG:
        if text.casefold() not in YES_OR_NO:
            raise UsageError(
                f"--filter: '{column}' is yes or no, not '{text}'", f"write --filter {column}=yes"
            )
        return YES_OR_NO[text.casefold()]
    ending = next(filter(column.endswith, UNITS_BY_ENDING), "")
    try:
        number = float(text)
    except ValueError:
        number = None
    # 0 needs no unit, because it is the same in each.
    if number is not None and (not ending or ending in UNITLESS_ENDINGS or number == 0):
        return number
    if not ending:
        raise UsageError(f"--filter: '{text}' is not a number", f"'{column}' holds numbers")
    known_units, example = UNITS_BY_ENDING[ending]
    try:
        return units.parse_quantity(text, known_units, f"--filter {column}", example)
    except UsageError as error:
        hint = f"write for example --filter '{column}<{example}'; units: {', '.join(known_units)}"
        raise UsageError(error.message, hint) from None

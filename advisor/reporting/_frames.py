"""Tables of rows: any one sorted and filtered by its columns, and the evaluations of a run for pandas and files."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from advisor.core import METRICS, TOP1, Evaluation, UsageError, nearest, units
from advisor.store import ColumnType, build_frame, type_cell, type_of, value_at

if TYPE_CHECKING:
    import pandas as pd

    from advisor.reporting._view import RunView

T = TypeVar("T")

SIGNS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}

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
        if type_of(self.column) == ColumnType.TEXT:
            either = "|".join(translate(str(pattern)) for pattern in self.values)
            return bool(re.fullmatch(either, value or "", re.IGNORECASE)) is (self.sign == "=")
        if self.sign in ("=", "!="):
            return (value in self.values) is (self.sign == "=")
        return value is not None and bool(SIGNS[self.sign](value, self.values[0]))


@dataclass(frozen=True)
class Rows(Generic[T]):
    """The rows of a table that can be sorted and filtered: ``row`` returns the values of an item by column.

    The names of the columns set the types, see :func:`advisor.store.type_of`.
    """

    columns: tuple[str, ...]
    row: Callable[[T], Mapping[str, object]]

    def cells(self, item: T) -> dict[str, Any]:
        """Return the values of an item by column, as the columns hold them; None for a missing one."""
        row = self.row(item)
        return {column: type_cell(column, row.get(column)) for column in self.columns}

    def select(self, sort: str | None = None, filters: Sequence[str] | None = None) -> Selection[T]:
        """Return what ``--sort`` and ``--filter`` ask for, or raise a ``UsageError``.

        Columns to sort by are joined by commas; one after ``-`` descends. The end of a name may be left out: ``size``
        for ``size_bytes``. Conditions are such as ``size<5MB`` or ``family=mobilenet*``.
        """
        order = []
        for part in (sort or "").split(","):
            name = part.strip()
            if name:
                column = _column(name.removeprefix("-"), self.columns, "--sort")
                ascending = not name.startswith("-")
                order.append((column, ascending))
        conditions = tuple(_condition(text, self.columns) for text in filters or ())
        return Selection(self, tuple(order), conditions)


def rows_of(paths: Mapping[str, str]) -> Rows[Any]:
    """Return a table whose columns hold what attributes hold, by :func:`advisor.store.value_at`."""
    return Rows(tuple(paths), lambda item: {column: value_at(item, path) for column, path in paths.items()})


@dataclass(frozen=True)
class Selection(Generic[T]):
    """The rows to show: those that pass all conditions, ordered by columns, each with whether it ascends."""

    rows: Rows[T]
    order: tuple[tuple[str, bool], ...] = ()
    conditions: tuple[Condition, ...] = ()

    def of(self, items: Sequence[T]) -> tuple[T, ...]:
        """Return the items whose rows are shown, in their order; missing values come last."""
        if not self.order and not self.conditions:
            return tuple(items)
        rows = []
        for item in items:
            cells = self.rows.cells(item)
            if all(condition.passes(cells[condition.column]) for condition in self.conditions):
                rows.append((cells, item))
        # Sorting keeps the order of equal values, so the column that matters most comes last.
        for column, ascending in reversed(self.order):
            keyed = [(_fold_case(cells[column]), (cells, item)) for cells, item in rows]
            known = []
            for pair in keyed:
                if pair[0] is not None:
                    known.append(pair)
            known.sort(key=itemgetter(0), reverse=not ascending)
            rows = [row for _, row in known]
            rows += [row for value, row in keyed if value is None]
        return tuple(item for _, item in rows)


def _fold_case(value: Any) -> Any:
    """Return a text without upper case, so that its order ignores it; other values as they are."""
    return value.casefold() if isinstance(value, str) else value


def _column(name: str, columns: Sequence[str], option: str) -> str:
    """Return the column that a name means: of this name, or the first that begins so."""
    plain = re.sub(r"[\s-]+", "_", name.strip().casefold())
    meant = plain if plain in columns else None
    if meant is None:
        meant = next((column for column in columns if column.startswith(f"{plain}_")), None)
    if meant is None:
        short = [column.rpartition("_")[0] or column for column in columns]
        listed = f"columns: {', '.join(columns)}"
        raise UsageError(f"{option}: unknown column '{name}'{nearest(plain, [*short, *columns])}", listed)
    return meant


def _condition(text: str, columns: Sequence[str]) -> Condition:
    """Parse a comparison of ``--filter``, such as ``size<5MB``; UsageError for another text."""
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(
            f"--filter: '{text}' is not a comparison", f"write COLUMN, one of {' '.join(SIGNS)}, and a value: size<5MB"
        )
    name, sign, value = match.groups()
    column = _column(name, columns, "--filter")
    parts = [part.strip() for part in value.split(",")] if sign in ("=", "!=") else [value]
    if type_of(column) in (ColumnType.TEXT, ColumnType.FLAG) and sign not in ("=", "!="):
        kind = "texts" if type_of(column) == ColumnType.TEXT else "yes or no"
        raise UsageError(f"--filter: '{column}' holds {kind}, and '{sign}' compares numbers", "compare it by = or !=")
    return Condition(column, sign, tuple(_value(part, column) for part in parts))


def _value(text: str, column: str) -> float | bool | str:
    """Return a value in the unit of a column, or raise a ``UsageError`` if it is no value of this column."""
    if type_of(column) == ColumnType.TEXT:
        return text
    if type_of(column) == ColumnType.FLAG:
        if text.casefold() not in TRUTH:
            raise UsageError(f"--filter: '{column}' is yes or no, not '{text}'", f"write --filter {column}=yes")
        return TRUTH[text.casefold()]
    end = next(filter(column.endswith, UNITS), "")
    try:
        number = float(text)
    except ValueError:
        number = None
    # 0 needs no unit, because it is the same in each.
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


def _ends(column: str, unit: str, path: str, *more: str) -> dict[str, str]:
    """Return the columns of a quantity and of the ends of its interval, and others of its attributes."""
    ends = {f"{column}_{unit}": "value", f"{column}_low_{unit}": "low", f"{column}_high_{unit}": "high"}
    ends |= {f"{column}_{attribute}": attribute for attribute in more}
    return {name: f"{path}.{end}" for name, end in ends.items()}


@cache
def map_columns() -> Mapping[str, str]:
    """Return the columns, each with the attribute of an evaluation that it holds, or empty.

    The columns of top-1 hold the accuracy of the run, which ``metric`` names.
    """
    return {
        "key": "configuration.key",
        "role": "",
        "card": "configuration.card",
        "family": "family",
        "training": "configuration.training",
        "compression": "configuration.compression",
        **{name: f"configuration.target.{name}" for name in ("device", "runtime", "accelerator", "threads")},
        **_ends("top1", "percent", "accuracy", "provenance"),
        **_ends("holdout_top1", "percent", "holdout_accuracy"),
        **_ends("new_conditions_top1", "percent", "new_conditions", "provenance"),
        **_ends("robust_top1", "percent", "capture.holdout"),
        "latency_median_ms": "latency.value",
        "latency_low_ms": "latency.low",
        "latency_high_ms": "latency.high",
        "latency_p90_ms": "latency_p90.value",
        "latency_provenance": "latency.provenance",
        "size_bytes": "size.value",
        "size_provenance": "size.provenance",
        "memory_bytes": "memory.value",
        "memory_provenance": "memory.provenance",
        **_ends("drop", "points", "drop"),
        "meets_budget": "",
        "contended": "contended",
        "artefact": "artefact",
        "artefact_sha256": "artefact_sha256",
        "metric": "",
        **{
            f"{part}{name.replace('-', '_')}_percent": f"{answers}.metrics.{name}.value"
            for part, answers in (("", "answers"), ("holdout_", "holdout_answers"))
            for name in METRICS
            if name != TOP1
        },
        "status": "status",
        "stage": "stage",
        "reason": "reason",
        "latency_budget_probability": "budget_probability",
        "unknown_auroc": "unknown.auroc.value",
        "unknown_found_share": "unknown.others.found.value",
        "unknown_kept_share": "unknown.kept.value",
    }


def evaluations_frame(view: RunView, evaluations: Sequence[Evaluation]) -> pd.DataFrame:
    """Return evaluations of a run as a table: one row each, the unit in the name of each column."""
    return build_frame(tuple(map_columns()), (_row((view, evaluation)) for evaluation in evaluations))


def _row(item: tuple[RunView, Evaluation]) -> dict[str, object]:
    view, evaluation = item
    cells: dict[str, object] = {"role": _role(view, evaluation.configuration.key), "metric": view.metric}
    cells["meets_budget"] = view.limits.met_by(evaluation)
    return {name: _read_known(evaluation, name) if path else cells[name] for name, path in map_columns().items()}


def _read_known(evaluation: Evaluation, column: str) -> object:
    value = value_at(evaluation, map_columns()[column])
    if value is not None and type_of(column) == ColumnType.COUNT:
        return round(value)
    # Bytes of file names that are not text are written as escapes.
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return value


def _role(view: RunView, key: str) -> str:
    """Return the place of a configuration in the answer; empty if it is not on a front."""
    if key == view.pick_key:
        return "pick" if view.decision.feasible else "least_bad"
    if key in view.device_picks:
        return "device_pick"
    if key in view.tie_keys:
        return "tie"
    return "front" if key in view.front_keys else ""


@cache
def make_answer_rows() -> Rows[tuple[RunView, Evaluation]]:
    """Return how evaluations of a run become rows; each comes with its run."""
    return Rows(tuple(map_columns()), _row)


AnswerRows: TypeAlias = "Selection[tuple[RunView, Evaluation]]"


@cache
def make_candidate_rows() -> Rows[Evaluation]:
    """Return how evaluations alone become rows."""
    return rows_of({name: path for name, path in map_columns().items() if path})


def choose_rows(
    view: RunView, evaluations: Sequence[Evaluation], selection: AnswerRows | None
) -> tuple[Evaluation, ...]:
    """Return the evaluations that are shown, in their order; all of them without a selection."""
    if selection is None:
        return tuple(evaluations)
    return tuple(evaluation for _, evaluation in selection.of([(view, row) for row in evaluations]))


def front_of(view: RunView) -> tuple[Evaluation, ...]:
    """Return the front, fastest first: that of the answer, then the rest of the fronts of single devices."""
    decisions = (view.decision, *view.by_device.values())
    on_front = {}
    for decision in decisions:
        for row in decision.front:
            on_front[row.configuration.key] = row
    return tuple(on_front.values())

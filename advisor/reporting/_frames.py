"""The evaluations of a run as rows: their columns, for pandas, files, ``--sort`` and ``--filter``.

``front.csv``, ``front.parquet`` and :meth:`advisor.Run.to_frame` have these columns
(:func:`map_columns`), so their names and order are a contract. The end of a name is its unit, and
sets the type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from advisor.core import METRICS, Evaluation, Metric
from advisor.reporting._row_selection import Rows, Selection
from advisor.store import ColumnType, build_frame, value_at

if TYPE_CHECKING:
    import pandas as pd

    from advisor.reporting._view import RunView


def _interval_columns(column: str, unit: str, path: str, *more: str) -> dict[str, str]:
    """Return the columns of a quantity and of the ends of its interval,
    and those of ``more`` of its attributes.
    """
    columns = {
        f"{column}_{unit}": f"{path}.value",
        f"{column}_low_{unit}": f"{path}.low",
        f"{column}_high_{unit}": f"{path}.high",
    }
    for attribute in more:
        columns[f"{column}_{attribute}"] = f"{path}.{attribute}"
    return columns


def _metric_columns(prefix: str, answers: str) -> dict[str, str]:
    """Return the columns of all metrics of a part of the images but top-1,
    which has columns of more figures.
    """
    columns = {}
    for name in METRICS:
        if name != Metric.TOP1:
            columns[f"{prefix}{name.replace('-', '_')}_percent"] = (
                f"{answers}.metrics.{name}.value"
            )
    return columns


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
        **{
            name: f"configuration.target.{name}"
            for name in ("device", "runtime", "accelerator", "threads")
        },
        **_interval_columns("top1", "percent", "accuracy", "provenance"),
        **_interval_columns("holdout_top1", "percent", "holdout_accuracy"),
        **_interval_columns("new_conditions_top1", "percent", "new_conditions", "provenance"),
        **_interval_columns("robust_top1", "percent", "capture.holdout"),
        "latency_median_ms": "latency.value",
        "latency_low_ms": "latency.low",
        "latency_high_ms": "latency.high",
        "latency_p90_ms": "latency_p90.value",
        "latency_provenance": "latency.provenance",
        "size_bytes": "size.value",
        "size_provenance": "size.provenance",
        "memory_bytes": "memory.value",
        "memory_provenance": "memory.provenance",
        **_interval_columns("drop", "points", "drop"),
        "meets_budget": "",
        "contended": "contended",
        "artefact": "artefact",
        "artefact_sha256": "artefact_sha256",
        "metric": "",
        **_metric_columns("", "answers"),
        **_metric_columns("holdout_", "holdout_answers"),
        "status": "status",
        "stage": "stage",
        "reason": "reason",
        "latency_budget_probability": "budget_probability",
        "unknown_auroc": "unknown.auroc.value",
        "unknown_found_share": "unknown.others.found.value",
        "unknown_kept_share": "unknown.kept.value",
    }


def evaluations_frame(view: RunView, evaluations: Sequence[Evaluation]) -> pd.DataFrame:
    """Return evaluations of a run as a table: one row each, units in the names of columns."""
    return build_frame(
        tuple(map_columns()), (_make_row((view, evaluation)) for evaluation in evaluations)
    )


def _make_row(item: tuple[RunView, Evaluation]) -> dict[str, object]:
    """Return the cells of an evaluation:
    those that only its run knows, and those that the evaluation itself has.
    """
    view, evaluation = item
    of_run = {
        "role": _name_role(view, evaluation.configuration.key),
        "metric": view.metric,
        "meets_budget": view.limits.met_by(evaluation),
    }
    cells: dict[str, object] = {}
    for column, path in map_columns().items():
        cells[column] = _read_cell(evaluation, column) if path else of_run[column]
    return cells


def _read_cell(evaluation: Evaluation, column: str) -> object:
    """Return what the attribute of a column holds, as files can hold it."""
    value = value_at(evaluation, map_columns()[column])
    if value is not None and ColumnType.of_column(column) == ColumnType.COUNT:
        return round(value)
    # Bytes of file names that are not text are written as escapes.
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return value


def _name_role(view: RunView, key: str) -> str:
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
    return Rows(tuple(map_columns()), _make_row)


AnswerRows: TypeAlias = "Selection[tuple[RunView, Evaluation]]"


@cache
def make_candidate_rows() -> Rows[Evaluation]:
    """Return how evaluations alone become rows."""
    return Rows.of_paths({name: path for name, path in map_columns().items() if path})


def choose_rows(
    view: RunView, evaluations: Sequence[Evaluation], selection: AnswerRows | None
) -> tuple[Evaluation, ...]:
    """Return the evaluations that are shown, in their order; all of them without a selection."""
    if selection is None:
        return tuple(evaluations)
    rows = [(view, evaluation) for evaluation in evaluations]
    return tuple(evaluation for _, evaluation in selection.of(rows))


def front_of(view: RunView) -> tuple[Evaluation, ...]:
    """Return the front, fastest first:
    that of the answer, then the rest of the fronts of single devices.
    """
    decisions = (view.decision, *view.by_device.values())
    on_front = {}
    for decision in decisions:
        for row in decision.front:
            on_front[row.configuration.key] = row
    return tuple(on_front.values())

"""Evaluations of a run as a table for pandas, for front.csv and for front.parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from advisor.core.evaluation import Evaluation
from advisor.core.metrics import METRICS, TOP1
from advisor.reporting.selection import Rows, Selection, rows_of
from advisor.store.jsonfile import COUNT, frame, type_of, value_at

if TYPE_CHECKING:
    import pandas as pd

    from advisor.reporting.view import RunView

COLUMNS: Mapping[str, str] = {
    "key": "configuration.key",
    "role": "",
    "card": "configuration.card",
    "family": "family",
    "training": "configuration.training",
    "compression": "configuration.compression",
    "device": "configuration.target.device",
    "runtime": "configuration.target.runtime",
    "accelerator": "configuration.target.accelerator",
    "threads": "configuration.target.threads",
    "top1_percent": "accuracy.value",
    "top1_low_percent": "accuracy.low",
    "top1_high_percent": "accuracy.high",
    "top1_provenance": "accuracy.provenance",
    "holdout_top1_percent": "holdout_accuracy.value",
    "holdout_top1_low_percent": "holdout_accuracy.low",
    "holdout_top1_high_percent": "holdout_accuracy.high",
    "new_conditions_top1_percent": "new_conditions.value",
    "new_conditions_top1_low_percent": "new_conditions.low",
    "new_conditions_top1_high_percent": "new_conditions.high",
    "new_conditions_top1_provenance": "new_conditions.provenance",
    "robust_top1_percent": "capture.holdout.value",
    "robust_top1_low_percent": "capture.holdout.low",
    "robust_top1_high_percent": "capture.holdout.high",
    "latency_median_ms": "latency.value",
    "latency_low_ms": "latency.low",
    "latency_high_ms": "latency.high",
    "latency_p90_ms": "latency_p90.value",
    "latency_provenance": "latency.provenance",
    "size_bytes": "size.value",
    "size_provenance": "size.provenance",
    "memory_bytes": "memory.value",
    "memory_provenance": "memory.provenance",
    "drop_points": "drop.value",
    "drop_low_points": "drop.low",
    "drop_high_points": "drop.high",
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
"""Columns, each with the attribute of an evaluation that it holds, or empty. The columns of top-1 hold the accuracy of
the run, which ``metric`` names."""


def evaluations_frame(view: RunView, evaluations: Sequence[Evaluation]) -> pd.DataFrame:
    """Return evaluations of a run as a table: one row each, the unit in the name of each column."""
    return frame(tuple(COLUMNS), (_row(view, each) for each in evaluations))


def _row(view: RunView, evaluation: Evaluation) -> dict[str, object]:
    return {name: _value(view, evaluation, name) for name in COLUMNS}


ANSWER: Rows[tuple[RunView, Evaluation]] = Rows(tuple(COLUMNS), lambda item: _row(*item))
"""Evaluations of a run, with the run."""

AnswerRows: TypeAlias = "Selection[tuple[RunView, Evaluation]]"

CANDIDATES = rows_of({name: path for name, path in COLUMNS.items() if path})
"""Evaluations alone."""


def chosen(view: RunView, evaluations: Sequence[Evaluation], selection: AnswerRows | None) -> tuple[Evaluation, ...]:
    """Return the evaluations that are shown, in their order; all of them without a selection."""
    if selection is None:
        return tuple(evaluations)
    return tuple(evaluation for _, evaluation in selection.of([(view, each) for each in evaluations]))


def front_frame(view: RunView) -> pd.DataFrame:
    """Return the front, fastest first: that of the answer, then the rest of the fronts of single devices."""
    decisions = (view.decision, *view.by_device.values())
    rows = {each.configuration.key: each for decision in decisions for each in decision.front}
    return evaluations_frame(view, tuple(rows.values()))


def _value(view: RunView, evaluation: Evaluation, column: str) -> object:
    if column == "role":
        return _role(view, evaluation.configuration.key)
    if column == "meets_budget":
        return view.budget.met_by(evaluation)
    if column == "metric":
        return view.metric
    value = value_at(evaluation, COLUMNS[column])
    if value is None:
        return None
    if type_of(column) == COUNT:
        return round(value)
    # Bytes of file names that are not text are written as escapes.
    return value.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(value, str) else value


def _role(view: RunView, key: str) -> str:
    """Return the place of a configuration in the answer; empty if it is not on a front."""
    if key == view.pick_key:
        return "pick" if view.decision.feasible else "least_bad"
    if key in view.device_picks:
        return "device_pick"
    if key in view.tie_keys:
        return "tie"
    fronts = (view.decision, *view.by_device.values())
    return "front" if any(key == each.configuration.key for own in fronts for each in own.front) else ""

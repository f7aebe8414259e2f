"""The section on what failed, was skipped, or was not reached, and the table of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.core import Evaluation, Status, plural
from advisor.engine import StageName
from advisor.reporting import _blocks as blocks, _text as text
from advisor.reporting._blocks import Span
from advisor.reporting._phrases import (
    ConfigurationCounts,
    count_configurations,
    leave_out_required,
)

if TYPE_CHECKING:
    from advisor.reporting._view import RunView

FAILURES_SHOWN = 500
"""Rows of the table at most; ``evaluations.jsonl`` has all."""


def list_failures(rows: Sequence[Evaluation], notes: Sequence[str] = ()) -> blocks.DataTable:
    """Return the table of evaluations without a result, each with its reason."""
    titles = ("configuration", "status", "stage", "reason")
    cells = []
    for row in rows:
        cells.append(
            (
                text.name(row),
                Span(_name_status(row), f"tag {row.status.value}"),
                row.stage,
                Span(row.reason, "name"),
            )
        )
    header = blocks.columns(*titles, left=titles)
    caption = "Configurations without a result"
    return blocks.DataTable(header, cells, caption, "stopped", notes=notes)


def _name_status(row: Evaluation) -> str:
    """Return how a configuration without a result ended,
    in the words of :class:`ConfigurationCounts`.
    """
    if row.stage == StageName.STOP:
        return "not reached"
    return row.status.value


def failure_blocks(view: RunView) -> list[blocks.Block]:
    """Return the section on what failed, was skipped, or has no weights; empty for nothing."""
    stopped = (*view.with_status(Status.FAILED), *view.with_status(Status.SKIPPED))
    without_weights = view.manifest.get("without_weights") or {}
    if not stopped and not without_weights:
        return []
    more = ""
    if stopped[FAILURES_SHOWN:]:
        more = f" The first {FAILURES_SHOWN} are listed; evaluations.jsonl has all."
    configurations = count_configurations(view)
    groups = []
    for count, how in (
        (configurations.failed, "failed"),
        (configurations.skipped, "were skipped"),
        (configurations.unreached, "were not reached"),
    ):
        if count:
            groups.append(f"{count} {how}")
    sentence = "Each configuration has a result."
    if groups:
        sentence = (
            f"Of {plural(configurations.planned, 'configuration')}, {', '.join(groups)}."
            f"{_name_rowless(view, configurations)} A failure does not stop the run.{more}"
        )
    shown: list[blocks.Block] = [
        blocks.Heading("Failures and skips", "failures"),
        blocks.Paragraph(sentence, "lead"),
    ]
    if stopped:
        shown.append(list_failures(stopped[:FAILURES_SHOWN]))
    if without_weights:
        models = plural(len(without_weights), "model was", "models were")
        reasons = blocks.Items([f"{card}: {reason}" for card, reason in without_weights.items()])
        shown.append(blocks.Group([reasons], f"{models} skipped: their weights are not here"))
    return shown


def _name_rowless(view: RunView, configurations: ConfigurationCounts) -> str:
    """Return how many of those that a search did not reach have no row, so that no table lists
    them; empty for none.
    """
    rowless = configurations.planned - len(leave_out_required(view).evaluations)
    if not rowless:
        return ""
    listed_rows = configurations.unreached - rowless
    if not listed_rows:
        return " Those that were not reached have no row in evaluations.jsonl."
    return (
        f" {rowless} of those that were not reached have no row in evaluations.jsonl; the other"
        f" {listed_rows} have one with the status skipped and the stage stop."
    )

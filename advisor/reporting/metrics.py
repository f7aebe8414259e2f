"""Every metric of the pick and the runner-up: the one that counts, and the others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.core.evaluation import Evaluation
from advisor.core.expectation import metric_on_parts
from advisor.core.metrics import LOG_LOSS, METRICS, WORST_GROUP, Metric
from advisor.core.quantity import Quantity
from advisor.reporting import text
from advisor.reporting.blocks import Block, DataTable, Heading, Paragraph, columns

if TYPE_CHECKING:
    from advisor.reporting.view import RunView


@dataclass(frozen=True)
class MetricRow:
    """A metric of two evaluations.

    Attributes:
        metric: its name and what it is.
        counts: it is the accuracy of this search.
        limit: the least value in %, None for none.
        pick: the figure of the pick, None if it is not known.
        runner_up: that of the runner-up.
        remark: what the pick's figure belongs to, or says in another unit; or empty.
    """

    metric: Metric
    counts: bool
    limit: float | None
    pick: Quantity | None
    runner_up: Quantity | None
    remark: str = ""


@dataclass(frozen=True)
class MetricTable:
    """The metrics of the pick and the runner-up on one part of the images.

    Attributes:
        part: ``hold-out`` or ``validation``.
        rows: the metric that counts first.
    """

    part: str
    rows: tuple[MetricRow, ...]


def metric_table(view: RunView) -> MetricTable | None:
    """Return the metrics of pick and runner-up, on the hold-out if both ran there; None without any."""
    pick, other = view.decision.pick, view.decision.runner_up
    known = [evaluation for evaluation in (pick, other) if evaluation is not None]
    if pick is None or not pick.answers.metrics:
        return None
    judged = all(each.holdout_answers and each.holdout_answers.metrics for each in known)

    def figure(evaluation: Evaluation | None, name: str) -> Quantity | None:
        return metric_on_parts(evaluation, name)[judged] if evaluation else None

    rows = [
        MetricRow(
            metric,
            metric == view.counted,
            view.budget.min_accuracy if metric == view.counted else dict(view.budget.min_metrics).get(name),
            own := figure(pick, name),
            figure(other, name),
            note(name, own),
        )
        for name, metric in METRICS.items()
        if figure(pick, name) or figure(other, name)
    ]
    return MetricTable("hold-out" if judged else "validation", tuple(sorted(rows, key=lambda row: not row.counts)))


def note(name: str, quantity: Quantity | None) -> str:
    """Return what a figure belongs to, or says in another unit; empty if there is nothing to say."""
    if quantity is None:
        return ""
    if name == LOG_LOSS:
        return f"log loss {-math.log(quantity.value / 100):.3f} nats"
    return text.plain(quantity.source) if name == WORST_GROUP else ""


def cells(row: MetricRow) -> tuple[str, str, str, str]:
    """Return the metric, the figures of pick and runner-up with their intervals, and a remark, as text."""
    marks = ", ".join(filter(None, ("counts" if row.counts else "", f"≥ {row.limit:g} %" if row.limit else "")))
    label = f"{row.metric.label} ({marks})" if marks else row.metric.label
    remark = "; ".join(filter(None, (row.metric.meaning, row.remark)))
    return label, text.with_interval(row.pick), text.with_interval(row.runner_up), remark


def metric_blocks(view: RunView) -> list[Block]:
    """Return the title of the table, what it shows, and the table; nothing without any metrics."""
    table, pick, other = metric_table(view), view.decision.pick, view.decision.runner_up
    if table is None or pick is None:
        return []
    both = f"{text.name(pick)} and the runner-up{f', {text.name(other)},' if other else ''}"
    ask = "" if view.other_metric else "; --metric asks for another one"
    said = f"Other ways to count right and wrong answers, of {both} on the {table.part}."
    own, named = "pick" if view.decision.feasible else "closest", ("metric", "what it is")
    return [
        Heading("Metrics", "metrics"),
        Paragraph(f"{said} Candidates are compared by {view.metric}{ask}.", "lead"),
        DataTable(
            columns("metric", own, "runner-up", "what it is", left=named),
            list(map(cells, table.rows)),
            "In %, with 95 % intervals; higher is better",
        ),
    ]

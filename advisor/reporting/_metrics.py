"""Every metric of the pick and the runner-up, as ``report.md`` and the page show them.

Names and meanings of metrics are those of ``METRICS``; the one that counts comes first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.core import METRICS, Evaluation, Metric, Quantity
from advisor.reporting import _blocks as blocks, _text as text
from advisor.reporting._blocks import Block

if TYPE_CHECKING:
    from advisor.reporting._view import RunView


def metric_blocks(view: RunView) -> list[Block]:
    """Return every metric of pick and runner-up, the one that counts first: on the hold-out if
    both ran on as many images there.

    There is a title, what the table shows, and the table; nothing without any metrics.
    """
    pick = view.decision.pick
    other = view.decision.runner_up
    if pick is None or not pick.answers.metrics:
        return []
    files = [pick] if other is None else [pick, other]
    judged = all(row.holdout_answers and row.holdout_answers.metrics for row in files)
    numbers = set[int | None]()
    for row in files:
        figure = row.holdout_accuracy
        numbers.add(figure.n if figure else None)
    # Figures of other numbers of images do not compare.
    judged = judged and len(numbers) == 1
    files_in_words = text.name(pick)
    if other is not None:
        files_in_words = f"{text.name(pick)} and the runner-up, {text.name(other)},"
    part = "hold-out" if judged else "validation"
    ask = "" if view.other_metric else "; --metric asks for another one"
    lead = (
        f"Other ways to count right and wrong answers, of {files_in_words} on the {part}."
        f" Candidates are compared by {view.metric}{ask}."
    )
    titles = ["pick" if view.decision.feasible else "closest"]
    if other is not None:
        titles.append("runner-up")
    header = blocks.columns("metric", *titles, "what it is", left=("metric", "what it is"))
    return [
        blocks.Heading("Metrics", "metrics"),
        blocks.Paragraph(lead, "lead"),
        blocks.DataTable(
            header,
            _list_metric_rows(view, files, judged),
            "In %, with 95 % intervals; higher is better",
        ),
    ]


def _list_metric_rows(
    view: RunView, files: Sequence[Evaluation], judged: bool
) -> list[tuple[str, ...]]:
    """Return the cells of each metric of which a figure is known; the one that counts is first."""
    first = []
    rows = []
    for name, metric in METRICS.items():
        quantities = []
        for row in files:
            on_validation, on_holdout = row.metric_on_parts(name)
            quantities.append(on_holdout if judged else on_validation)
        if not any(quantities):
            continue
        figures = map(text.with_interval, quantities)
        remark = "; ".join(filter(None, (metric.meaning, metric_note(name, quantities[0]))))
        cells = (_label_metric(view, metric), *figures, remark)
        if metric == view.counted:
            first.append(cells)
        else:
            rows.append(cells)
    return [*first, *rows]


def _label_metric(view: RunView, metric: Metric) -> str:
    """Return the label of a metric, and whether it counts or has a limit."""
    marks = []
    limit = dict(view.limits.min_metrics).get(metric.name)
    if metric == view.counted:
        marks.append("counts")
        limit = view.limits.min_accuracy
    if limit:
        marks.append(f"≥ {limit:g} %")
    return f"{metric.label} ({', '.join(marks)})" if marks else metric.label


def metric_note(name: str, quantity: Quantity | None) -> str:
    """Return what a figure belongs to, or its value in another unit; empty for nothing."""
    if quantity is None:
        return ""
    if name == Metric.LOG_LOSS:
        # The figure is exp(-log loss) in %,
        # so that higher is better as in other metrics (decision 0075).
        return f"log loss {-math.log(quantity.value / 100):.3f} nats"
    if name == Metric.WORST_GROUP:
        return text.plain(quantity.source)
    return ""

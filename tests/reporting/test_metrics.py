"""Metrics in the reports have their names everywhere; rows of a table, sorted and filtered."""

import csv
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from advisor.core import METRICS, Decision, Evaluation, Metric, Provenance, Quantity, UsageError
from advisor.reporting import RunView, print_answer, recommendation
from advisor.reporting._blocks import DataTable, Paragraph
from advisor.reporting._explanation import opening_lines
from advisor.reporting._figures import key_figures
from advisor.reporting._files import front_csv, render_markdown
from advisor.reporting._foundations import list_expectations, list_foundations
from advisor.reporting._html import render_html
from advisor.reporting._metrics import metric_blocks
from advisor.reporting._phrases import describe_limits
from advisor.reporting._risks import list_risks
from advisor.reporting._row_selection import Rows
from tests.builders import must_fail, present
from tests.reporting.views import HOSTILE, judged_view, run_view, with_pick
from tests.tables import read_table, with_cases

SHARES: Mapping[str, float] = {
    Metric.TOP1: 90.0,
    Metric.MACRO_F1: 80.0,
    Metric.LOG_LOSS: 60.0,
    Metric.WORST_GROUP: 70.0,
}
COLUMNS = ("name", "size_bytes", "latency_median_ms", "drop_points", "threads", "meets_budget")
ITEMS: list[dict[str, Any]] = read_table(__file__, "views.yaml")["items"]
ROWS: Rows[dict[str, Any]] = Rows(COLUMNS, lambda item: item)


def with_metrics(evaluation: Evaluation, metric: str, judged: bool) -> Evaluation:
    """Return an evaluation with every metric, one of which is its accuracy; on the hold-out 5 points less."""

    def known(less: float) -> dict[str, Quantity]:
        return {
            name: Quantity(
                value - less, "%", Provenance.MEASURED, value - less - 4, value - less + 4, 0.95, 100,
                f"group '{HOSTILE[0]}' (30 images)" if name == Metric.WORST_GROUP else "",
            )
            for name, value in SHARES.items()
        }  # fmt: skip

    if evaluation.accuracy is None:
        return evaluation
    found = replace(evaluation, accuracy=known(0)[metric], answers=replace(evaluation.answers, metrics=known(0)))
    if not judged:
        return found
    answers = replace(evaluation.holdout_answers or evaluation.answers, metrics=known(5))
    return replace(found, holdout_accuracy=known(5)[metric], holdout_answers=answers)


def metric_view(metric: str = Metric.MACRO_F1, view: RunView | None = None, **changes: object) -> RunView:
    """Return a run whose candidates were compared by a metric."""
    judged, view = view is None, view or judged_view()
    limits = replace(view.limits, **changes)
    rows = tuple(with_metrics(row, metric, judged) for row in view.evaluations)
    request = replace(view.request, question=replace(view.request.question, metric=metric))
    decision = Decision.of_evaluations(rows, limits)
    return replace(view, evaluations=rows, decision=decision, limits=limits, request=request)


def test_the_metric_that_counts_has_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    view = metric_view()
    assert (view.metric, view.task.heading) == ("macro F1", "Macro F1")
    assert key_figures(view, view.ok[0])[0].label.startswith("Macro F1")
    print_answer(view)
    assert "ranked by macro F1 on" in capsys.readouterr().out
    assert recommendation(view)["metric"] == "macro F1"
    assert "Right on 85 of 100 images like yours (95 %: 81 to 89). 75 % macro F1." in opening_lines(view)
    limited = dict(describe_limits(metric_view(min_accuracy=50.0, min_metrics=((Metric.WORST_GROUP, 60.0),))))
    assert (limited["macro F1"], limited["worst-group top-1"]) == ("≥ 50.0 %", "≥ 60.0 %")
    assert (judged_view().metric, judged_view().other_metric) == ("top-1", "")


def table_of(view: RunView) -> tuple[str, list[list[str]]]:
    """Return what is said of the metrics of the pick and the runner-up, and the rows of their table."""
    _, said, table = metric_blocks(view)
    assert isinstance(said, Paragraph)
    assert isinstance(table, DataTable)
    return str(said.words), [list(map(str, row)) for row in table.rows]


def test_the_table_has_the_metric_that_counts_first_on_the_hold_out_once_that_ran() -> None:
    said, rows = table_of(metric_view())
    assert " on the hold-out. " in said
    labels = [METRICS[name].label for name in (Metric.MACRO_F1, Metric.TOP1, Metric.LOG_LOSS, Metric.WORST_GROUP)]
    assert [row[0].removesuffix(" (counts)") for row in rows] == labels
    assert rows[0] == ["macro F1 (counts)", *["75.0 (71.0\u201379.0)"] * 2, METRICS[Metric.MACRO_F1].meaning]
    part = replace(present(present(metric_view().decision.pick).holdout_accuracy), n=166)
    on_fewer = with_pick(metric_view(), holdout_accuracy=part)
    assert " on the validation. " in table_of(on_fewer)[0], "the runner-up ran on more images"
    said, rows = table_of(metric_view(view=run_view()))
    assert " on the validation. " in said
    assert rows[0][1].startswith("80.0 (")
    assert metric_blocks(judged_view()) == []


def test_a_mean_probability_has_its_log_loss_and_the_worst_group_its_name() -> None:
    _, rows = table_of(metric_view(Metric.LOG_LOSS, min_metrics=((Metric.WORST_GROUP, 60.0),)))
    log_loss, *_, worst = rows
    assert log_loss[3].endswith("; log loss 0.598 nats")
    assert worst[0] == "worst-group top-1 (≥ 60 %)"
    assert "too low on average, by chance; group '" in worst[3]


def test_the_reports_have_the_table_and_no_name_breaks_them() -> None:
    view = metric_view(Metric.WORST_GROUP)
    page, said = render_html(view), render_markdown(view)
    assert 'id="metrics-title"' in page
    assert HOSTILE[0] not in page.replace("<script>\n", "")
    assert "| worst-group top-1 (counts) |" in said.replace("\\", "")


def test_the_estimate_for_new_conditions_is_named_top_1() -> None:
    view = metric_view()
    estimate = Quantity(40.0, "%", Provenance.ESTIMATED, 30.0, 50.0)
    pick = replace(view.ok[0], new_conditions=estimate)
    now, then = (text for _, text in list_expectations(view, pick))
    assert " % macro F1 (" in now
    remarks = " ".join(figure.remark for figure in key_figures(view, pick))
    assert "expect this on images of the same visits, cameras and days · " in remarks
    assert then.startswith("about 40 % top-1 (")
    assert any("about 40 % top-1 is expected" in each for each in list_foundations(view, pick))
    (risk,) = [each for each in list_risks(view, pick) if each.name == "New conditions"]
    assert risk.text.startswith("Expect about 40.0 % top-1 (95 %: 30.0")


def test_tables_for_programs_have_every_metric() -> None:
    view = metric_view()
    (row, *_) = csv.DictReader(front_csv(view).splitlines())
    assert (row["metric"], row["macro_f1_percent"], row["top5_percent"]) == ("macro F1", "80.0", "")
    document = json.loads(json.dumps(recommendation(view)))
    assert document["pick"]["details"]["metrics"][Metric.TOP1]["value"] == 90.0
    assert document["runner_up"]["details"]["holdout"]["metrics"][Metric.TOP1]["value"] == 85.0


def names(sort: str = "", *filters: str) -> str:
    """Return the initials of what is shown."""
    return "".join(item["name"][0] for item in ROWS.select(sort, filters).of(ITEMS))


@with_cases
def test_rows_are_sorted_with_missing_values_last(sort: str, shown: str) -> None:
    assert names(sort) == shown


@with_cases
def test_rows_pass_a_comparison_in_the_unit_of_its_column(condition: str, shown: str) -> None:
    assert names("", condition) == shown
    assert names("name", "size<5MB", "threads=1") == "g"  # every one of several


@with_cases
def test_a_bad_comparison_names_what_is_wrong(condition: str, message: str, hint: str) -> None:
    raised = must_fail(UsageError, "", ROWS.select, "", [condition])
    assert message in raised.message
    assert hint in raised.hint


def test_an_unknown_column_to_sort_by_names_the_nearest_and_all() -> None:
    raised = must_fail(UsageError, r"--sort: unknown column 'nam' \(did you mean 'name'\?\)", ROWS.select, "-size,nam")
    assert raised.hint == f"columns: {', '.join(COLUMNS)}"


def test_columns_hold_what_paths_lead_to() -> None:
    rows = Rows.of_paths({"name": "0.real", "first": "1.0", "size_bytes": "2.size"})
    assert rows.row((3 + 1j, ("one", "two"), {"size": 7})) == {"name": 3.0, "first": "one", "size_bytes": 7}
    assert rows.row((3 + 1j, (), None)) == {"name": 3.0, "first": None, "size_bytes": None}

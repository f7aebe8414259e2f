"""What a notebook shows."""

from __future__ import annotations

from html import unescape

from advisor.reporting.html import summary_html
from advisor.reporting.view import RunView
from tests.reporting.views import empty_view, few_view, run_view


def test_summary_holds_reason_table_and_path_of_the_report() -> None:
    view = run_view()
    summary = summary_html(view)

    assert view.decision.reason in unescape(summary)
    assert "<table>" in summary
    assert f"<code>{view.folder}/report.html</code>" in unescape(summary)
    assert "<script" not in summary


def test_high_risks_are_warnings() -> None:
    summary = unescape(summary_html(few_view()))
    assert "<b>Warning, missing classes:</b> 1 of 6 classes has no validation image: 'paper'." in summary


def test_names_are_escaped() -> None:
    assert "<img" not in summary_html(run_view(card_suffix="<img src=x>"))


def test_run_in_which_all_failed_says_so() -> None:
    assert "No candidate could be evaluated" in summary_html(empty_view())


def test_detectors_have_their_mean_average_precision_on_the_table(detectors: RunView) -> None:
    summary = summary_html(detectors)
    assert summary.count("mAP@0.5 %") == 1
    assert "top-1" not in summary
    assert summary_html(run_view()).count("top-1 %") == 1

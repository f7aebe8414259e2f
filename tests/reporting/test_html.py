"""The page as text: content, escaping, and a broken section."""

import base64
import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

from advisor.core import FileFeatures, ImageAnswers, Provenance, Relaxation, Status, TimingFacts, Traits
from advisor.reporting import RunView, _html as html, summary_html
from advisor.reporting._html import Section, list_sections, render_html
from tests.reporting import views
from tests.tables import with_cases


def without_scripts(page: str) -> str:
    return with_plain_spaces(re.sub(r"<script.*?</script>|<style>.*?</style>", "", page, flags=re.DOTALL))


def with_plain_spaces(page: str) -> str:
    """Return a page that may break a line between a figure and its unit, as other documents do."""
    return page.replace("\u00a0", " ").replace("&nbsp;", " ")


def test_a_figure_stays_beside_its_unit_and_no_option_breaks() -> None:
    page = render_html(replace(views.infeasible_view(), next_command="advisor report <one> --size-budget 9MB"))
    kept = 'advisor report &lt;one&gt; <span class="option">--size-budget</span> 9MB</code>'
    assert re.search(r"\d\u00a0%", page)
    assert kept in page


def embedded(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/gzip" id="run-data">(.*?)</script>', page, re.DOTALL)
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found.group(1))))
    return data


def answer_of(view: RunView) -> str:
    """Return the text of the page's first section."""
    return unescape(without_scripts(render_html(view))).split('id="explore"')[0]


def test_a_search_without_any_result_does_not_say_that_all_failed() -> None:
    page = unescape(without_scripts(render_html(views.running_view(0))))
    assert "No result yet" in page
    assert page.index("Search is running") < page.index('id="answer"')
    assert "could not be made" not in page
    assert "Nothing meets the budget" not in page
    assert "No candidate could be evaluated" not in page.split('<p class="why">')[0]


def test_an_answer_that_was_evaluated_again_says_so_and_claims_no_timing_and_no_command_of_the_search() -> None:
    pick = views.run_view().decision.pick
    predicted = views.with_pick(views.run_view(), latency=replace(pick.latency, provenance=Provenance.PREDICTED))
    facts = {"reevaluated": {"parent": "the-search", "device": "pixel-8"}, "command_line": ["advisor", "search", "--x"]}
    rows = tuple(row for row in predicted.evaluations if row.status is Status.OK)
    page = unescape(
        without_scripts(render_html(replace(predicted, manifest={**predicted.manifest, **facts}, evaluations=rows)))
    )
    texts = ("evaluates the files of the run the-search again, for pixel-8.", "Nothing was timed", "evaluated again")
    assert [words for words in texts if words not in page] == []
    assert ("To repeat this run" in page, "Time spent" in page, ", ." in page) == (False, False, False)
    assert "To repeat this run" in unescape(without_scripts(render_html(views.run_view())))


def test_pick_reason_figures_rule_and_a_looser_limit_lead_the_page() -> None:
    view = views.run_view()
    looser = Relaxation("latency", "35.0 ms", "38.0 ms", view.pick_key, "latency 35.0 ms -> 38.0 ms admits it")
    view = replace(view, decision=replace(view.decision, loosenings=(looser,)))
    answer = answer_of(view)
    assert view.decision.rule in answer
    assert "If the limit of latency is 38.0 ms" in answer
    answer, pick = answer_of(view), view.decision.pick
    flips = [flip.condition for flip in view.decision.flips]
    for said in (pick.configuration.card, view.decision.reason, f"{pick.accuracy.value:.1f} %", *flips):
        assert said in answer
    assert "measured on 451 images" in answer


def test_evaluations_without_room_in_the_table_are_in_the_data_of_the_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    count = len(views.run_view().evaluations)
    page = render_html(views.run_view())
    assert page.count("<tr data-i=") == count
    assert without_scripts(page).count("killed after 120 s") == 2 + 1  # rows, and the funnel's summary
    monkeypatch.setattr(html, "ROWS_SHOWN", 20)
    page = render_html(views.run_view())
    assert page.count("<tr data-i=") == 20
    drops = [row["q"][5] for row in embedded(page)["rows"] if row["compression"] == "float32"]
    assert len(embedded(page)["rows"]) == count  # float32 is the reference
    assert set(drops) == {None}


def test_a_class_without_an_image_has_no_recall_and_a_damaged_matrix_costs_only_its_section() -> None:
    shares = {name: None if name == "metal" else 0.9 for name in views.CLASSES}
    view = views.with_pick(views.run_view(), answers=ImageAnswers(per_class_recall=shares))
    page = without_scripts(render_html(view))
    assert page.count('<td class="n" colspan="3">no image</td>') == 1
    assert "Weakest of the classes with at least 10 images: <b><bdi>cardboard</bdi></b> with 90 %." in page
    page = without_scripts(
        render_html(views.with_pick(views.run_view(), answers=ImageAnswers(confusion=((1, 2), (3,)))))
    )
    assert "the confusion matrix is not 6 x 6" in page
    assert page.count("This section could not be made") == 1


@with_cases
def test_the_page_says_what_kind_of_answer_it_is(kind: str, options: dict[str, Any], texts: list[str]) -> None:
    view = getattr(views, kind)(**options)
    page = without_scripts(render_html(view))
    assert [text for text in texts if text not in unescape(page)] == []
    assert ('id="data"' in page) == (view.dataset is not None)


def test_not_a_number_does_not_break_the_data() -> None:
    view = views.run_view()
    broken = replace(view.evaluations[0], timing=TimingFacts(load_ms=float("nan"), first_ms=float("inf")))
    page = render_html(replace(view, evaluations=(broken, *view.evaluations[1:])))
    own, found = broken.configuration, embedded(page)["rows"]
    places = {(row["card"], row["compression"], row["threads"]): row for row in found}
    assert places[own.card, own.compression, own.target.threads]["x"][:2] == [None, None]


def test_a_report_counts_the_multiply_accumulates_of_the_file_whose_classes_differ_from_its_card() -> None:
    file = FileFeatures(383_900_000, 30, 224, 60, "int8", 5_000, {"CONV_2D": 50}, Traits())
    view = views.with_pick(views.run_view(), file_features=file)
    page = render_html(replace(view, evaluations=(view.decision.pick,)))
    assert embedded(page)["rows"][0]["x"][3] == file.macs
    assert "384 million multiply-accumulates" in page


def test_a_section_that_raises_or_has_no_template_becomes_a_card_and_the_report_survives() -> None:
    def broken(view: RunView) -> Mapping[str, Any]:
        raise ValueError("<no> such figure")

    sections = [replace(part, variables=broken) if part.id == "funnel" else part for part in list_sections()]
    sections.append(Section("no_such_template", "Missing", lambda view: {"view": view}))
    page = without_scripts(render_html(views.run_view(), sections))
    assert page.count("This section could not be made") == 2
    assert [words for words in ("ValueError: &lt;no&gt; such figure", 'id="method"') if words not in page] == []


def test_an_evaluation_more_adds_a_kilobyte_at_most() -> None:
    few, many = (len(render_html(views.run_view(repeats=repeats))) for repeats in (1, 8))
    assert many - few < 1000 * 7 * len(views.run_view().evaluations)


@with_cases
def test_detectors_have_boxes_and_average_precision_instead_of_recall(detectors: RunView, texts: list[str]) -> None:
    page = render_html(detectors)
    said = unescape(without_scripts(page))
    assert [text for text in texts if text not in said] == []
    assert not re.search("top-1|Recall", said, re.IGNORECASE)
    assert embedded(page)["metric"] == "mAP@0.5"


def test_summary_holds_reason_warnings_table_and_path_of_the_report() -> None:
    view = views.few_view()
    summary = with_plain_spaces(summary_html(view))
    for said in (
        view.decision.reason, "<table>", f"<code>{view.folder}/report.html</code>",
        "<b>Warning, missing classes:</b> 1 of 6 classes has no validation image: 'paper'.",
    ):  # fmt: skip
        assert said in unescape(summary)
    assert "<script" not in summary
    assert "<img" not in summary_html(views.run_view(card_suffix="<img src=x>"))
    assert "No candidate could be evaluated" in summary_html(views.empty_view())

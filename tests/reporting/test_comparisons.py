"""A comparison as text, Markdown and JSON with escaped names, and the pick in plain words."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.core import Guarantees, ImageAnswers, Provenance, Quantity, Shares
from advisor.engine import Comparison, Incumbent, Insights, LoadedRun
from advisor.reporting import RunView, print_answer, render_comparison
from advisor.reporting._blocks import default_console
from advisor.reporting._comparisons import SHOWN
from advisor.reporting._explanation import explain_pick
from advisor.reporting._files import recommendation_json, render_markdown
from advisor.reporting._html import render_html
from advisor.reporting._incumbents import LEARNT, incumbent_sentences
from advisor.reporting._phrases import shortlist, verdict
from advisor.reporting._risks import list_risks, list_warnings
from advisor.reporting._steps import next_steps
from tests.builders import evaluation, present
from tests.documents import problems
from tests.reporting import views
from tests.reporting.test_confidence import confident_view
from tests.run_folders import candidates, images, write_run


@pytest.fixture
def comparison(tmp_path: Path) -> Comparison:
    _, *others = candidates()
    slower = evaluation("best", "int8", accuracy=92, half_width=1, latency=60, size=6e6)
    one = write_run(tmp_path, dataset=images({"cat": 10}))
    two = write_run(tmp_path, [slower, *others], dataset=images({"cat": 12, **dict.fromkeys(views.HOSTILE, 3)}))
    return Comparison.of_runs(LoadedRun.load(one.path), LoadedRun.load(two.path))


def test_it_says_outcome_reason_and_cause_and_no_name_breaks_it(comparison: Comparison) -> None:
    for form in ("text", "markdown"):
        text = render_comparison(comparison, form)
        for said in ("changed", "latency of best int8 on 1 thread, measured: 20.0 ms"):
            assert said in text.replace("\\", "")
        assert "\u202e" not in text
        assert not any(line.startswith("new line") for line in text.splitlines())
    assert "<script>" not in render_comparison(comparison, "markdown")


def test_json_holds_every_figure_with_its_provenance(comparison: Comparison) -> None:
    document: Any = comparison.to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["recommends_otherwise"] is True
    moved = {(row["key"], row["figure"]): row for row in document["figures"]}
    latency = moved["best/head/int8@host:cpux1", "latency"]
    assert (latency["counts"], latency["worse"], latency["after"]["provenance"]) == (True, True, "measured")


def test_a_long_list_is_cut_and_says_so(comparison: Comparison) -> None:
    many = comparison.figures * SHOWN
    assert "more: --format json shows all" in render_comparison(replace(comparison, figures=many), "text")
    equal = [replace(row, delta=replace(row.delta, after=row.delta.before, counts=False)) for row in many]
    assert "within the noise" not in render_comparison(replace(comparison, figures=equal), "text")


def test_a_class_with_few_images_is_named_with_the_images_that_would_help() -> None:
    view, size = views.judged_view(), len(views.CLASSES)
    table = [[40 if row == column else 0 for column in range(size)] for row in range(size)]
    table[2] = [3, 1, 8, *[0] * (size - 3)]
    view = views.with_pick(view, holdout_answers=ImageAnswers({}, tuple(map(tuple, table))))
    said = explain_pick(view)
    more = 3 * view.dataset.images_per_class[views.CLASSES[2]]
    assert f"It is weakest on '{views.CLASSES[2]}': right on 8 of its 12 images on " in said
    (step,) = next_steps(view)
    assert (
        step.what
        == f"{more} more images of '{views.CLASSES[2]}', which halve the interval of this class; add them, then"
    )


def test_a_threshold_that_was_asked_for_is_explained_and_nothing_without_a_pick() -> None:
    said = explain_pick(confident_view(1.0, Guarantees(Shares(0.95))))
    assert (
        "at least 91 % sure: then 39 of the 40 answers that were judged are right, and 20 of 100 images go to a person."
        in said
    )
    assert "sure: then" not in explain_pick(confident_view(1.0))
    assert explain_pick(views.empty_view()) == explain_pick(views.infeasible_view()) == ""


@pytest.mark.parametrize(("origin", "connection", "topics"), [
    (Provenance.PREDICTED, {"host": "--adb usb"}, ["a measurement on this machine"]),
    (Provenance.MEASURED, {"host": "--adb usb"}, []), (Provenance.PREDICTED, {}, []),
])  # fmt: skip
def test_a_pick_whose_latency_is_predicted_is_measured_next_where_a_connection_reaches_the_device(
    origin: Provenance, connection: dict[str, str], topics: list[str]
) -> None:
    view = views.judged_view()
    latency = replace(view.decision.pick.latency, provenance=origin)
    view = replace(views.with_pick(view, latency=latency), manifest={**view.manifest, "connections": connection})
    steps = [step for step in next_steps(view) if "measurement" in step.topic]
    assert [step.topic for step in steps] == topics
    for step in steps:
        assert step.command == f"advisor reevaluate {view.folder} --device host --adb usb"


def test_a_measurement_waits_where_the_budget_is_met_with_near_certainty() -> None:
    view = views.judged_view()
    latency = replace(present(present(view.decision.pick).latency), provenance=Provenance.PREDICTED)
    more = {"connections": {"host": "--adb usb"}, "whole_networks": ["ssdlite"]}
    reached = replace(view, manifest={**view.manifest, **more})
    places = []
    for probability in (0.8, 0.999):
        steps = next_steps(views.with_pick(reached, latency=latency, budget_probability=probability))
        topics = [step.topic for step in steps]
        places.append(len(topics) - topics.index("a measurement on this machine"))
    assert places[1] == 1 < places[0]


def test_it_says_how_many_images_of_other_things_pass() -> None:
    said = "exported with --unknown-class, this happens to "
    assert f"{said}41 of 100 of your images of other things." in explain_pick(views.unknown_view())
    assert f"{said}about 74 of 100 such images." in explain_pick(views.unknown_view(others=None))
    assert f"{said}about 74 of 100 such images, or more." in explain_pick(
        views.unknown_view("finetune_top", others=None)
    )
    assert "--unknown-class" not in explain_pick(views.unknown_view(auroc=None, accepted=None, others=None))
    assert "--unknown-class" not in explain_pick(views.judged_view())


@pytest.fixture
def view() -> RunView:
    """A run whose pick is not what the user ships."""
    view = views.run_view()
    pick = view.decision.pick
    worst = min((row for row in view.ok if row != pick), key=lambda row: row.accuracy.value if row.accuracy else 0.0)
    facts, target = replace(worst.card_facts, as_it_is=True), pick.configuration.target
    row = replace(worst, card_facts=facts, configuration=replace(worst.configuration, card="shipped", target=target))
    points = Quantity(3.2, "points", Provenance.MEASURED, 1.0, 5.4, 0.95, 404, "validation")
    incumbent = Incumbent(row, False, points, "validation")
    return replace(view, evaluations=(*view.evaluations, row), insights=Insights(incumbents=(incumbent,)))


def test_switching_is_said_in_figures(view: RunView) -> None:
    (found,) = incumbent_sentences(view)
    assert found.startswith("shipped ")
    assert found.endswith(LEARNT)
    for said in ("Switching to the pick changes", "+3.2 points (95 %: 1.0", "on the same 404 images", "latency from"):
        assert said in found


def test_every_form_names_it(view: RunView, capsys: pytest.CaptureFixture[str]) -> None:
    assert "What you ship today" in render_html(view)
    assert "**What you ship today**" in render_markdown(view)
    print_answer(view, default_console())
    assert "What you ship today: shipped" in capsys.readouterr().out
    shipped = view.insights.incumbents[0].evaluation
    assert shipped in shortlist(view)
    assert verdict(view, shipped) == "shipped today"
    found = list_warnings(list_risks(view, shipped))
    assert "too high if it has learnt from your images" in " ".join(risk.text for risk in found)
    still = replace(view, insights=Insights(incumbents=(Incumbent(shipped, True),)))
    assert "is still the pick" in incumbent_sentences(still)[0]


def test_the_document_has_it_and_is_valid(view: RunView) -> None:
    document = json.loads(recommendation_json(view))
    assert problems("recommendation", document) == []
    (own,) = document["incumbents"]
    assert (own["picked"], own["switching_points"]["value"], own["switching_part"]) == (False, 3.2, "validation")
    assert own["evaluation"]["configuration"]["card"] == "shipped"

import re
from dataclasses import replace

import pytest

from advisor.core import (
    CaptureAccuracy,
    CardFacts,
    ConditionAccuracy,
    Evaluation,
    HeadFacts,
    ImageAnswers,
    Interval,
    Limits,
    OtherThings,
    Provenance,
    Quantity,
    Target,
)
from advisor.reporting import RunView
from advisor.reporting._explanation import opening_lines
from advisor.reporting._html import render_html
from advisor.reporting._risk import BUDGET, Level
from advisor.reporting._risks import list_risks, list_warnings, risks_of
from tests.builders import evaluation
from tests.reporting.views import CLASSES, judged_view, run_view, unknown_view, with_dataset
from tests.tables import with_cases

OTHERS = OtherThings(Interval(0.4, 0.3, 0.5), Interval(0.95, 0.9, 1.0), 60)
HEAD = HeadFacts("last_layer", 0.01, at_grid_end=False, cv_accuracy=0.8, cv_images=500)
DIFFER, RESEMBLE = "differ from the training images", "resemble the training images, or are easier by chance"


def level_of(name: str, row: Evaluation, limits: Limits | None = None) -> tuple[Level, str]:
    found = {risk.name: risk for risk in list_risks(run_view(limits=limits), row)}
    return found[name].level, found[name].text


@pytest.mark.parametrize(("chance", "level"), [(0.99, Level.LOW), (0.92, Level.SOME), (0.6, Level.HIGH)])
@pytest.mark.parametrize("provenance", [Provenance.PREDICTED, Provenance.PUBLISHED])
def test_a_prediction_is_as_risky_as_its_chance_says(chance: float, level: Level, provenance: Provenance) -> None:
    row = evaluation("one")
    row = replace(row, latency=replace(row.latency, provenance=provenance), budget_probability=chance)
    risk, text = level_of("Latency budget", row)
    assert risk is level
    assert f": {provenance}, not measured." in text


@pytest.mark.parametrize(("p90", "level"), [(20, Level.LOW), (48, Level.SOME), (60, Level.HIGH)])
def test_a_measured_latency_is_as_risky_as_what_is_left_of_the_limit(p90: float, level: Level) -> None:
    row = evaluation("one", p90=p90)
    there = replace(row, configuration=replace(row.configuration, target=Target("phone", "tflite", "cpu", 1)))
    assert level_of("Latency budget", there)[0] is level


@pytest.mark.parametrize(("drop", "level"), [(0.2, Level.LOW), (1.5, Level.SOME), (3.0, Level.HIGH)])
def test_what_compression_costs_or_gains(drop: float, level: Level) -> None:
    row = replace(evaluation("one", "int8"), drop=Quantity(drop, "points", Provenance.MEASURED, drop - 0.1, drop + 0.1))
    assert level_of("Compression", row)[0] is level
    risks = list_risks(run_view(), evaluation("one"))
    assert "Compression" not in [risk.name for risk in risks], "float32 loses nothing"
    row = replace(evaluation("one", "int8"), drop=Quantity(-1.7, "points", Provenance.MEASURED, -5.0, 0.0))
    assert "gains 1.7 points (95 %: 0.0–5.0)" in level_of("Compression", row)[1]
    for images, expected in ((60, (Level.SOME, "up to 6.0 points")), (400, (Level.LOW, "up to 1.0 points"))):
        risk = level_of("Compression", replace(row, drop=replace(row.drop, value=0.0, low=0.0, high=0.0, n=images)))
        assert (risk[0], expected[1] in risk[1]) == (expected[0], True)


def test_capture_conditions_name_the_worst() -> None:
    capture = CaptureAccuracy((ConditionAccuracy("blur", 1, 70.0), ConditionAccuracy("dark", 2, 58.0)))
    row = replace(evaluation("one", accuracy=80), capture=capture)
    level, text = level_of("Capture", row)
    assert level is Level.HIGH
    assert "(dark, strength 2), 58.0 % are right, 22.0 points less" in text
    assert text.endswith("A search with --objective robust-accuracy compares by such images, and trains with them.")
    table = render_html(judged_view()).partition('id="robustness"')[2].partition("</section>")[0]
    assert re.findall(r'<td class="n">([\d.]+)</td><td class="bar">', table) == ["14.0", "4.0"]


@with_cases
def test_no_better_than_a_guess_comes_before_another_device(accuracy: float, said: str, task: str, metric: str) -> None:
    question = replace(run_view().request.question, task=task, metric=metric)
    by_chance = {"mAP by chance": Quantity(22.0, "%", Provenance.MEASURED)}
    row = replace(evaluation("one", accuracy=accuracy, p90=20), answers=ImageAnswers({}, figures=by_chance))
    risk = risks_of(question, run_view().dataset, row)[0]
    assert (said in risk.text, risk.level) == (True, Level.SOME if said == "--device" else Level.HIGH)


@pytest.mark.parametrize(("licence", "level"), [("Apache-2.0", Level.LOW), ("AGPL-3.0", Level.HIGH), ("", Level.HIGH)])
def test_a_licence_that_is_not_permissive_is_a_risk(licence: str, level: Level) -> None:
    assert level_of("Licence", replace(evaluation("one"), card_facts=CardFacts(licence=licence)))[0] is level


@pytest.mark.parametrize(
    ("changes", "level", "said"),
    [
        ({}, Level.SOME, "AUROC 0.82, below 0.9."),
        ({"others": None}, Level.SOME, "AUROC 0.82, below 0.9."),
        ({"auroc": Interval(0.8966, 0.88, 0.91)}, Level.SOME, "AUROC 0.897, below 0.9."),
        ({"auroc": Interval(0.93, 0.9, 0.96)}, None, ""),
        ({"auroc": None, "accepted": None}, None, ""),
        ({"others": OTHERS}, Level.HIGH, "finds 40.0 (30.0\u201350.0) % of your 60 images"),
    ],
)
def test_unknown_images_that_pass_are_a_risk(changes: dict[str, object], level: Level | None, said: str) -> None:
    view = unknown_view(**changes)
    found = {risk.name: risk for risk in list_risks(view, view.decision.pick)}.get("Unknown")
    assert (found.level if found else None) is level
    if found:
        assert said in found.text
        assert found.text.endswith("export with --unknown-class, or raise the threshold with --min-precision.")


def validated(*counts: int) -> RunView:
    """Return a run whose classes have these numbers of validation images."""
    return with_dataset(run_view(), validated_per_class=dict(zip(CLASSES, counts, strict=True)))


def texts(view: RunView) -> dict[str, tuple[Level, str]]:
    return {risk.name: (risk.level, risk.text) for risk in list_risks(view, evaluation("one"))}


@with_cases
def test_few_or_no_validation_images_are_a_high_named_risk(counts: dict[str, int], name: str, said: str) -> None:
    level, text = texts(with_dataset(run_view(), validated_per_class=counts))[name]
    assert (level, text.startswith(said)) == (Level.HIGH, True), text
    for enough in (validated(10, 10, 11, 12, 40, 10), run_view()):  # none is known of the latter
        assert name not in texts(enough)


def test_capture_conditions_are_a_risk_of_tasks_that_are_judged_under_them(judged_detectors: RunView) -> None:
    request = judged_detectors.request
    other = replace(request, question=replace(request.question, task="anomaly"))
    anomalies = replace(judged_detectors, request=other)
    for view, captured in ((run_view(), True), (judged_detectors, True), (anomalies, False)):
        assert ("Capture" in {risk.name for risk in list_risks(view, evaluation("one"))}) is captured


def test_high_risks_are_warnings_but_a_limit_that_the_answer_names_already_is_none() -> None:
    view = validated(0, 30, 30, 30, 30, 30)
    found = list_risks(view, replace(evaluation("one", latency=60), card_facts=CardFacts(licence="Apache-2.0")))
    assert {risk.name for risk in found if risk.level is Level.HIGH} == {BUDGET, "Missing classes"}
    assert [risk.name for risk in list_warnings(found)] == ["Missing classes"]


@with_cases
def test_classes_with_few_groups_are_a_high_risk_that_names_the_worst(groups: dict[str, int], text: str) -> None:
    level, said = texts(with_dataset(run_view(), groups_per_class=groups))["Few groups"]
    assert level is Level.HIGH
    assert said.startswith(text)
    assert "Few groups" not in texts(run_view())


def names(row: Evaluation) -> set[str]:
    return {risk.name for risk in list_risks(run_view(), row)}


def crossed(share: float, drop: float = 0.0) -> Evaluation:
    """Return an evaluation of 80 % (76-84) with this cross-validation of its head."""
    row = evaluation("one", accuracy=80, half_width=4, drop=drop)
    return replace(row, head=replace(HEAD, cv_accuracy=share))


@pytest.mark.parametrize(("share", "drop"), [(0.76, 0), (0.80, 0), (0.84, 0), (0.9, 10)])
def test_cross_validation_within_the_interval_of_validation_and_the_loss_is_no_risk(share: float, drop: float) -> None:
    assert "Cross-validation" not in names(crossed(share, drop))


@pytest.mark.parametrize(("share", "why"), [(0.98, DIFFER), (0.9, DIFFER), (0.6, RESEMBLE)])
def test_cross_validation_beyond_the_interval_is_a_high_risk_with_both_figures(share: float, why: str) -> None:
    level, text = level_of("Cross-validation", crossed(share))
    assert level is Level.HIGH
    assert text.startswith(f"{100 * share:.1f} % on the training part, 80.0 % on validation: validation images {why}.")


@pytest.mark.parametrize(("judged", "level"), [(74.0, Level.HIGH), (75.0, None), (85.0, None), (86.0, Level.SOME)])
def test_a_hold_out_that_differs_from_validation_beyond_chance_is_a_risk(judged: float, level: Level | None) -> None:
    row = evaluation("one", accuracy=80, half_width=4)
    held = Quantity(judged, "%", Provenance.MEASURED, judged - 4 * 2**0.5, judged + 4 * 2**0.5, error=2.0)
    found = {risk.name: risk for risk in list_risks(run_view(), replace(row, holdout_accuracy=held))}
    assert (found["Validation"].level if "Validation" in found else None) == level
    if level is Level.HIGH:
        assert "6.0 points apart, where chance explains 5.7. Expect the figure of the" in found["Validation"].text


def test_new_conditions_below_the_interval_of_the_hold_out_are_a_high_risk() -> None:
    judged = Quantity(90.0, "%", Provenance.MEASURED, 85.0, 94.0)
    row = replace(evaluation("one"), holdout_accuracy=judged)
    estimate = Quantity(62.0, "%", Provenance.ESTIMATED, 50.0, 74.0)
    level, text = level_of("New conditions", replace(row, new_conditions=estimate))
    assert level is Level.HIGH
    assert text.startswith("Expect about 62.0 % (95 %: 50.0")
    assert text.endswith("another place or day; 90.0 % holds where images come from the places and days of yours.")
    assert "New conditions" not in names(replace(row, new_conditions=replace(estimate, value=86.0)))


def test_a_low_cross_validation_proves_nothing_where_classes_have_few_groups() -> None:
    grouped = with_dataset(run_view(), groups_per_class={"cat": 1, "dog": 5})
    assert "Cross-validation" not in {risk.name for risk in list_risks(grouped, crossed(0.6))}
    assert "Cross-validation" in {risk.name for risk in list_risks(grouped, crossed(0.98))}


def test_regularization_at_the_end_of_its_values_is_a_high_risk() -> None:
    row = replace(evaluation("one"), head=replace(HEAD, at_grid_end=True))
    assert level_of("Regularization", row)[0] is Level.HIGH
    assert "C = 0.01 of the head" in level_of("Regularization", row)[1]
    assert "Regularization" not in names(crossed(0.8))


def test_images_that_judge_nothing_as_copies_are_learnt_from_are_a_warning_and_stand_beside_the_accuracy() -> None:
    view = with_dataset(run_view(), copies={"validation": 2, "holdout": 18}, validation=38, holdout=36)
    said = "2 of 40 images of validation and 18 of 54 images of the hold-out copy images that are learnt from. "
    assert [risk.text.startswith(said) for risk in list_warnings(list_risks(view, evaluation("one")))][:1] == [True]
    assert said in next(line for line in opening_lines(view) if line.startswith("Right on"))


def test_leaks_that_older_runs_judged_on_are_a_warning() -> None:
    view = with_dataset(run_view(), leaks=3)
    (found,) = (risk for risk in list_warnings(list_risks(view, evaluation("one"))) if risk.name == "Leaks")
    assert found.text.startswith("3 images or groups are in several parts of your own split")

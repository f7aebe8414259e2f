"""What the answer says of the accuracy to expect, and of how sure the pick is."""

from __future__ import annotations

from dataclasses import replace

from advisor.core.box_facts import BoxFacts
from advisor.core.evaluation import Configuration, Evaluation, Status, Target
from advisor.core.evaluation_facts import ImageAnswers
from advisor.core.quantity import Provenance, Quantity
from advisor.reporting.figures import certainty, expectations, key_figures
from tests.reporting.views import infeasible_view, run_view

HELD = Quantity(90.7, "%", Provenance.MEASURED, 85.3, 94.3, 0.95, 162, "hold-out")
ESTIMATE = Quantity(62.4, "%", Provenance.ESTIMATED, 45.2, 75.9, 0.95, 648, "clusters")
PICK = Evaluation(
    Configuration("net", "head", "int8", Target("host", "litert", "cpu", 1)),
    Status.OK, accuracy=replace(HELD, value=92.0, n=130), holdout_accuracy=HELD, new_conditions=ESTIMATE,
)  # fmt: skip


def test_the_holdout_is_for_images_like_these_and_the_estimate_for_new_conditions() -> None:
    assert expectations(PICK) == (
        ("On images like these", "90.7 % (85.3\u201394.3), measured on 162 images of the hold-out"),
        ("In new conditions", "about 62 % (45\u201376), estimated for another visit, camera or day"),
    )


def test_a_candidate_that_is_no_finalist_has_the_figure_of_validation() -> None:
    (_, plain), _ = expectations(replace(PICK, holdout_accuracy=None))
    assert plain.endswith("measured on 130 images of the validation part")


def test_nothing_is_estimated_beside_the_users_own_holdout() -> None:
    (only,) = expectations(replace(PICK, new_conditions=replace(HELD, source="own split")))
    assert only[0] == "On images like your hold-out"


def test_without_an_estimate_nothing_is_said() -> None:
    assert expectations(replace(PICK, new_conditions=None)) == ()


def test_the_files_that_resampled_figures_pick_instead_are_named_with_their_shares() -> None:
    view = run_view()
    pick, first, *others = (e.configuration for e in view.ok if e.configuration.target.threads == 2)
    rest = dict.fromkeys((other.key for other in others[:4]), 0.05)
    chances = {first.key: 0.5, pick.key: 0.3, **rest}
    picked = replace(view.decision, pick=view.ok[1], chances=chances)
    assert view.ok[1].configuration == pick
    said = certainty(replace(view, decision=picked))
    assert "With the validation images and timings drawn again, the pick stays in 30 % of the draws" in said
    assert f"otherwise it is {first.card} {first.variant_name} (50 %), " in said
    assert said.endswith(", 2 others (10 %).")


def test_nothing_is_said_of_certainty_where_nothing_meets_the_budget() -> None:
    assert certainty(infeasible_view()) == ""


def test_detectors_have_the_main_figure_of_coco() -> None:
    chosen, judged = (
        ImageAnswers(boxes=boxes)
        for boxes in (BoxFacts(0.4, 0.6, {}, coco_interval=(0.55, 0.641)), BoxFacts(0.4, 0.5, {}))
    )
    validated, main = replace(PICK, answers=chosen), "COCO's main figure"
    for evaluation, label, value, remark in (
        (validated, "mAP@0.5:0.95 on validation", "60.0 %", f"95 %: 55.0\u201364.1 \u00b7 {main}"),
        (replace(validated, holdout_answers=judged), "mAP@0.5:0.95 on the hold-out", "50.0 %", main),
    ):
        (found,) = (figure for figure in key_figures(run_view(), evaluation) if figure.label == label)
        assert found.value == value
        assert found.remark.startswith(remark)
    assert not any("0.95" in figure.label for figure in key_figures(run_view(), PICK))

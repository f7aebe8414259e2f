"""The pick in plain words, from the figures of the run."""

from __future__ import annotations

from dataclasses import replace

from advisor.core.evaluation_facts import ImageAnswers
from advisor.core.guarantees import Guarantees, Shares
from advisor.reporting.explanation import explanation
from advisor.reporting.view import RunView
from tests.reporting.test_confidence import confident_view
from tests.reporting.views import empty_view, infeasible_view, judged_view, run_view, unknown_view


def test_it_says_what_the_pick_gives_and_takes() -> None:
    view = judged_view()
    pick = view.decision.pick
    assert pick is not None
    assert pick.holdout_accuracy is not None
    said = explanation(view)
    assert f"right in {pick.holdout_accuracy.value:.0f} (" in said
    assert " for an image on host" in said
    assert " in the app" in said


def test_a_class_with_few_images_is_named_with_the_images_that_would_help() -> None:
    view = judged_view()
    pick, dataset = view.decision.pick, view.dataset
    assert pick is not None
    assert dataset is not None
    size = len(dataset.classes)
    sure = [[40 if row == column else 0 for column in range(size)] for row in range(size)]
    sure[2] = [2 if column == 2 else 1 if column < 2 else 0 for column in range(size)]
    table = tuple(map(tuple, sure))
    answers = ImageAnswers({}, table)
    own = replace(pick, holdout_answers=answers)
    said = explanation(replace(view, decision=replace(view.decision, pick=own)))
    name = dataset.classes[2]
    assert f"It is weakest on '{name}': 50 of 100 of its images are right." in said
    assert f"{3 * dataset.images_per_class[name]} more images of '{name}' would halve its interval." in said


def test_a_threshold_that_was_asked_for_is_explained() -> None:
    said = explanation(confident_view(1.0, Guarantees(Shares(0.95))))
    assert "at least 91 % sure: then 97 of 100 answers are right, and 20 of 100 images go to a person." in said
    assert "sure: then" not in explanation(confident_view(1.0))


def test_without_images_nothing_is_claimed_of_them() -> None:
    assert "On your images nobody knows yet." in explanation(run_view(data=False))


def test_a_detector_has_its_own_figure(judged_detectors: RunView) -> None:
    assert "% mAP@0.5." in explanation(judged_detectors)


def test_it_says_how_many_images_of_other_things_pass() -> None:
    said = "exported with --unknown-class, this happens to "
    assert f"{said}41 of 100 of your images of other things." in explanation(unknown_view())
    assert f"{said}74 of 100 such images." in explanation(unknown_view(others=None))
    assert f"{said}at least 74 of 100 such images." in explanation(unknown_view("finetune_top", others=None))
    assert "--unknown-class" not in explanation(unknown_view(auroc=None, accepted=None, others=None))
    assert "--unknown-class" not in explanation(judged_view())


def test_without_a_pick_within_the_limits_there_is_nothing_to_explain() -> None:
    assert explanation(empty_view()) == ""
    assert explanation(infeasible_view()) == ""

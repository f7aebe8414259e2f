"""Answers of candidates on each image, by which accuracies are compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import ImageAnswers
from advisor.core.posterior import Posterior
from advisor.engine.decide import answers_on_images, compared_images, correct_answers
from advisor.store import RunFolder
from tests.builders import evaluation

LABELS = ["a", "b", "b", "a"]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path, "x")
    rows = [{"class": name, "sha256": str(place)} for place, name in enumerate(LABELS)]
    folder.write_json("split.json", {"classes": ["a", "b"], "validation": rows})
    return folder


def _answered(run: RunFolder, card: str, answers: list[int]) -> Evaluation:
    return replace(evaluation(card), answers=ImageAnswers(file=run.keep_answers(card, answers)))


def test_an_image_is_answered_correctly_or_not(run: RunFolder) -> None:
    assert correct_answers(run, _answered(run, "one", [0, 1, 0, 0])) == (1.0, 1.0, 0.0, 1.0)


def test_under_capture_conditions_it_is_a_share_of_the_conditions(run: RunFolder) -> None:
    found = _answered(run, "one", [0, 1, 0, 0])
    np.save(run.path / found.answers.file, np.array([[0, 1, 1, 0], [0, 1, 0, 1]]))
    assert correct_answers(run, found) == (1.0, 1.0, 0.5, 0.5)


def test_answers_on_another_number_of_images_are_not_known(run: RunFolder) -> None:
    assert correct_answers(run, _answered(run, "one", [0, 1, 0])) is None


def _shared(run: RunFolder, card: str, shares: list[float]) -> Evaluation:
    return replace(evaluation(card), answers=ImageAnswers(file=run.keep_answers(card, shares)))


def test_of_a_detector_it_is_the_share_in_the_precision_as_it_was_kept(run: RunFolder) -> None:
    shares = [1.5, -0.25, 0.75, 1.0]
    assert correct_answers(run, _shared(run, "one", shares)) == tuple(shares)


@pytest.mark.parametrize(
    "shares",
    [[1.0, float("nan"), 1.0, 1.0], [1.0, float("inf"), 1.0, 1.0], [1.0, -1e9, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0] * 5],
    ids=["no number", "infinite", "huge", "too few", "too many"],
)
def test_shares_that_cannot_be_right_are_not_known(run: RunFolder, shares: list[float]) -> None:
    assert correct_answers(run, _shared(run, "one", shares)) is None


def test_shares_of_another_type_or_shape_are_not_known(run: RunFolder) -> None:
    found = _shared(run, "one", [1.0] * 4)
    for damaged in (np.ones(4), np.ones((1, 4), np.float32), np.ones(4, bool)):
        np.save(run.path / found.answers.file, damaged)
        assert correct_answers(run, found) is None


def test_detectors_are_compared_image_by_image_by_their_shares(run: RunFolder) -> None:
    first = replace(_shared(run, "one", [1.0, 1.0, 0.5, 0.9]), accuracy=evaluation(accuracy=85).accuracy)
    second = replace(_shared(run, "two", [0.5, 0.5, 0.0, 0.4]), accuracy=evaluation(accuracy=35).accuracy)
    points, errors = Posterior([first, second], answers_on_images(run)).differences([second], [first])
    apart = Posterior([first, second]).differences([second], [first])
    assert points[0, 0] == pytest.approx(50.0) == apart[0][0, 0]
    assert errors[0, 0] != apart[1][0, 0]


def test_without_a_file_nothing_is_known(run: RunFolder) -> None:
    assert correct_answers(run, evaluation("one")) is None


def test_the_compared_images_are_the_validation_part_in_its_order(run: RunFolder) -> None:
    assert compared_images(run) == ("0", "1", "2", "3")


@pytest.mark.parametrize("split", [{}, {"validation": "damaged"}, {"validation": [1, 2]}])
def test_a_damaged_split_names_no_images(tmp_path: Path, split: dict[str, object]) -> None:
    folder = RunFolder.create(tmp_path, "x")
    folder.write_json("split.json", split)
    assert compared_images(folder) == ()
    assert correct_answers(folder, _answered(folder, "one", [0, 1])) is None


def test_the_answers_decide_about_ties_whatever_the_intervals(run: RunFolder) -> None:
    first, second = _answered(run, "one", [0, 1, 0, 0]), _answered(run, "two", [0, 1, 0, 0])
    assert first.accuracy is not None
    same = replace(second, accuracy=replace(first.accuracy, low=79.9, high=80.1))
    assert Posterior([first, same], answers_on_images(run)).tied(first, [same]) == [True]
    error, as_certain = (
        Posterior([first, other], answers_on_images(run)).differences([first], [other])[1] for other in (same, second)
    )
    assert error == as_certain > 0  # four equal answers prove no equal accuracy


def test_without_answers_the_intervals_tell() -> None:
    first = evaluation("one", accuracy=80, half_width=1)
    near, far = evaluation("two", accuracy=79, half_width=1), evaluation("three", accuracy=70, half_width=1)
    posterior = Posterior([first, near, far], answers_on_images(RunFolder(Path("none"))))
    assert posterior.tied(first, [near, far]) == [True, False]

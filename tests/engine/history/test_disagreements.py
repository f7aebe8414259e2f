"""Images on which the pick and its float32 file disagree, from the answers that a run keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.core.confidence_facts import ConfidenceFacts, Mistake
from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import ImageAnswers
from advisor.core.statistics import Interval
from advisor.engine.history.disagreements import disagreements
from advisor.store import RunFolder
from tests.builders import evaluation, present

CARD = "mobilenet_v2_1.0_224"
LABELS = "abba"


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run with the same four images in its validation part and its hold-out."""
    folder = RunFolder.create(tmp_path, "x")
    rows = [{"class": name, "sha256": f"{place}" * 64, "path": f"{place}.jpg"} for place, name in enumerate(LABELS)]
    folder.write_json("split.json", {"classes": ["a", "b"], "validation": rows, "holdout": rows})
    return folder


def answered(run: RunFolder, form: str, answers: list[int], card: str = CARD) -> Evaluation:
    """Return a file that gave these answers on validation."""
    file = run.keep_answers(f"{card}-{form}", answers)
    return replace(evaluation(card, form), answers=ImageAnswers(file=file))


def held_out(run: RunFolder, judged: Evaluation, answers: list[int], *mistakes: Mistake) -> Evaluation:
    """Return a file that gave these answers on the hold-out too."""
    file = run.keep_answers(f"holdout-{judged.configuration.compression}", answers)
    none = Interval(0.0, 0.0, 0.0)
    confidence = ConfidenceFacts(1.0, none, none, none, none, mistakes=mistakes)
    return replace(judged, holdout_answers=ImageAnswers(file=file, confidence=confidence))


def test_what_only_float32_answers_right_comes_first_and_what_both_do_is_left_out(run: RunFolder) -> None:
    pick, floats = answered(run, "int8", [0, 1, 0, 1]), answered(run, "float32", [1, 1, 1, 2])
    found = present(disagreements(run, [pick, floats], pick))
    assert [(row.path, row.label, row.own.label, row.floats.label) for row in found.rows] == [
        ("2.jpg", 1, 0, 1),
        ("0.jpg", 0, 0, 1),
        ("3.jpg", 0, 1, 2),
    ]
    assert found.sentence == (
        "int8 and float32 differ on 3 of 4 validation images: int8 is right on 1 of them, float32 on 1."
    )


def test_files_that_agree_say_so(run: RunFolder) -> None:
    pick, floats = answered(run, "int8", [0, 1, 0, 1]), answered(run, "float32", [0, 1, 0, 1])
    found = present(disagreements(run, [pick, floats], pick))
    assert found.sentence == "int8 and float32 give the same answer on each of 4 validation images."


def test_the_hold_out_decides_where_both_ran_there(run: RunFolder) -> None:
    pick, floats = answered(run, "int8", [0, 1, 0, 1]), answered(run, "float32", [1, 1, 1, 2])
    pick, judged = held_out(run, pick, [0, 1, 1, 1]), held_out(run, floats, [0, 1, 1, 0])
    both, one = disagreements(run, [pick, judged], pick), disagreements(run, [pick, floats], pick)
    assert both is not None
    assert (both.part, [row.path for row in both.rows]) == ("hold-out", ["3.jpg"])
    assert one is not None
    assert one.part == "validation"


def test_probabilities_are_those_of_the_mistakes_that_are_kept(run: RunFolder) -> None:
    mistake = Mistake("3.jpg", "3" * 64, 0, 1, 0.9)
    pick = held_out(run, answered(run, "int8", [0, 1, 1, 0]), [0, 1, 1, 1], mistake)
    found = present(disagreements(run, [held_out(run, answered(run, "float32", [0, 1, 1, 0]), [0, 1, 1, 0])], pick))
    assert [(row.own.probability, row.floats.probability) for row in found.rows] == [(0.9, None)]


def test_a_float32_pick_and_a_pick_alone_have_none(run: RunFolder) -> None:
    floats, other = answered(run, "float32", [1, 1, 1, 0]), answered(run, "float32", [1, 1, 1, 0], "another")
    assert disagreements(run, [floats], floats) is None
    assert disagreements(run, [other], answered(run, "int8", [0, 1, 0, 1])) is None
    assert disagreements(run, [floats], None) is None


@pytest.mark.parametrize(
    "kept",
    [np.ones(4, np.float32), np.zeros((2, 4), np.int32), np.zeros(3, np.int32)],
    ids=["shares", "conditions", "other images"],
)
def test_where_no_labels_of_these_images_are_kept_there_are_none(run: RunFolder, kept: np.ndarray) -> None:
    pick, floats = answered(run, "int8", [0, 1, 0, 1]), answered(run, "float32", [1, 1, 1, 0])
    np.save(run.path / floats.answers.file, kept)
    assert disagreements(run, [pick, floats], pick) is None


def test_without_the_split_there_are_none(run: RunFolder) -> None:
    pick, floats = answered(run, "int8", [0, 1, 0, 1]), answered(run, "float32", [1, 1, 1, 0])
    run.write_json("split.json", {"classes": ["a"]})
    assert disagreements(run, [pick, floats], pick) is None

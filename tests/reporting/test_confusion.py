"""Confusion matrices of the pick and the runner-up, and where they differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import ImageAnswers
from advisor.reporting.classes import DIFFERENCES, HEATMAP_CLASSES, PairDifference, confusions
from tests.builders import evaluation

LABELS = ("cat", "dog", "owl")
PICK = ((8, 2, 0), (1, 9, 0), (5, 0, 5))
RUNNER_UP = ((8, 0, 2), (1, 9, 0), (1, 1, 8))


def judged(
    validation: tuple[tuple[int, ...], ...] | None = None, holdout: tuple[tuple[int, ...], ...] | None = None
) -> Evaluation:
    """Return a file with these matrices."""
    on_holdout = ImageAnswers(confusion=holdout) if holdout else None
    return replace(evaluation("one"), answers=ImageAnswers(confusion=validation), holdout_answers=on_holdout)


def test_counts_of_the_runner_up_are_compared_with_those_of_the_pick() -> None:
    found = confusions(judged(PICK), judged(RUNNER_UP), LABELS)
    assert found is not None
    assert found.pick is not None
    assert found.runner_up is not None
    assert (found.pick.counts, found.runner_up.counts) == (PICK, RUNNER_UP)
    assert found.changes == ((0, -2, 2), (0, 0, 0), (-4, 1, 3))
    assert found.sentence == "Of 30 validation images, the pick answers 8 wrongly, and the runner-up 5."


def test_wrong_answers_that_differ_most_are_first_and_a_single_image_is_left_out() -> None:
    found = confusions(judged(PICK), judged(RUNNER_UP), LABELS)
    assert found is not None
    assert found.pairs == (
        PairDifference("owl", "cat", 5, 1),
        PairDifference("cat", "dog", 2, 0),
        PairDifference("cat", "owl", 0, 2),
    )


def test_the_hold_out_counts_where_both_ran_there() -> None:
    both = confusions(judged(PICK, RUNNER_UP), judged(PICK, PICK), LABELS)
    one = confusions(judged(PICK, RUNNER_UP), judged(PICK), LABELS)
    assert both is not None
    assert one is not None
    assert (both.part, one.part) == ("hold-out", "validation")


def test_matrices_of_other_images_are_not_compared() -> None:
    found = confusions(judged(PICK), judged(((1, 0, 0),) * 3), LABELS)
    assert found is not None
    assert (found.runner_up, found.wrong, found.sentence) == (None, (8,), "")


def test_without_a_runner_up_there_is_the_matrix_of_the_pick_on_the_hold_out() -> None:
    found = confusions(judged(PICK, RUNNER_UP), None, LABELS)
    assert found is not None
    assert found.pick is not None
    assert (found.part, found.pick.counts, found.runner_up) == ("hold-out", RUNNER_UP, None)
    assert confusions(judged(), judged(PICK), LABELS) is None


def test_many_classes_have_no_matrix_but_still_their_differences() -> None:
    size = HEATMAP_CLASSES + 1
    pick = tuple(tuple(9 if row == column else 3 for column in range(size)) for row in range(size))
    other = tuple(tuple(row[1:] + row[:1]) for row in pick)
    found = confusions(judged(pick), judged(other), tuple(map(str, range(size))))
    assert found is not None
    assert (found.pick, found.runner_up, len(found.pairs)) == (None, None, DIFFERENCES)


def test_a_damaged_matrix_is_refused() -> None:
    with pytest.raises(UsageError, match="not 3 x 3"):
        confusions(judged(PICK), judged(((1, 0), (0, 1))), LABELS)

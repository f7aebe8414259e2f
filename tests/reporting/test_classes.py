"""Recall and confusion of single classes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.core.box_facts import BoxFacts, ClassBoxes
from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import ImageAnswers
from advisor.reporting.classes import (
    DIFFERENCES,
    HEATMAP_CLASSES,
    PairDifference,
    confused_pairs,
    confusions,
    heatmap,
    lost,
    recalls,
    weakest,
)
from tests.builders import evaluation

LABELS = ("cat", "dog", "owl")
ANSWERS = ImageAnswers(confusion=((8, 2, 0), (1, 9, 0), (5, 0, 5)))


def test_recall_comes_with_its_interval_and_count() -> None:
    found = {recall.label: recall for recall in recalls(ANSWERS, LABELS)}

    assert found["cat"].recall == 80.0
    assert found["cat"].n == 10
    assert found["cat"].low == pytest.approx(49.0, abs=0.1)  # Wilson's interval of 8 in 10
    assert found["cat"].high == pytest.approx(94.3, abs=0.1)


def test_precision_is_the_share_of_right_ones_among_the_answers_with_a_class() -> None:
    found = recalls(ImageAnswers(confusion=((6, 2, 0), (2, 8, 0), (0, 0, 0))), ("a", "b", "c"))
    assert [each.precision for each in found] == [75.0, 80.0, None]


def test_a_class_loses_what_the_form_recognises_less_than_float32() -> None:
    floats, form = ImageAnswers({"a": 0.9, "b": 0.5, "c": None}), ImageAnswers({"a": 0.8, "b": 0.6, "c": None})
    assert lost(floats, form) == pytest.approx({"a": 10.0, "b": -10.0})


def test_recall_without_counts_is_taken_from_the_shares() -> None:
    found = recalls(ImageAnswers(per_class_recall={"cat": 0.25}), LABELS)

    assert [(recall.label, recall.recall, recall.low) for recall in found] == [("cat", 25.0, None)]


@pytest.mark.parametrize(
    "answers", [ImageAnswers(confusion=((0, 0), (0, 3))), ImageAnswers(per_class_recall={"a": None, "b": 1.0})]
)
def test_class_without_images_has_no_recall_and_is_not_the_weakest(answers: ImageAnswers) -> None:
    found = recalls(answers, ("a", "b"))

    assert (found[0].recall, found[0].low, found[0].n) == (None, None, 0)
    assert weakest(found) is found[1]
    assert weakest(found[:1]) is None


def test_classes_of_a_detector_have_precision_recall_and_error_of_counting() -> None:
    boxes = BoxFacts(0.4, 0.5, {"a": ClassBoxes(4, 5, 0.6, 0.75, 0.25)})
    first, second = recalls(ImageAnswers({"a": 0.9, "b": None}, boxes=boxes), ("a", "b"))
    assert (first.recall, first.shares) == (90.0, (0.6, 0.75, 0.25))
    assert (second.recall, second.n, second.shares) == (None, 0, (None, None, None))


def test_most_frequent_mistake_is_first() -> None:
    pairs = confused_pairs(ANSWERS, LABELS)

    assert [(pair.true, pair.answer, pair.count, pair.share) for pair in pairs] == [
        ("owl", "cat", 5, 50.0),
        ("cat", "dog", 2, 20.0),
        ("dog", "cat", 1, 10.0),
    ]


def test_heat_map_holds_shares_of_the_true_class() -> None:
    found = heatmap(ANSWERS, LABELS)

    assert found is not None
    assert found.shares[2] == (50, 0, 50)


def test_too_many_classes_have_no_heat_map_but_still_their_mistakes() -> None:
    count = HEATMAP_CLASSES + 1
    labels = tuple(str(index) for index in range(count))
    table = [[int(row == column) for column in range(count)] for row in range(count)]
    table[3][4] = 7
    answers = ImageAnswers(confusion=tuple(map(tuple, table)))

    assert heatmap(answers, labels) is None
    assert [(pair.true, pair.answer) for pair in confused_pairs(answers, labels)] == [("3", "4")]


@pytest.mark.parametrize("table", [((1, 0), (0, 1)), ((1, 0, 0), (0, 1, 0), (0, 0, -1)), ((1,), (0, 1), (1,))])
def test_a_matrix_that_is_not_one_of_these_classes_is_refused(table: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(UsageError, match="not 3 x 3"):
        recalls(ImageAnswers(confusion=table), LABELS)


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

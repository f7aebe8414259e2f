"""Average precision of found boxes."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.measurement import average_precision
from advisor.measurement.average_precision import score, shares, threshold
from advisor.measurement.detection import Detections

SIZES = [(100, 200)] * 4


def boxes(*rows: tuple[float, float, float, float], labels: list[int] | None = None, sure: float = 1.0) -> Detections:
    count = len(rows)
    edges = np.array(rows, np.float32).reshape(-1, 4)
    return Detections(edges, np.array(labels or [0] * count, np.int64), np.full(count, sure, np.float32))


HERE, THERE = (0.1, 0.1, 0.3, 0.3), (0.5, 0.5, 0.9, 0.9)
TRUE = [boxes(HERE, THERE, labels=[0, 1]), boxes(HERE), boxes(THERE, labels=[1]), boxes(HERE)]


def test_boxes_that_are_all_found_have_a_precision_of_one() -> None:
    found = score(TRUE, TRUE, SIZES, 2)
    assert (found.half.value, found.coco.value, found.by_class) == (1.0, 1.0, (1.0, 1.0))
    assert found.half.low == found.half.high == found.coco.low == found.coco.high == 1.0


def test_where_nothing_is_found_it_is_zero() -> None:
    found = score(TRUE, [boxes() for _ in TRUE], SIZES, 2)
    assert (found.half.value, found.coco.value) == (0.0, 0.0)


def test_each_class_has_its_precision() -> None:
    half = [boxes(HERE, labels=[0]), boxes(HERE), boxes(), boxes(HERE)]
    found = score(TRUE, half, SIZES, 2)
    assert found.by_class == (1.0, 0.0)
    assert found.half.value == 0.5


def test_a_class_without_a_true_box_does_not_count() -> None:
    found = score(TRUE, TRUE, SIZES, 3)
    assert found.by_class == (1.0, 1.0, None)
    assert found.half.value == 1.0


def test_a_box_that_overlaps_by_six_tenths_counts_at_one_half_alone() -> None:
    moved = (0.1, 0.15, 0.3, 0.35)  # intersection over union 0.6
    found = score([boxes(HERE)] * 4, [boxes(moved)] * 4, SIZES, 1)
    assert found.half.value == 1.0
    assert found.coco.value == pytest.approx(0.3, abs=0.01)  # at 0.5, 0.55 and 0.6


def test_wrong_boxes_that_are_less_sure_than_the_right_ones_cost_nothing() -> None:
    wrong = np.array([[0.6, 0.0, 0.7, 0.1]], np.float32)
    more = [
        Detections(np.concatenate([one.boxes, wrong]), np.append(one.labels, 0), np.append(one.scores, 0.1))
        for one in TRUE
    ]
    assert score(TRUE, more, SIZES, 2).half.value == 1.0


def test_the_interval_covers_the_value_and_is_wider_with_fewer_images() -> None:
    draw = np.random.default_rng(0)
    found = [one if draw.random() < 0.7 else boxes() for one in TRUE * 30]
    few, many = (score((TRUE * 30)[:count], found[:count], SIZES * (count // 4), 2) for count in (20, 120))
    for small, large in ((few.half, many.half), (few.coco, many.coco)):
        assert small.low <= small.value <= small.high
        assert small.high - small.low > large.high - large.low


def test_without_a_true_box_there_is_no_score() -> None:
    with pytest.raises(ValueError, match="no image has a box"):
        score([boxes()], [boxes()], SIZES[:1], 1)


def part_found(count: int, seed: int = 0) -> tuple[list[Detections], list[Detections]]:
    """Return the true boxes of some images, and what a poor detector finds: some of them, and some wrong ones."""
    draw = np.random.default_rng(seed)
    true = (TRUE * count)[:count]
    return true, [one if draw.random() < 0.6 else boxes(THERE, sure=float(draw.random())) for one in true]


@pytest.mark.parametrize("count", [4, 13, 40])
def test_the_mean_of_the_shares_is_the_precision(count: int) -> None:
    true, found = part_found(count)
    sizes = [(100, 200)] * count
    each = shares(true, found, sizes, 2)
    assert each.shape == (count,)
    assert each.dtype == np.float32
    assert each.mean() == pytest.approx(score(true, found, sizes, 2).half.value, abs=1e-6)


def test_an_image_of_which_all_boxes_are_missed_has_the_lowest_share() -> None:
    true = TRUE * 3
    found = [boxes() if number == 5 else one for number, one in enumerate(true)]
    each = shares(true, found, SIZES * 3, 2)
    assert each.argmin() == 5
    assert each[5] < 0.5  # the other class, of which it has no box, is found
    assert np.delete(each, 5).min() > 0.9


def test_images_of_equal_content_have_equal_shares() -> None:
    assert shares(TRUE, TRUE, SIZES, 2).tolist() == [1.0] * 4


def test_the_only_image_with_boxes_leaves_finite_shares() -> None:
    each = shares([boxes(HERE), boxes()], [boxes(HERE), boxes()], SIZES[:2], 1)
    assert each.tolist() == [1.0, 1.0]


def test_of_many_images_several_are_left_out_at_a_time_and_share_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(average_precision, "MOST_GROUPS", 5)
    true, found = part_found(20)
    each = shares(true, found, SIZES * 5, 2).reshape(5, 4)
    assert (each == each[:, :1]).all()
    assert len(set(each[:, 0].tolist())) > 1
    assert each.mean() == pytest.approx(score(true, found, SIZES * 5, 2).half.value, abs=1e-6)


def sure_of(right: list[float], wrong: list[float]) -> tuple[list[Detections], list[Detections]]:
    """Return images with a box each, and boxes found with these scores: in place, then elsewhere on the first image."""
    true = [boxes(HERE) for _ in right]
    found = [boxes(HERE, sure=sure) for sure in right]
    surest = Detections(
        np.array([HERE, *[THERE] * len(wrong)], np.float32),
        np.zeros(1 + len(wrong), np.int64),
        np.array([right[0], *wrong], np.float32),
    )
    return true, [surest, *found[1:]]


@pytest.mark.parametrize(
    ("right", "wrong", "least"),
    [
        ([0.9, 0.8, 0.7], [0.3, 0.2], 0.5),  # between right and wrong
        ([0.9, 0.8, 0.2], [0.4], 0.1),  # a wrong box is the price of a third right one
        ([0.9, 0.8, 0.2], [0.6, 0.5, 0.4], 0.7),  # three are too many
        ([0.9, 0.8], [], 0.4),
    ],
)
def test_the_threshold_has_the_best_f1(right: list[float], wrong: list[float], least: float) -> None:
    true, found = sure_of(right, wrong)
    assert threshold(true, found, SIZES[:1] * len(true), 1) == pytest.approx(least)


def test_a_second_box_on_an_object_is_wrong() -> None:
    found = [Detections(np.array([HERE, HERE], np.float32), np.zeros(2, np.int64), np.array([0.9, 0.5], np.float32))]
    assert threshold([boxes(HERE)], found, SIZES[:1], 1) == pytest.approx(0.7)


def test_boxes_with_one_score_are_on_one_side_of_the_threshold() -> None:
    true, found = sure_of([0.8, 0.5], [0.5, 0.5, 0.5, 0.5])
    assert threshold(true, found, SIZES[:2], 1) == pytest.approx(0.65)


def test_one_threshold_is_for_all_classes() -> None:
    true = [boxes(HERE, THERE, labels=[0, 1])] * 2
    found = [boxes(HERE, sure=0.9), boxes(THERE, labels=[1], sure=0.3)]
    assert threshold(true, found, SIZES[:2], 2) == pytest.approx(0.15)


def test_where_no_box_is_right_the_threshold_is_above_all() -> None:
    assert threshold([boxes(HERE)], [boxes(THERE, sure=0.6)], SIZES[:1], 1) == pytest.approx(0.8)
    assert threshold([boxes(HERE)], [boxes()], SIZES[:1], 1) == 0.5
    assert threshold([boxes()], [boxes()], SIZES[:1], 1) == 0.5

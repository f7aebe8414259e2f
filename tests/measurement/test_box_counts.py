"""Right and wrong boxes from a threshold on."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.measurement.box_counts import Matched, counts, match
from advisor.measurement.detection import Detections

HERE, THERE, BESIDE = (0.1, 0.1, 0.3, 0.3), (0.5, 0.5, 0.9, 0.9), (0.1, 0.15, 0.3, 0.35)
SIZES = [(100, 200)] * 2


def boxes(*rows: tuple[tuple[float, float, float, float], int, float]) -> Detections:
    edges = np.array([edges for edges, _, _ in rows], np.float32).reshape(-1, 4)
    labels = np.array([label for _, label, _ in rows], np.int64)
    return Detections(edges, labels, np.array([score for _, _, score in rows], np.float32))


def matched(true: list[Detections], found: list[Detections], threshold: float = 0.5) -> list[Matched]:
    return match(true, found, SIZES[: len(true)], 2, threshold)


def test_each_box_of_each_image_has_its_own_flag() -> None:
    true = [boxes((HERE, 0, 1), (THERE, 1, 1)), boxes((THERE, 0, 1))]
    found = [boxes((THERE, 1, 0.9), (BESIDE, 1, 0.8)), boxes((THERE, 0, 0.7))]
    first, second = matched(true, found)
    assert (first.seen.tolist(), first.right.tolist()) == ([False, True], [True, False])
    assert (second.seen.tolist(), second.right.tolist()) == ([True], [True])


def test_a_box_below_the_threshold_is_not_found() -> None:
    true, found = [boxes((HERE, 0, 1))], [boxes((HERE, 0, 0.5), (THERE, 0, 0.4))]
    (at,) = matched(true, found)
    assert (at.right.tolist(), at.found.scores.tolist()) == ([True], [0.5])
    (above,) = matched(true, found, threshold=0.51)
    assert (above.seen.tolist(), above.right.tolist()) == ([False], [])


def test_a_box_of_another_class_is_wrong() -> None:
    (one,) = matched([boxes((HERE, 0, 1))], [boxes((HERE, 1, 0.9))])
    assert (one.seen.tolist(), one.right.tolist(), one.errors) == ([False], [False], 2)


def test_of_two_boxes_on_one_object_the_surer_one_is_right() -> None:
    (one,) = matched([boxes((HERE, 0, 1))], [boxes((BESIDE, 0, 0.9), (HERE, 0, 0.8))])
    assert one.right.tolist() == [True, False]


@pytest.mark.parametrize(
    ("true", "found", "f1", "errors"),
    [
        (boxes((HERE, 0, 1), (THERE, 1, 1)), boxes((HERE, 0, 0.9)), 2 / 3, 1),
        (boxes((HERE, 0, 1)), boxes(), 0.0, 1),
        (boxes(), boxes((HERE, 0, 0.9)), 0.0, 1),
        (boxes(), boxes(), 1.0, 0),
    ],
)
def test_f1_and_errors_of_an_image(true: Detections, found: Detections, f1: float, errors: int) -> None:
    (one,) = matched([true], [found])
    assert (one.f1, one.errors) == (pytest.approx(f1), errors)


def test_true_found_and_right_boxes_are_counted_by_image_and_class() -> None:
    true = [boxes((HERE, 0, 1), (THERE, 1, 1)), boxes((THERE, 0, 1))]
    found = [boxes((THERE, 1, 0.9), (BESIDE, 1, 0.8)), boxes((THERE, 0, 0.7), (HERE, 0, 0.6))]
    table = counts(matched(true, found), 2)
    assert table.tolist() == [[[1, 0, 0], [1, 2, 1]], [[1, 2, 1], [0, 0, 0]]]


def test_no_image_has_no_matches() -> None:
    assert match([], [], [], 2, 0.5) == []
    assert counts([], 2).shape == (0, 2, 3)

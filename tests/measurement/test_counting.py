"""Centres in a map of scores, and how well they find objects."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from advisor.measurement.box_counts import Matched
from advisor.measurement.counting import NEAR, centre_score, centre_shares, centres, match_centres
from advisor.measurement.detection import Detections
from tests.measurement.test_box_counts import HERE, THERE, boxes

MIDDLE, CORNER, OUTSIDE = (0.2, 0.2, 0.2, 0.2), (0.11, 0.11, 0.11, 0.11), (0.4, 0.4, 0.4, 0.4)


def scores(*marks: tuple[int, int, int, float], side: int = 10) -> np.ndarray:
    values = np.zeros((side, side, 2), np.float32)
    for row, column, label, score in marks:
        values[row, column, label] = score
    return values


def test_a_centre_is_the_highest_score_of_its_class_around() -> None:
    found = centres(scores((2, 3, 0, 0.9), (2, 4, 0, 0.8), (2, 4, 1, 0.7)), 0.5)
    assert found.labels.tolist() == [0, 1]
    assert found.scores.tolist() == pytest.approx([0.9, 0.7])
    assert found.boxes[0].tolist() == pytest.approx([0.25, 0.35, 0.25, 0.35])  # middle of row 2 and column 3


def test_neighbours_with_equal_scores_are_one_centre() -> None:
    found = centres(scores((5, 5, 0, 0.9), (5, 6, 0, 0.9), (5, 9, 0, 0.9)), 0.5)
    assert len(found.labels) == 2


def test_scores_below_the_least_one_are_no_centres() -> None:
    assert len(centres(scores((2, 3, 0, 0.4)), 0.5).labels) == 0


@given(arrays(np.float32, (7, 9, 2), elements=st.sampled_from([0.0, 0.25, 0.5, 0.75])))
def test_two_centres_of_a_class_are_never_neighbours(values: np.ndarray) -> None:
    found = centres(values, 0.25)
    places = np.rint(found.boxes[:, :2] * values.shape[:2] - 0.5)
    for label in (0, 1):
        own = places[found.labels == label]
        apart = np.abs(own[:, None] - own[None]).max(axis=-1)[~np.eye(len(own), dtype=bool)]
        assert (apart > NEAR).all()
    assert found.scores.tolist() == sorted(found.scores.tolist(), reverse=True)


def only(true: Detections, found: Detections) -> Matched:
    (matched,) = match_centres([true], [found])
    return matched


def test_a_centre_inside_the_box_of_an_object_finds_it() -> None:
    matched = only(boxes((HERE, 0, 1), (THERE, 0, 1)), boxes((CORNER, 0, 0.9), (OUTSIDE, 0, 0.8)))
    assert (matched.seen.tolist(), matched.right.tolist()) == ([True, False], [True, False])


def test_a_centre_of_another_class_finds_nothing() -> None:
    assert not only(boxes((HERE, 0, 1)), boxes((MIDDLE, 1, 0.9))).right.any()


def test_an_object_is_found_once() -> None:
    matched = only(boxes((HERE, 0, 1)), boxes((CORNER, 0, 0.9), (MIDDLE, 0, 0.8)))
    assert matched.right.tolist() == [True, False]


def test_a_centre_inside_two_boxes_finds_the_nearer_one() -> None:
    wide = (0.0, 0.0, 1.0, 1.0)
    matched = only(boxes((wide, 0, 1), (HERE, 0, 1)), boxes((MIDDLE, 0, 0.9)))
    assert matched.seen.tolist() == [False, True]


def test_what_has_less_than_half_the_score_is_not_counted() -> None:
    assert len(only(boxes((HERE, 0, 1)), boxes((MIDDLE, 0, 0.49))).right) == 0


def images(*found: tuple[int, int, int]) -> list[Matched]:
    """Return images with objects of class 0: how many were found, how many were missed, how many marks are wrong."""
    rows = []
    for right, missed, wrong in found:
        true = boxes(*[((0.0, 0.1 * place, 0.1, 0.1 * place + 0.1), 0, 1) for place in range(right + missed)])
        marks = [((0.05, 0.1 * place + 0.05) * 2, 0, 0.9) for place in range(right)]
        marks += [((0.5, 0.5, 0.5, 0.5), 0, 0.6)] * wrong
        rows.append(only(true, boxes(*marks)))  # type: ignore[arg-type]
    return rows


def test_f1_is_twice_the_right_marks_over_objects_and_marks() -> None:
    reached = centre_score(images((3, 1, 0), (2, 0, 2)), 2)
    assert reached.by_class == (pytest.approx(10 / 13), None)
    assert reached.mean.value == pytest.approx(10 / 13)
    assert reached.mean.low < reached.mean.value < reached.mean.high


def test_the_shares_of_images_add_up_to_the_figure() -> None:
    matched = images((3, 1, 0), (2, 0, 2), (4, 0, 0))
    shares = centre_shares(matched, 2)
    assert float(shares.mean()) == pytest.approx(centre_score(matched, 2).mean.value)
    assert shares[2] == shares.max()


def test_images_without_objects_cannot_be_scored() -> None:
    with pytest.raises(ValueError, match="no image has a box"):
        centre_score(images((0, 0, 1)), 2)

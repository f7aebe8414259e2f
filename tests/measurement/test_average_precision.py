"""Average precision of boxes, right and wrong boxes from a threshold on, and centres of objects."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from advisor.measurement import Detections, average_precision, box_matches, label_precision
from advisor.measurement._box_matches import Matched, centre_score, centre_shares, choose_threshold, count_boxes
from advisor.tflite import CENTRE_DISTANCE
from tests.builders import must_fail
from tests.tables import with_cases

SIZES = [(100, 200)] * 4

Edges = tuple[float, float, float, float]
Box = tuple[Edges, int, float]
HERE, THERE = (0.1, 0.1, 0.3, 0.3), (0.5, 0.5, 0.9, 0.9)
REST = [(HERE, 0), (THERE, 1), (HERE, 0)]
BESIDE = (0.1, 0.15, 0.3, 0.35)


def marked(*rows: Box) -> Detections:
    """Boxes with their labels and scores."""
    edges = np.array([edges for edges, _, _ in rows], np.float32).reshape(-1, 4)
    labels = np.array([label for _, label, _ in rows], np.int64)
    return Detections(edges, labels, np.array([score for _, _, score in rows], np.float32))


def boxes(*rows: Edges, labels: list[int] | None = None, sure: float = 1.0) -> Detections:
    return marked(*((edges, label, sure) for edges, label in zip(rows, labels or [0] * len(rows), strict=True)))


TRUE = [boxes(HERE, THERE, labels=[0, 1]), *(boxes(edges, labels=[label]) for edges, label in REST)]


def test_boxes_that_are_all_found_have_a_precision_of_one() -> None:
    found = average_precision.score_boxes(TRUE, TRUE, SIZES, 3)
    assert (found.half.value, found.coco.value) == (1.0, 1.0)
    assert found.by_class == (1.0, 1.0, None), "a class without a true box does not count"
    assert found.half.high == found.coco.high == 1.0
    assert found.half.low == found.coco.low < 0.6  # four images without a fault show little


def test_each_class_has_its_precision() -> None:
    half = [boxes(HERE, labels=[0]), boxes(HERE), boxes(), boxes(HERE)]
    found = average_precision.score_boxes(TRUE, half, SIZES, 2)
    assert found.by_class == (1.0, 0.0)
    assert found.half.value == 0.5


def test_a_box_that_overlaps_by_six_tenths_counts_at_one_half_alone() -> None:
    found = average_precision.score_boxes(
        [boxes(HERE)] * 4, [boxes(BESIDE)] * 4, SIZES, 1
    )  # intersection over union 0.6
    assert found.half.value == 1.0
    assert found.coco.value == pytest.approx(0.3, abs=0.01)  # at 0.5, 0.55 and 0.6


def test_wrong_boxes_that_are_less_sure_than_the_right_ones_cost_nothing() -> None:
    wrong = ((0.6, 0.0, 0.7, 0.1), 0, 0.1)
    more = [marked((HERE, 0, 1), (THERE, 1, 1), wrong), *(marked((edges, label, 1), wrong) for edges, label in REST)]
    assert average_precision.score_boxes(TRUE, more, SIZES, 2).half.value == 1.0


def test_the_interval_covers_the_value_and_is_wider_with_fewer_images() -> None:
    draw = np.random.default_rng(0)
    found = [one if draw.random() < 0.7 else boxes() for one in TRUE * 30]
    few, many = (
        average_precision.score_boxes((TRUE * 30)[:count], found[:count], SIZES * (count // 4), 2) for count in (12, 60)
    )
    for small, large in ((few.half, many.half), (few.coco, many.coco)):
        assert small.low <= small.value <= small.high
        assert small.high - small.low > large.high - large.low


def test_frames_of_a_film_count_once() -> None:
    true, found = part_found(12)
    frames = [each for each in range(12) for _ in range(5)]
    repeated = [[rows[each] for each in frames] for rows in (true, found)]
    once, as_images, as_films = (
        average_precision.score_boxes(*rows, [(100, 200)] * len(rows[0]), 2, groups)
        for rows, groups in (((true, found), ()), (repeated, ()), (repeated, frames))
    )
    assert (as_films.half.low, as_films.half.high) == pytest.approx((once.half.low, once.half.high))
    assert as_images.half.high - as_images.half.low < 0.6 * (once.half.high - once.half.low)
    centres_as_films = centre_score(box_matches.match_centres(*repeated), 2, frames).mean
    assert centres_as_films.low == pytest.approx(centre_score(box_matches.match_centres(true, found), 2).mean.low)


def test_without_a_true_box_there_is_no_score() -> None:
    must_fail(ValueError, "no image has a box", average_precision.score_boxes, [boxes()], [boxes()], SIZES[:1], 1)


def part_found(count: int, seed: int = 0) -> tuple[list[Detections], list[Detections]]:
    """Return the true boxes of some images, and what a poor detector finds: some of them, and some wrong ones."""
    draw = np.random.default_rng(seed)
    true = (TRUE * count)[:count]
    return true, [one if draw.random() < 0.6 else boxes(THERE, sure=float(draw.random())) for one in true]


@pytest.mark.parametrize("count", [4, 13, 40])
def test_the_mean_of_the_shares_is_the_precision(count: int) -> None:
    true, found = part_found(count)
    sizes = [(100, 200)] * count
    each = average_precision.split_precision(true, found, sizes, 2)
    assert each.shape == (count,)
    assert each.dtype == np.float32
    assert each.mean() == pytest.approx(average_precision.score_boxes(true, found, sizes, 2).half.value, abs=1e-6)


def test_an_image_of_which_all_boxes_are_missed_has_the_lowest_share() -> None:
    true = TRUE * 3
    found = [boxes() if number == 5 else one for number, one in enumerate(true)]
    each = average_precision.split_precision(true, found, SIZES * 3, 2)
    assert each.argmin() == 5
    assert each[5] < 0.5  # the other class, of which it has no box, is found
    assert np.delete(each, 5).min() > 0.9


def test_the_only_image_with_boxes_leaves_finite_shares() -> None:
    each = average_precision.split_precision([boxes(HERE), boxes()], [boxes(HERE), boxes()], SIZES[:2], 1)
    assert each.tolist() == [1.0, 1.0]


def test_of_many_images_several_are_left_out_at_a_time_and_share_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(average_precision, "MOST_GROUPS", 5)
    true, found = part_found(20)
    each = average_precision.split_precision(true, found, SIZES * 5, 2).reshape(5, 4)
    assert (each == each[:, :1]).all()
    assert len(set(each[:, 0].tolist())) > 1
    assert each.mean() == pytest.approx(average_precision.score_boxes(true, found, SIZES * 5, 2).half.value, abs=1e-6)


def sure_of(right: list[float], wrong: list[float]) -> tuple[list[Detections], list[Detections]]:
    """Return images with a box each, and boxes found with these scores: in place, then elsewhere on the first image."""
    true = [boxes(HERE) for _ in right]
    found = [boxes(HERE, sure=sure) for sure in right]
    surest = marked((HERE, 0, right[0]), *((THERE, 0, sure) for sure in wrong))
    return true, [surest, *found[1:]]


@with_cases
def test_the_threshold_has_the_best_f1(right: list[float], wrong: list[float], least: float) -> None:
    true, found = sure_of(right, wrong)
    assert choose_threshold(true, found, SIZES[:1] * len(true), 1) == pytest.approx(least)


def test_one_threshold_for_all_classes_leaves_out_second_boxes_and_all_where_none_is_right() -> None:
    found = [marked((HERE, 0, 0.9), (HERE, 0, 0.5))]
    assert choose_threshold([boxes(HERE)], found, SIZES[:1], 1) == pytest.approx(0.7)
    true = [boxes(HERE, THERE, labels=[0, 1])] * 2
    found = [boxes(HERE, sure=0.9), boxes(THERE, labels=[1], sure=0.3)]
    assert choose_threshold(true, found, SIZES[:2], 2) == pytest.approx(0.15)
    assert choose_threshold([boxes(HERE)], [boxes(THERE, sure=0.6)], SIZES[:1], 1) == pytest.approx(0.8)
    assert choose_threshold([boxes(HERE)], [boxes()], SIZES[:1], 1) == 0.5
    assert choose_threshold([boxes()], [boxes()], SIZES[:1], 1) == 0.5


def matches(true: list[Detections], found: list[Detections], threshold: float = 0.5) -> list[Matched]:
    return box_matches.match_boxes(true, found, SIZES[: len(true)], 2, threshold)


def test_a_box_below_the_threshold_is_not_found() -> None:
    true, found = ([marked((HERE, 0, 1))], [marked((HERE, 0, 0.5), (THERE, 0, 0.4))])
    (at,) = matches(true, found)
    assert (at.right.tolist(), at.found.scores.tolist()) == ([True], [0.5])
    (above,) = matches(true, found, threshold=0.51)
    assert (above.seen.tolist(), above.right.tolist()) == ([False], [])


@with_cases
def test_a_box_is_right_if_it_is_the_surest_one_on_an_object_of_its_class(found: list[Box], right: list[bool]) -> None:
    (one,) = matches([marked((HERE, 0, 1))], [marked(*found)])
    assert one.right.tolist() == right
    assert one.seen.tolist() == [any(right)]
    assert one.errors == right.count(False) + (not any(right))


def test_f1_and_errors_of_an_image() -> None:
    true = [marked((HERE, 0, 1), (THERE, 1, 1)), marked((HERE, 0, 1)), marked(), marked()]
    found = [marked((HERE, 0, 0.9)), marked(), marked((HERE, 0, 0.9)), marked()]
    matched = matches(true, found)
    assert [one.f1 for one in matched] == pytest.approx([2 / 3, 0.0, 0.0, 1.0])
    assert [one.errors for one in matched] == [1, 1, 1, 0]


def test_true_found_and_right_boxes_are_counted_by_image_and_class() -> None:
    true = [marked((HERE, 0, 1), (THERE, 1, 1)), marked((THERE, 0, 1))]
    found = [marked((THERE, 1, 0.9), (BESIDE, 1, 0.8)), marked((THERE, 0, 0.7), (HERE, 0, 0.6))]
    table = count_boxes(matches(true, found), 2)
    assert table.tolist() == [[[1, 0, 0], [1, 2, 1]], [[1, 2, 1], [0, 0, 0]]]


def test_no_image_has_no_matches() -> None:
    assert box_matches.match_boxes([], [], [], 2, 0.5) == []
    assert count_boxes([], 2).shape == (0, 2, 3)


def scores(*marks: tuple[int, int, int, float], side: int = 10) -> np.ndarray:
    values = np.zeros((side, side, 2), np.float32)
    for row, column, label, mark in marks:
        values[row, column, label] = mark
    return values


def test_a_centre_is_the_highest_score_of_its_class_around_from_the_least_one_on() -> None:
    found = Detections.find_centres(scores((2, 3, 0, 0.9), (2, 4, 0, 0.8), (2, 4, 1, 0.7), (8, 8, 1, 0.4)), 0.5)
    assert found.labels.tolist() == [0, 1]
    assert found.scores.tolist() == pytest.approx([0.9, 0.7])
    assert found.boxes[0].tolist() == pytest.approx([0.25, 0.35, 0.25, 0.35])  # middle of row 2 and column 3


def test_neighbours_with_equal_scores_are_one_centre() -> None:
    found = Detections.find_centres(scores((5, 5, 0, 0.9), (5, 6, 0, 0.9), (5, 9, 0, 0.9)), 0.5)
    assert len(found.labels) == 2


@given(arrays(np.float32, (7, 9, 2), elements=st.sampled_from([0.0, 0.25, 0.5, 0.75])))
def test_two_centres_of_a_class_are_never_neighbours(values: np.ndarray) -> None:
    found = Detections.find_centres(values, 0.25)
    places = np.rint(found.boxes[:, :2] * values.shape[:2] - 0.5)
    for label in (0, 1):
        own = places[found.labels == label]
        apart = np.abs(own[:, None] - own[None]).max(axis=-1)[~np.eye(len(own), dtype=bool)]
        assert (apart > CENTRE_DISTANCE).all()
    assert found.scores.tolist() == sorted(found.scores.tolist(), reverse=True)


def only(true: Detections, found: Detections) -> Matched:
    (matched,) = box_matches.match_centres([true], [found])
    return matched


@with_cases
def test_a_centre_inside_the_box_of_an_object_of_its_class_finds_it(
    objects: list[Box], found: list[Box], seen: list[bool], right: list[bool]
) -> None:
    matched = only(marked(*objects), marked(*found))
    assert (matched.seen.tolist(), matched.right.tolist()) == (seen, right)


def images(*found: tuple[int, int, int]) -> list[Matched]:
    """Return images with objects of class 0: how many were found, how many were missed, how many marks are wrong."""
    rows = []
    for right, missed, wrong in found:
        true = marked(*[((0.0, 0.1 * place, 0.1, 0.1 * place + 0.1), 0, 1) for place in range(right + missed)])
        marks = [((0.05, 0.1 * place + 0.05) * 2, 0, 0.9) for place in range(right)]
        marks += [((0.5, 0.5, 0.5, 0.5), 0, 0.6)] * wrong
        rows.append(only(true, marked(*marks)))  # type: ignore[arg-type]
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
    must_fail(ValueError, "no image has a box", centre_score, images((0, 0, 1)), 2)


def test_the_average_precision_of_labels_counts_equal_scores_together_and_leaves_out_what_is_unknown() -> None:
    truth = np.random.default_rng(0).integers(-1, 2, (40, 3)).astype(np.int8)
    scores = np.random.default_rng(1).integers(0, 8, (40, 3)) / 8

    def slow(rows: np.ndarray, values: np.ndarray) -> float:
        rows, values = rows[rows >= 0], values[rows >= 0]
        return float(np.mean([rows[values >= value].mean() for value in values[rows == 1]]))

    np.testing.assert_allclose(
        label_precision.list_precisions(truth, scores), [slow(truth[:, c], scores[:, c]) for c in range(3)]
    )
    left = [[slow(np.delete(truth[:, c], n), np.delete(scores[:, c], n)) for c in range(3)] for n in range(40)]
    np.testing.assert_allclose(label_precision.list_precisions_without(truth, scores), left)

"""Anchors, and the assignment of boxes to anchors. Changed training images, and boxes that move with them."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from advisor.training._detection.anchors import assign_anchors, compute_overlaps, make_anchors
from advisor.training._on_maps.changes import Objects, RandomChanges, change_image

ANCHORS = make_anchors([(8, 8), (4, 4)])
FINER = make_anchors([(32, 32), (8, 8)])
SIDE = 64
NO_COLOURS = RandomChanges(contrast=0.0, brightness=0.0, tint=0.0)


@st.composite
def boxes(draw: st.DrawFn, most: int = 6) -> np.ndarray:
    """Boxes of at least a hundredth of the image's sides."""
    count = draw(st.integers(1, most))
    corners = draw(arrays(np.float32, (count, 2), elements=st.floats(0.0, 0.75, width=32)))
    sides = draw(arrays(np.float32, (count, 2), elements=st.floats(0.015625, 0.25, width=32)))
    return np.concatenate([corners, corners + sides], axis=1)


def test_anchors_have_their_centres_in_the_cells_and_eight_cells_a_side() -> None:
    assert ANCHORS.counts == (64, 16)
    assert ANCHORS.boxes[0] == pytest.approx([1 / 16, 1 / 16, 1.0, 1.0])
    assert ANCHORS.boxes[9] == pytest.approx([3 / 16, 3 / 16, 1.0, 1.0])
    assert ANCHORS.boxes[-1] == pytest.approx([7 / 8, 7 / 8, 2.0, 2.0])


def test_overlaps_are_shares_of_the_union() -> None:
    first = np.array([[0.0, 0.0, 0.2, 0.2], [0.5, 0.5, 0.6, 0.6]], np.float32)
    second = np.array([[0.0, 0.1, 0.2, 0.3]], np.float32)
    assert compute_overlaps(first, second) == pytest.approx(np.array([[1 / 3], [0.0]]), abs=1e-6)


@given(boxes(), boxes())
def test_overlaps_are_symmetric_and_one_with_itself(first: np.ndarray, second: np.ndarray) -> None:
    assert compute_overlaps(first, second) == pytest.approx(compute_overlaps(second, first).T, abs=1e-6)
    assert np.diag(compute_overlaps(first, first)) == pytest.approx(np.ones(len(first)), abs=1e-4)


@given(boxes(1))
def test_a_single_box_gets_an_anchor(true: np.ndarray) -> None:
    assert (assign_anchors(ANCHORS, true) == 0).any()


@given(boxes())
def test_an_anchor_belongs_to_the_box_that_it_overlaps_most_of_those_that_want_it(true: np.ndarray) -> None:
    together, alone = assign_anchors(ANCHORS, true), [assign_anchors(ANCHORS, box[None]) >= 0 for box in true]
    shared = compute_overlaps(ANCHORS.edges, true)
    for place, number in enumerate(together):
        wanted = [index for index, own in enumerate(alone) if own[place]]
        assert (number == -1) == (not wanted)
        if wanted:
            assert shared[place, number] == pytest.approx(max(shared[place, index] for index in wanted))


def test_a_small_box_gets_anchors_of_the_fine_map_and_a_large_one_of_the_coarse_map() -> None:
    small, large = np.array([[0.4, 0.4, 0.6, 0.6]], np.float32), np.array([[0.05, 0.05, 0.95, 0.95]], np.float32)
    assert (np.flatnonzero(assign_anchors(FINER, small) == 0) < 1024).all()
    assert (np.flatnonzero(assign_anchors(FINER, large) == 0) >= 1024).all()


def test_without_boxes_no_anchor_has_one() -> None:
    assert (assign_anchors(ANCHORS, np.zeros((0, 4), np.float32)) == -1).all()


def square(top: int, left: int, bottom: int, right: int) -> tuple[np.ndarray, Objects]:
    """A black image with a white rectangle, and its box."""
    pixels = np.zeros((SIDE, SIDE, 3), np.uint8)
    pixels[top:bottom, left:right] = 255
    edges = np.array([[top, left, bottom, right]], np.float32) / SIDE
    return pixels, Objects(edges, np.array([3]))


@given(st.integers(0, 500))
def test_the_box_moves_with_its_object(seed: int) -> None:
    pixels, objects = square(20, 24, 40, 36)
    found, kept = change_image(pixels, objects, NO_COLOURS, np.random.default_rng(seed))
    assert found.shape == pixels.shape
    white = found.min(axis=2) > 127
    if not len(kept.boxes):
        return
    rows, columns = np.flatnonzero(white.any(axis=1)), np.flatnonzero(white.any(axis=0))
    seen = rows[0], columns[0], rows[-1] + 1, columns[-1] + 1
    assert SIDE * kept.boxes[0] == pytest.approx(seen, abs=1.5)
    assert kept.labels.tolist() == [3]


def test_an_object_of_which_little_is_left_is_dropped() -> None:
    pixels, objects = square(0, 0, 8, 8)
    results = [change_image(pixels, objects, NO_COLOURS, np.random.default_rng(seed))[1] for seed in range(100)]
    areas = [np.prod(kept.boxes[:, 2:] - kept.boxes[:, :2]) for kept in results if len(kept.boxes)]
    assert 0 < len(areas) < 100
    assert min(areas) > 0.0


def test_boxes_stay_in_the_image() -> None:
    pixels, objects = square(0, 0, SIDE, SIDE)
    kept = [change_image(pixels, objects, NO_COLOURS, np.random.default_rng(seed))[1].boxes for seed in range(50)]
    assert 0.0 <= np.concatenate(kept).min() <= np.concatenate(kept).max() <= 1.0


def test_an_image_without_objects_is_changed_too() -> None:
    pixels, _ = square(10, 10, 30, 30)
    nothing = Objects(np.zeros((0, 4), np.float32), np.zeros(0, np.int64))
    found, kept = change_image(pixels, nothing, RandomChanges(), np.random.default_rng(1))
    assert not np.array_equal(found, pixels)
    assert kept.boxes.shape == (0, 4)

"""Anchors, and the assignment of boxes to anchors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from advisor.training.detection.fit import anchors_of, assign, overlaps

ANCHORS = anchors_of([(8, 8), (4, 4)])
SHARE = st.floats(0.0, 1.0, width=32)


@st.composite
def boxes(draw: st.DrawFn, most: int = 6) -> np.ndarray:
    """Boxes of at least a hundredth of the image's sides."""
    count = draw(st.integers(1, most))
    corners = draw(arrays(np.float32, (count, 2), elements=st.floats(0.0, 0.75, width=32)))
    sides = draw(arrays(np.float32, (count, 2), elements=st.floats(0.015625, 0.25, width=32)))
    return np.concatenate([corners, corners + sides], axis=1)


def test_anchors_have_their_centres_in_the_cells_and_four_cells_a_side() -> None:
    assert ANCHORS.counts == (64, 16)
    assert ANCHORS.boxes[0] == pytest.approx([1 / 16, 1 / 16, 0.5, 0.5])
    assert ANCHORS.boxes[9] == pytest.approx([3 / 16, 3 / 16, 0.5, 0.5])
    assert ANCHORS.boxes[-1] == pytest.approx([7 / 8, 7 / 8, 1.0, 1.0])


def test_overlaps_are_shares_of_the_union() -> None:
    first = np.array([[0.0, 0.0, 0.2, 0.2], [0.5, 0.5, 0.6, 0.6]], np.float32)
    second = np.array([[0.0, 0.1, 0.2, 0.3]], np.float32)
    assert overlaps(first, second) == pytest.approx(np.array([[1 / 3], [0.0]]), abs=1e-6)


@given(boxes(), boxes())
def test_overlaps_are_symmetric_and_one_with_itself(first: np.ndarray, second: np.ndarray) -> None:
    assert overlaps(first, second) == pytest.approx(overlaps(second, first).T, abs=1e-6)
    assert np.diag(overlaps(first, first)) == pytest.approx(np.ones(len(first)), abs=1e-4)


@given(boxes(1))
def test_a_single_box_gets_an_anchor(true: np.ndarray) -> None:
    assert (assign(ANCHORS, true) == 0).any()


@given(boxes())
def test_an_anchor_belongs_to_the_box_that_it_overlaps_most_of_those_that_want_it(true: np.ndarray) -> None:
    together, alone = assign(ANCHORS, true), [assign(ANCHORS, box[None]) >= 0 for box in true]
    shared = overlaps(ANCHORS.edges, true)
    for place, number in enumerate(together):
        wanted = [index for index, own in enumerate(alone) if own[place]]
        assert (number == -1) == (not wanted)
        if wanted:
            assert shared[place, number] == pytest.approx(max(shared[place, index] for index in wanted))


def test_a_small_box_gets_anchors_of_the_fine_map_and_a_large_one_of_the_coarse_map() -> None:
    small, large = np.array([[0.4, 0.4, 0.6, 0.6]], np.float32), np.array([[0.05, 0.05, 0.95, 0.95]], np.float32)
    assert (np.flatnonzero(assign(ANCHORS, small) == 0) < 64).all()
    assert (np.flatnonzero(assign(ANCHORS, large) == 0) >= 64).all()


def test_without_boxes_no_anchor_has_one() -> None:
    assert (assign(ANCHORS, np.zeros((0, 4), np.float32)) == -1).all()

"""Changed training images, and boxes that move with them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.training.detection.changes import Objects, RandomChanges, changed

SIDE = 64
NO_COLOURS = RandomChanges(contrast=0.0, brightness=0.0, tint=0.0)


def square(top: int, left: int, bottom: int, right: int) -> tuple[np.ndarray, Objects]:
    """A black image with a white rectangle, and its box."""
    pixels = np.zeros((SIDE, SIDE, 3), np.uint8)
    pixels[top:bottom, left:right] = 255
    edges = np.array([[top, left, bottom, right]], np.float32) / SIDE
    return pixels, Objects(edges, np.array([3]))


@given(st.integers(0, 500))
def test_the_box_moves_with_its_object(seed: int) -> None:
    pixels, objects = square(20, 24, 40, 36)
    found, kept = changed(pixels, objects, NO_COLOURS, np.random.default_rng(seed))
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
    results = [changed(pixels, objects, NO_COLOURS, np.random.default_rng(seed))[1] for seed in range(100)]
    areas = [np.prod(kept.boxes[:, 2:] - kept.boxes[:, :2]) for kept in results if len(kept.boxes)]
    assert 0 < len(areas) < 100
    assert min(areas) > 0.0


def test_boxes_stay_in_the_image() -> None:
    pixels, objects = square(0, 0, SIDE, SIDE)
    for seed in range(50):
        kept = changed(pixels, objects, NO_COLOURS, np.random.default_rng(seed))[1]
        assert kept.boxes.min(initial=0.0) >= 0.0
        assert kept.boxes.max(initial=0.0) <= 1.0


def test_equal_random_numbers_give_equal_changes() -> None:
    pixels, objects = square(10, 10, 30, 30)
    first, second = (changed(pixels, objects, RandomChanges(), np.random.default_rng(7)) for _ in range(2))
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[1].boxes, second[1].boxes)


def test_an_image_without_objects_is_changed_too() -> None:
    pixels, _ = square(10, 10, 30, 30)
    nothing = Objects(np.zeros((0, 4), np.float32), np.zeros(0, np.int64))
    found, kept = changed(pixels, nothing, RandomChanges(), np.random.default_rng(1))
    assert not np.array_equal(found, pixels)
    assert kept.boxes.shape == (0, 4)

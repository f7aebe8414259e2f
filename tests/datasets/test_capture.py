from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from skimage import data

from advisor.datasets.capture import CONDITIONS, STRENGTHS, TESTS, CaptureCondition, apply, captures, random_capture
from advisor.datasets.images import load
from tests.datasets.folders import fill

SIZE = 96
BY_NAME = {condition.name: condition for condition in CONDITIONS}

each = pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: condition.name)


@pytest.fixture(scope="module")
def image() -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.fromarray(data.astronaut()).resize((SIZE, SIZE)))


def _distance(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.abs(first.astype(float) - second).mean())


@each
def test_a_condition_keeps_shape_and_type(condition: CaptureCondition, image: np.ndarray) -> None:
    for strength in STRENGTHS:
        changed = apply(image, condition, strength, 3)
        assert changed.shape == image.shape
        assert changed.dtype == np.uint8


@each
@pytest.mark.parametrize("size", [1, 2, 7, 8, 15])
def test_the_smallest_images_can_be_taken_too(condition: CaptureCondition, size: int) -> None:
    tiny = np.full((size, size, 3), 128, np.uint8)
    assert apply(tiny, condition, strength=2.0, seed=1).shape == tiny.shape


@each
def test_equal_seeds_give_equal_pixels(condition: CaptureCondition, image: np.ndarray) -> None:
    np.testing.assert_array_equal(apply(image, condition, 1.0, 7), apply(image, condition, 1.0, 7))


@each
def test_strength_zero_changes_next_to_nothing(condition: CaptureCondition, image: np.ndarray) -> None:
    assert _distance(apply(image, condition, 0.0, 1), image) < 1.5


@each
def test_twice_the_strength_changes_more(condition: CaptureCondition, image: np.ndarray) -> None:
    mild, strong = (
        np.mean([_distance(apply(image, condition, strength, seed), image) for seed in range(8)])
        for strength in STRENGTHS
    )
    assert 1.0 < mild < strong


@each
def test_the_image_given_stays_as_it_is(condition: CaptureCondition, image: np.ndarray) -> None:
    before = image.copy()
    apply(image, condition, 2.0, 5)
    np.testing.assert_array_equal(image, before)


@pytest.mark.parametrize("name", ["framing", "perspective", "fisheye"])
def test_geometry_shows_nothing_from_outside_the_frame(name: str) -> None:
    white = np.full((SIZE, SIZE, 3), 255, np.uint8)
    for seed in range(5):
        assert apply(white, BY_NAME[name], 2.0, seed).min() == 255


def test_low_light_darkens(image: np.ndarray) -> None:
    mild, strong = (apply(image, BY_NAME["low light"], strength, 0).mean() for strength in STRENGTHS)
    assert strong < mild < 0.8 * image.mean()


def test_a_colour_cast_shifts_grey_off_grey() -> None:
    grey = np.full((SIZE, SIZE, 3), 120, np.uint8)
    channels = apply(grey, BY_NAME["colour cast"], 1.0, 0)[0, 0].astype(int)
    assert channels.max() - channels.min() > 10


def test_the_lens_keeps_centre_and_corners(image: np.ndarray) -> None:
    dots = np.zeros((SIZE, SIZE, 3), np.uint8)
    dots[SIZE // 2 - 4 : SIZE // 2 + 4, SIZE // 2 - 4 : SIZE // 2 + 4] = 255
    seen = apply(dots, BY_NAME["fisheye"], 2.0, 0)[..., 0] > 127
    rows, columns = np.nonzero(seen)
    assert abs(rows.mean() - SIZE / 2) < 2
    assert abs(columns.mean() - SIZE / 2) < 2
    assert seen.sum() > 2 * 64


@pytest.mark.parametrize(
    "array", [np.zeros((8, 9, 3), np.uint8), np.zeros((8, 8), np.uint8), np.zeros((8, 8, 3), np.float32)]
)
def test_what_is_no_square_rgb_image_is_refused(array: np.ndarray) -> None:
    with pytest.raises(ValueError, match="square RGB"):
        apply(array, CONDITIONS[0], 1.0, 0)


@pytest.mark.parametrize("strength", [-1.0, float("nan")])
def test_a_strength_below_zero_is_refused(strength: float, image: np.ndarray) -> None:
    with pytest.raises(ValueError, match="strength"):
        apply(image, CONDITIONS[0], strength, 0)


def test_captures_are_all_tests_of_the_loaded_image(tmp_path: Path) -> None:
    path = fill(tmp_path, 1, suffix=".png")[0]
    found = list(captures(path, 32))
    assert len(found) == len(TESTS) == 2 * len(CONDITIONS)
    assert all(_distance(one, load(path, 32)) > 0 for one in found)
    for first, second in zip(found, captures(path, 32), strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_random_capture_follows_its_seed(image: np.ndarray) -> None:
    np.testing.assert_array_equal(random_capture(image, [4, 1]), random_capture(image, [4, 1]))
    assert len({random_capture(image, [4, epoch]).tobytes() for epoch in range(6)}) == 6

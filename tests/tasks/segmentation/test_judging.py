"""Masks are judged by their overlap, and by their boundaries."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from advisor.datasets import IGNORED_LABEL, Mask
from advisor.measurement import Overlaps
from advisor.tasks.segmentation._judging import boundary_f1, compare_masks
from tests.tasks.segmentation.shapes import save

TABLE = st.lists(st.tuples(*[st.integers(0, 50)] * 6), min_size=2, max_size=20)


def masks(folder: Path, *content: np.ndarray) -> list[Mask]:
    """Write masks whose values are classes, 255 ignored."""
    pairs = tuple((value, value) for value in range(5))
    return [
        Mask(str(place), each.shape, str(save(folder / f"{place}.png", each.astype(np.uint8))), pairs)
        for place, each in enumerate(content)
    ]


def answers(*content: np.ndarray) -> np.ndarray:
    """Return what a file answered."""
    return np.stack(content).astype(np.uint8)


def halves(left: int, right: int, side: int = 16) -> np.ndarray:
    """A mask of two classes side by side."""
    return np.repeat([[left] * (side // 2) + [right] * (side // 2)], side, axis=0)


def test_the_overlap_of_each_class_is_over_all_images(tmp_path: Path) -> None:
    true = masks(tmp_path, halves(0, 1), halves(0, 0))
    reached = compare_masks(answers(halves(0, 1), halves(0, 1)), true, 3)
    np.testing.assert_equal(reached.by_class, [2 / 3, 1 / 2, np.nan])
    assert reached.figure.value == pytest.approx(7 / 12)
    assert reached.figure.low <= 7 / 12 <= reached.figure.high
    assert reached.right.value == 3 / 4
    assert reached.of_images.tolist() == [1.0, 0.25]


def test_ignored_pixels_do_not_count_and_masks_are_compared_at_the_size_of_the_image(tmp_path: Path) -> None:
    true = masks(tmp_path, halves(0, IGNORED_LABEL))
    reached = compare_masks(answers(halves(0, 1)), true, 2)
    np.testing.assert_equal(reached.by_class, [1.0, np.nan])
    true = masks(tmp_path, np.kron(halves(0, 1), np.ones((2, 3))))
    assert compare_masks(answers(halves(0, 1)), true, 2).by_class.tolist() == [1.0, 1.0]


@given(TABLE)
def test_the_mean_of_the_shares_is_the_mean_iou(rows: list[tuple[int, ...]]) -> None:
    table = np.array(rows, np.int64)
    both, either = table[:, :3], table[:, :3] + table[:, 3:]
    if not either.any():
        return
    reached = Overlaps(both, either)
    assert np.mean(reached.shares) == pytest.approx(np.nanmean(reached.by_class), abs=1e-9)


def scenes(films: int, frames: int, rng: np.random.Generator) -> Overlaps:
    """Return overlaps of frames of films; each film is as hard as it is for three quarters of its frames' variance."""
    hard = 0.6 + 0.09 * rng.standard_normal((films, 1)) + 0.05 * rng.standard_normal((films, frames))
    either = rng.integers(500, 5000, (films * frames, 3))
    both = either * np.clip(hard.reshape(-1, 1) + 0.02 * rng.standard_normal((films * frames, 3)), 0, 1)
    return Overlaps(both.astype(np.int64), either, groups=np.repeat(np.arange(films), frames).tolist())


@pytest.mark.parametrize(("films", "frames"), [(6, 12), (72, 1), (12, 1)])
def test_the_range_holds_the_figure_of_as_many_other_films(films: int, frames: int) -> None:
    rng = np.random.default_rng(0)
    pairs = [(scenes(films, frames, rng).figure, scenes(films, frames, rng).figure.value) for _ in range(300)]
    held = np.mean([own.low <= other <= own.high for own, other in pairs])
    assert 0.92 <= held <= 0.98


def test_one_image_shows_nothing_of_others() -> None:
    alone = scenes(1, 1, np.random.default_rng(0)).figure
    assert (alone.low, alone.high) == (0.0, 1.0)


def test_a_better_image_has_a_larger_share(tmp_path: Path) -> None:
    true = masks(tmp_path, halves(0, 1), halves(0, 1), halves(0, 1))
    shares = compare_masks(answers(halves(0, 1), halves(0, 0), halves(1, 0)), true, 2).shares
    assert shares[0] > shares[1] > shares[2]


def test_boundaries_within_the_tolerance_are_right_and_an_image_without_one_if_none_is_found(tmp_path: Path) -> None:
    side = 200
    moved = [np.where(np.arange(side)[None] < side // 2 + by, 0, 1) * np.ones((side, 1)) for by in (0, 1, 20)]
    true = masks(tmp_path, *[halves(0, 1, side)] * 3)
    found = boundary_f1(answers(*moved), true)
    assert found[:2] == [1.0, 1.0]
    assert found[2] == 0.0
    true = masks(tmp_path, halves(0, 0), halves(0, 0))
    assert boundary_f1(answers(halves(0, 0), halves(0, 1)), true) == [1.0, 0.0]

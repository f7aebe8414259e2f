from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from advisor.compression.calibration import choose, from_images, from_photographs
from advisor.datasets.images import InputSpec, load
from tests.datasets.folders import fill


@given(st.lists(st.integers(0, 4), min_size=1, max_size=100), st.integers(1, 60), st.integers(0, 9))
def test_the_choice_takes_classes_in_turn(labels: list[int], count: int, seed: int) -> None:
    chosen = choose(labels, count, seed)
    assert len(chosen) == len(set(chosen)) == min(count, len(labels))
    taken, had = Counter(labels[place] for place in chosen), Counter(labels)
    fullest = max(taken.values())
    assert all(taken[label] >= min(had[label], fullest - 1) for label in had)


def test_the_choice_follows_the_seed() -> None:
    labels = [0, 1] * 50
    assert choose(labels, 10, 0) == choose(labels, 10, 0) != choose(labels, 10, 1)


def test_images_come_as_the_model_takes_them(tmp_path: Path) -> None:
    paths = fill(tmp_path, 3)
    found = from_images(paths, InputSpec(16, (10.0, 20.0, 30.0), (2.0, 4.0, 8.0)))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[1], (load(paths[1], 16) - np.array([10, 20, 30])) / np.array([2, 4, 8]), rtol=1e-6)


def test_photographs_are_many_and_different() -> None:
    crops = from_photographs(InputSpec(32, (0.0,) * 3, (255.0,) * 3))
    assert len(crops) >= 40
    assert len({crop.tobytes() for crop in crops}) == len(crops)
    assert 0.0 <= crops.min() < 0.05
    assert 0.95 < crops.max() <= 1.0


def test_photographs_are_smooth_as_no_noise_is() -> None:
    crops = from_photographs(InputSpec(64, (0.0,) * 3, (255.0,) * 3))
    steps = np.abs(np.diff(crops, axis=2)).mean(axis=(1, 2, 3))
    spread = crops.std(axis=(1, 2, 3))
    assert (steps < 0.8 * spread).all()


def test_photographs_follow_the_seed() -> None:
    one, same, other = (from_photographs(InputSpec(16, (0.0,) * 3, (1.0,) * 3), seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from advisor.datasets.images import load
from advisor.training import batches
from advisor.training.batches import Batches
from tests.datasets.folders import fill


@pytest.mark.parametrize("cached", [True, False])
def test_batches_hold_images_and_labels_in_the_order_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: bool
) -> None:
    if not cached:
        monkeypatch.setattr(batches, "MAX_CACHE_BYTES", 0)
    paths = fill(tmp_path / "pictures", 7)
    made = Batches(paths, range(7), 16, tmp_path / "kept.npy")
    order = np.array([5, 1, 6, 0, 2])
    found = list(made.epoch(order, 2))
    assert [len(labels) for _, labels in found] == [2, 2, 1]
    assert np.concatenate([labels for _, labels in found]).tolist() == order.tolist()
    np.testing.assert_array_equal(found[1][0][0], load(paths[6], 16))
    assert (tmp_path / "kept.npy").exists() == cached


def test_the_cache_is_used_again(tmp_path: Path) -> None:
    paths = fill(tmp_path / "pictures", 3)
    Batches(paths, [0, 1, 0], 16, tmp_path / "kept.npy")
    for path in paths:
        path.unlink()
    ((images, _),) = Batches(paths, [0, 1, 0], 16, tmp_path / "kept.npy").epoch(np.arange(3), 8)
    assert images.shape == (3, 16, 16, 3)


def test_a_cache_of_another_shape_is_made_anew(tmp_path: Path) -> None:
    paths = fill(tmp_path / "pictures", 3)
    Batches(paths, [0, 1, 0], 16, tmp_path / "kept.npy")
    ((images, _),) = Batches(paths[:2], [0, 1], 8, tmp_path / "kept.npy").epoch(np.arange(2), 8)
    assert images.shape == (2, 8, 8, 3)

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from advisor.training.head.train import divided, folds


@given(st.lists(st.integers(0, 3), min_size=1, max_size=80), st.integers(2, 6), st.integers(0, 99))
def test_folds_share_every_class_out_evenly(labels: list[int], count: int, seed: int) -> None:
    fold = folds(np.array(labels), count, seed)
    for label in set(labels):
        sizes = np.bincount(fold[np.array(labels) == label], minlength=count)
        assert sizes.max() - sizes.min() <= 1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=80), st.integers(0, 99))
def test_folds_keep_groups_together(images: list[tuple[int, int]], seed: int) -> None:
    labels, groups = (np.array(column) for column in zip(*images, strict=True))
    fold = folds(labels, 5, seed, groups.tolist())
    assert all(len(set(fold[groups == group])) == 1 for group in set(groups.tolist()))


def test_folds_of_groups_share_every_class_out() -> None:
    labels, groups = np.repeat([0, 1, 2], 60), np.arange(180) // 4
    fold = folds(labels, 5, 0, groups.tolist())
    for label in range(3):
        assert np.bincount(fold[labels == label], minlength=5).tolist() == [12] * 5


def test_a_class_of_two_groups_keeps_them() -> None:
    assert divided(np.array([0, 0, 0, 1, 1]), [4, 4, 7, 9, 9])[:3] == [4, 4, 7]

from __future__ import annotations

import numpy as np
import pytest

from advisor.training.labels.out_of_sample import left_out
from advisor.training.labels.wrong_labels import suspects
from tests.training.head.blobs import blobs


@pytest.mark.parametrize("landmarks", [300, 60])
def test_swapped_labels_are_named_with_the_right_one(landmarks: int) -> None:
    features, labels = blobs(300)
    given = list(labels)
    for index in range(0, 300, 20):
        given[index] = (labels[index] + 1) % 3
    found = suspects(given, left_out(features, given, (), 0, landmarks))
    swapped = set(range(0, 300, 20))
    assert len(swapped & {one.index for one in found}) >= 13
    assert len(found) <= 17
    assert all(one.suggested == labels[one.index] and one.better > one.given for one in found if one.index in swapped)


def test_so_are_those_of_many_classes() -> None:
    features, labels = blobs(3000, classes=100, apart=0.8)
    swapped = np.random.default_rng(1).permutation(3000)[:150]
    given = np.array(labels)
    given[swapped] = (given[swapped] + 1) % 100
    found = {one.index for one in suspects(given.tolist(), left_out(features, given.tolist(), (), 0, 500))}
    assert len(found & {*swapped}) >= 0.8 * len(swapped)
    assert len(found & {*swapped}) >= 0.6 * len(found)


def test_right_labels_are_left_alone() -> None:
    features, labels = blobs(300)
    assert suspects(labels, left_out(features, labels, (), 0)) == ()

from __future__ import annotations

import numpy as np

from advisor.training.wrong_labels import KERNEL_PICTURES, out_of_fold, suspects


def _blobs(count: int, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, list[int]]:
    draw = np.random.default_rng(seed)
    labels = [index % classes for index in range(count)]
    centres = 2.0 * draw.standard_normal((classes, 32))
    return (centres[labels] + draw.standard_normal((count, 32))).astype(np.float32), labels


def test_swapped_labels_are_named_with_the_right_one() -> None:
    features, labels = _blobs(300)
    given = list(labels)
    for index in range(0, 300, 20):
        given[index] = (labels[index] + 1) % 3
    found = suspects(given, out_of_fold(features, given, (), 0))
    swapped = set(range(0, 300, 20))
    assert len(swapped & {one.index for one in found}) >= 13
    assert len(found) <= 17
    assert all(one.suggested == labels[one.index] and one.better > one.given for one in found if one.index in swapped)


def test_so_are_those_of_many_pictures_that_a_linear_classifier_judges() -> None:
    features, labels = _blobs(KERNEL_PICTURES + 1)
    given = list(labels)
    swapped = range(0, KERNEL_PICTURES, 50)
    for index in swapped:
        given[index] = (labels[index] + 1) % 3
    found = {one.index for one in suspects(given, out_of_fold(features, given, (), 0))}
    assert len(found & {*swapped}) >= 0.8 * len(swapped)
    assert found <= {*swapped}


def test_right_labels_are_left_alone() -> None:
    features, labels = _blobs(300)
    assert suspects(labels, out_of_fold(features, labels, (), 0)) == ()


def test_copies_with_one_wrong_label_do_not_vouch_for_each_other() -> None:
    features, labels = _blobs(300)
    features[1:5], given = features[0], list(labels)
    given[0:5] = [(labels[0] + 1) % 3] * 5
    together = [tuple(range(5))]
    apart, joined = (out_of_fold(features, given, groups, 0) for groups in ((), together))
    assert joined[:5, given[0]].max() < apart[:5, given[0]].min()


def test_probabilities_are_those_of_every_picture() -> None:
    features, labels = _blobs(60)
    probabilities = out_of_fold(features, labels, (), 0)
    assert probabilities.shape == (60, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-4)
    np.testing.assert_array_equal(probabilities, out_of_fold(features, labels, (), 0))


def test_classes_of_five_are_enough() -> None:
    features, labels = _blobs(15)
    assert out_of_fold(features, labels, (), 0).shape == (15, 3)

from __future__ import annotations

import numpy as np
import pytest

from advisor.training import labels as module
from advisor.training.labels import left_out, suspects
from tests.training.head.blobs import blobs


def _regression(landmarks: int) -> module._Regression:
    features, labels = blobs(80)
    return module._fit((features / 8).astype(np.float32), np.eye(3)[labels], 0, landmarks)


@pytest.mark.parametrize("landmarks", [80, 30])
def test_a_row_gets_the_answer_of_a_fit_to_the_others(landmarks: int) -> None:
    regression = _regression(landmarks)
    answers = regression.without_each()
    for row in (0, 17, 79):
        np.testing.assert_allclose(answers[row], regression._fitted_without([row])[0], atol=1e-6)


@pytest.mark.parametrize("landmarks", [80, 30])
def test_so_does_a_group(landmarks: int) -> None:
    regression, group = _regression(landmarks), [3, 4, 40, 71]
    np.testing.assert_allclose(regression.without(group), regression._fitted_without(group), atol=1e-6)


def test_a_group_of_more_than_the_landmarks_is_left_out_too() -> None:
    regression, group = _regression(30), list(range(0, 80, 2))
    kernel = module._kernel(regression.rows, regression.places, group)
    others = np.setdiff1d(np.arange(80), group)
    rest = module._kernel(regression.rows, regression.places, others)
    normal = regression.normal - kernel.T @ kernel
    np.testing.assert_allclose(
        regression.without(group), kernel @ np.linalg.solve(normal, rest.T @ regression.wanted[others]), atol=1e-6
    )


def test_copies_with_one_wrong_label_do_not_vouch_for_each_other() -> None:
    features, labels = blobs(300)
    features[1:5], given = features[0], list(labels)
    given[0:5] = [(labels[0] + 1) % 3] * 5
    together = [tuple(range(5))]
    apart, joined = (left_out(features, given, groups, 0) for groups in ((), together))
    assert joined[:5, given[0]].max() < apart[:5, given[0]].min()


def test_probabilities_are_those_of_every_image() -> None:
    features, labels = blobs(60)
    probabilities = left_out(features, labels, (), 0)
    assert probabilities.shape == (60, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-4)
    np.testing.assert_array_equal(probabilities, left_out(features, labels, (), 0))


def test_classes_of_five_are_enough() -> None:
    features, labels = blobs(15)
    assert left_out(features, labels, (), 0).shape == (15, 3)


def test_images_that_are_all_the_same_get_finite_probabilities() -> None:
    probabilities = left_out(np.ones((20, 7), np.float32), [0, 1] * 10, [(0, 1, 2)], 0)
    assert np.isfinite(probabilities).all()


def test_classes_whose_images_are_all_in_one_group_get_finite_probabilities() -> None:
    features, labels = blobs(30)
    group = [index for index, label in enumerate(labels) if label == 1]
    assert np.isfinite(left_out(features, labels, [group], 0)).all()
    assert np.isfinite(left_out(features, labels, [list(range(30))], 0)).all()


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

"""The estimate for images of another occasion, on made features whose occasions are known."""

import numpy as np
import pytest
from numpy.typing import NDArray

from advisor.training import _expectation as expectation, expect_new_conditions

Floats, Labels = NDArray[np.float32], NDArray[np.int64]
WIDTH, CLASSES = 48, 8


def visits(count: int, images: int, seed: int = 0, noise: float = 0.25) -> tuple[Floats, Labels]:
    """Return features and labels: each class is photographed on so many visits, each an offset of its own."""
    random = np.random.default_rng(seed)
    kinds = np.random.default_rng(99).normal(size=(CLASSES, WIDTH))
    labels = np.repeat(np.arange(CLASSES), count * images)
    offsets = random.normal(size=(CLASSES * count, WIDTH)).repeat(images, axis=0)
    rows = kinds[labels] + 1.6 * offsets + noise * random.normal(size=(len(labels), WIDTH))
    return rows.astype(np.float32), labels


def nearest_mean(seen: Floats, labels: Labels, unseen: Floats) -> Labels:
    means = np.stack([seen[labels == label].mean(axis=0) for label in range(CLASSES)])
    found: Labels = np.square(unseen[:, None] - means).sum(axis=2).argmin(axis=1)
    return found


def test_images_of_few_visits_are_expected_to_do_worse_on_another_visit() -> None:
    features, labels = visits(4, 8)
    others, truth = visits(20, 2, seed=1)
    found = expect_new_conditions(features, labels.tolist(), range(0, len(labels), 4))
    right = (nearest_mean(features, labels, others) == truth).mean()
    assert found.kept < 0.9
    assert found.kept_low - 2 * found.sd <= right <= found.kept_high + 2 * found.sd
    assert found.clusters == 4 * CLASSES


def test_images_that_were_taken_one_by_one_keep_their_figure() -> None:
    features, labels = visits(32, 1)
    found = expect_new_conditions(features, labels.tolist(), range(0, len(labels), 4))
    assert (found.kept_low, found.kept, found.kept_high, found.sd) == (1.0, 1.0, 1.0, 0.0)
    assert found.silhouette < expectation.STRUCTURE[0]


def test_a_validation_part_of_whole_visits_is_not_counted_twice() -> None:
    features, labels = visits(4, 8)
    drawn, whole = range(0, len(labels), 4), np.flatnonzero(np.arange(len(labels)) // 8 % 4 == 0)
    assert (
        expect_new_conditions(features, labels.tolist(), drawn).kept
        < expect_new_conditions(features, labels.tolist(), whole.tolist()).kept - 0.1
    )


def test_an_image_of_left_out_group_is_answered_as_by_a_classifier_without_it() -> None:
    features, labels = visits(3, 4, noise=1.0)
    rows = (features - features.mean(axis=0)) / features.std(axis=0)
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    groups = np.arange(len(labels)) // 4
    right = expectation._Ridge.fit_rows(rows, labels).find_right_without(groups)
    for group in (0, 5, 23):
        seen = groups != group
        kernel = rows[seen] @ rows[seen].T + 1.0 + expectation.PENALTY * np.eye(seen.sum())
        weights = np.linalg.solve(kernel, np.eye(CLASSES)[labels[seen]])
        answers = ((rows[~seen] @ rows[seen].T + 1.0) @ weights).argmax(axis=1)
        assert (right[~seen] == (answers == labels[~seen])).all()


def test_few_classes_without_an_error_are_uncertain() -> None:
    features, labels = visits(4, 8)
    some = labels < 3
    few = expect_new_conditions(features[some], labels[some].tolist(), range(0, int(some.sum()), 4), grouped=True)
    assert few.kept > 0.95
    assert few.sd > 0.1
    assert few.sd > 1.5 * expectation._deviation_unseen(0.95, np.repeat(np.arange(30), 8))


def test_known_groups_count_where_the_clusters_of_the_features_are_not_clear() -> None:
    features, labels = visits(4, 8, noise=2.0)
    unclear, known = (
        expect_new_conditions(features, labels.tolist(), range(0, len(labels), 4), grouped) for grouped in (False, True)
    )
    assert unclear.silhouette < expectation.STRUCTURE[0]
    assert not unclear.grouped
    assert known.grouped
    assert known.kept < unclear.kept == 1.0


def test_a_large_set_is_judged_by_some_of_its_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectation, "MAX_IMAGES", 100)
    features, labels = visits(6, 8)
    found = expect_new_conditions(features, labels.tolist(), range(0, len(labels), 4))
    assert found.images <= 100 + 2 * CLASSES
    assert found.kept < 1.0


@pytest.mark.parametrize("counts", [(1, 5), (2, 2), (1, 1)])
def test_classes_of_one_or_two_images_have_an_estimate(counts: tuple[int, int]) -> None:
    labels = np.repeat([0, 1], counts)
    features = np.random.default_rng(0).normal(size=(len(labels), 4)).astype(np.float32)
    found = expect_new_conditions(features, labels.tolist(), [0])
    assert 0.0 <= found.kept_low <= found.kept <= found.kept_high <= 1.0


def test_copies_of_one_image_a_class_say_nothing_of_other_occasions() -> None:
    features = np.repeat(np.eye(3, 6, dtype=np.float32), 5, axis=0)
    found = expect_new_conditions(features, np.repeat(range(3), 5).tolist(), [0, 5])
    assert found.kept == 1.0

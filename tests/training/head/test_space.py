import tracemalloc

import numpy as np
import pytest
from hypothesis import given, strategies as st

from advisor.training._head import space
from advisor.training._head.folds import assign_folds, divide_groups
from advisor.training._head.space import find_space, find_unit_space


def _features(rows: int, width: int) -> np.ndarray:
    random = np.random.default_rng(0)
    mixed = random.normal(size=(rows, 12)) @ random.normal(size=(12, width))
    return (5 + 3 * mixed + 0.1 * random.normal(size=(rows, width))).astype(np.float32)


@pytest.mark.parametrize(("rows", "width"), [(40, 90), (200, 90)])
def test_directions_keep_what_tells_rows_apart(rows: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "DIMENSIONS", 20)
    features = _features(rows, width)
    inside = find_space(features).enter(features)
    standard = (features - features.mean(axis=0)) / features.std(axis=0)
    assert inside.shape == (rows, 20)
    assert np.square(inside).sum() > 0.98 * np.square(standard).sum()
    np.testing.assert_allclose(inside @ inside.T, standard @ standard.T, atol=0.05 * width)


def test_few_features_are_only_standardised_and_fewer_rows_give_as_many_directions() -> None:
    features = _features(50, 8)
    inside = find_space(features).enter(features)
    np.testing.assert_allclose(inside, (features - features.mean(axis=0)) / features.std(axis=0), atol=1e-3)
    features = _features(30, space.DIMENSIONS + 100)
    assert find_space(features).enter(features).shape[1] < 30


def test_features_of_the_last_layer_keep_their_proportions() -> None:
    features = _features(50, 8) * np.geomspace(1, 100, 8, dtype=np.float32)
    inside = find_space(features, last=6).enter(features)
    centred = features - features.mean(axis=0)
    scale = features.std(axis=0) / space.LEVELS_SCALE
    scale[:6] = np.sqrt(np.square(features[:, :6].std(axis=0)).mean())
    expected = centred / scale
    np.testing.assert_allclose(inside @ inside.T, expected @ expected.T, atol=1e-2)


def test_a_head_that_leaves_answers_as_it_did_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "DIMENSIONS", 16)
    features = _features(60, 40)
    found = find_space(features)
    random = np.random.default_rng(1)
    weights, bias = random.normal(size=(16, 3)).astype(np.float32), random.normal(size=3).astype(np.float32)
    outside = found.leave(weights, bias)
    np.testing.assert_allclose(
        features @ outside[0] + outside[1], found.enter(features) @ weights + bias, rtol=1e-3, atol=1e-2
    )


def test_a_head_on_directions_leaves_as_one_without_a_bias() -> None:
    features = np.abs(_features(60, 40))
    found, random = find_unit_space(features), np.random.default_rng(1)
    inside = found.enter(features)
    weights = random.normal(size=(inside.shape[1], 3)).astype(np.float32)
    bias = random.normal(size=3).astype(np.float32)
    outside, none = found.leave(weights, bias)
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    expected = lengths / lengths.mean() * (inside @ weights + found.constant(features) * bias)
    np.testing.assert_allclose(features @ outside, expected, rtol=1e-3, atol=1e-2)
    assert not none.any()


def test_directions_do_not_depend_on_length_and_features_of_zero_have_none() -> None:
    features = np.abs(_features(60, 40))
    found = find_unit_space(features)
    np.testing.assert_allclose(found.enter(7 * features), found.enter(features), atol=1e-4)
    np.testing.assert_allclose(found.constant(7 * features), found.constant(features), atol=1e-5)
    assert found.constant(features).mean() == pytest.approx(1, abs=1e-4)
    features[3] = 0
    assert not find_unit_space(features).enter(features)[3].any()


def test_a_feature_that_never_changes_does_no_harm() -> None:
    features = _features(30, 6)
    features[:, 2] = 7
    assert np.isfinite(find_space(features).enter(features)).all()


def test_many_rows_take_little_more_memory_than_themselves() -> None:
    features = np.random.default_rng(0).normal(size=(5 * space._ROWS, 64)).astype(np.float32)
    tracemalloc.start()
    found = find_space(features)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < features.nbytes
    np.testing.assert_allclose(found.mean, features.mean(axis=0), atol=1e-4)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=80), st.integers(2, 6), st.integers(0, 99))
def test_folds_share_every_class_out_evenly(labels: list[int], count: int, seed: int) -> None:
    fold = assign_folds(np.array(labels), count, seed)
    for label in set(labels):
        sizes = np.bincount(fold[np.array(labels) == label], minlength=count)
        assert sizes.max() - sizes.min() <= 1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=80), st.integers(0, 99))
def test_folds_keep_groups_together(images: list[tuple[int, int]], seed: int) -> None:
    labels, groups = (np.array(column) for column in zip(*images, strict=True))
    fold = assign_folds(labels, 5, seed, groups.tolist())
    assert all(len(set(fold[groups == group])) == 1 for group in set(groups.tolist()))


def test_folds_of_groups_share_every_class_out() -> None:
    labels, groups = np.repeat([0, 1, 2], 60), np.arange(180) // 4
    fold = assign_folds(labels, 5, 0, groups.tolist())
    for label in range(3):
        assert np.bincount(fold[labels == label], minlength=5).tolist() == [12] * 5


def test_a_class_of_two_groups_keeps_them() -> None:
    assert divide_groups(np.array([0, 0, 0, 1, 1]), [4, 4, 7, 9, 9])[:3] == [4, 4, 7]

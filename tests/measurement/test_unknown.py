from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.core.statistics import Interval
from advisor.measurement.unknown import Neighbours, accepted, auroc, mean_of, rule

RANDOM = np.random.default_rng(0)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def low_rank(rows: np.ndarray, rank: int) -> np.ndarray:
    left, values, right = np.linalg.svd(rows, full_matrices=False)
    return left[:, :rank] * values[:rank] @ right[:rank]


SCORES = st.lists(st.integers(-5, 5), min_size=1, max_size=30).map(np.array)


@given(SCORES, SCORES)
def test_auroc_is_that_of_scikit_learn_and_inside_its_interval(known: np.ndarray, unknown: np.ndarray) -> None:
    from sklearn.metrics import roc_auc_score

    found = auroc(known, unknown)
    truth = np.repeat([0, 1], [len(known), len(unknown)])
    assert found.value == pytest.approx(roc_auc_score(truth, np.concatenate([known, unknown])))
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_the_interval_of_auroc_holds_the_true_one_in_about_95_of_100_draws() -> None:
    held = 0
    for _ in range(200):
        found = auroc(RANDOM.normal(0, 1, 150), RANDOM.normal(1, 1, 60))
        held += found.low <= 0.7602 <= found.high
    assert 180 <= held <= 199


def test_auroc_without_an_unknown_image_is_refused() -> None:
    with pytest.raises(ValueError, match="no unknown"):
        auroc(np.zeros(3), np.zeros(0))


def test_neighbours_of_full_rank_give_the_largest_cosine() -> None:
    features, others = RANDOM.random((20, 12)), RANDOM.random((7, 12))
    found = Neighbours.of(features, 12).similarity(others)
    np.testing.assert_allclose(found, (unit(others) @ unit(features).T).max(axis=1), atol=1e-5)


def test_neighbours_are_the_same_by_images_and_by_features() -> None:
    features, others = RANDOM.random((30, 40)), RANDOM.random((7, 40))
    wide = Neighbours.of(features, 10).similarity(others)
    padded = np.vstack([features, np.repeat(features[:1], 20, axis=0)])  # more rows than features, of equal images
    truth = (unit(others) @ low_rank(unit(padded), 10).T).max(axis=1)
    np.testing.assert_allclose(Neighbours.of(padded, 10).similarity(others), truth, atol=1e-5)
    np.testing.assert_allclose(wide, (unit(others) @ low_rank(unit(features), 10).T).max(axis=1), atol=1e-5)


def test_neighbours_of_equal_images_are_finite() -> None:
    near = Neighbours.of(np.repeat(RANDOM.random((1, 40)), 8, axis=0), 8)
    assert np.isfinite(near.axes).all()
    assert near.similarity(RANDOM.random((3, 40))).max() <= 1 + 1e-5


def test_neighbours_have_at_most_the_rank_of_the_images() -> None:
    near = Neighbours.of(RANDOM.random((5, 40)), 64)
    assert (near.axes.shape, near.images.shape) == ((40, 5), (5, 5))


def test_the_rule_keeps_the_wanted_share_of_known_images() -> None:
    logits, similarity = RANDOM.normal(0, 3, (400, 5)), RANDOM.random(400)
    found = rule(logits, similarity, 0.9)
    assert (found.scores(logits, similarity) <= 1e-9).mean() == pytest.approx(0.9, abs=0.01)


def test_the_rule_of_equally_near_images_reads_the_logits_alone() -> None:
    assert rule(RANDOM.normal(0, 1, (50, 3)), np.ones(50)).weight == 0


def test_accepted_counts_unknown_images_below_the_score_that_keeps_known_ones() -> None:
    assert accepted(np.arange(100.0), np.array([0.0, 50.0, 99.0, 200.0])) == pytest.approx(0.5)


def test_the_mean_of_independent_figures_is_narrower() -> None:
    found = mean_of([Interval(0.8, 0.7, 0.9)] * 4)
    assert (found.value, found.high - found.low) == (pytest.approx(0.8), pytest.approx(0.1))

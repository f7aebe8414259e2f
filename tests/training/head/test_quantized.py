"""Heads for the features that a quantized backbone gives: shifted, scaled and noisy ones."""

import numpy as np
import pytest

from advisor.core import HeadFacts
from advisor.training import LAST_LAYER, fit_head, match_logits, refit_head
from advisor.training._head.quantized import compute_divergence
from advisor.training._head.trials import ALL_LEVELS, COSINE, NEAREST_MEAN
from tests.training.head.blobs import blobs

CLASSES = 3


def facts(kind: str = ALL_LEVELS, strength: float = 0.1) -> HeadFacts:
    return HeadFacts(kind, strength, at_grid_end=False, cv_accuracy=0.9, cv_images=150)


def quantized(features: np.ndarray, seed: int = 1, noise: float = 0.2) -> np.ndarray:
    """Shift each feature by a constant, scale it, and add noise, as rounding does."""
    random = np.random.default_rng(0)
    moved = features * random.uniform(0.6, 1.2, features.shape[1]) + random.normal(0, 1.5, features.shape[1])
    return (moved + np.random.default_rng(seed).normal(0, noise, features.shape)).astype(np.float32)


def accuracy(rows: np.ndarray, labels: list[int], head: tuple[np.ndarray, np.ndarray]) -> float:
    return float(((rows @ head[0] + head[1]).argmax(axis=1) == labels).mean())


@pytest.mark.parametrize("kind", [ALL_LEVELS, LAST_LAYER, COSINE, NEAREST_MEAN])
def test_a_refitted_head_regains_what_shifted_features_lost(kind: str) -> None:
    features, labels = blobs(240, apart=0.6)
    train, unseen = slice(0, 150), slice(150, None)
    strength = 0.0 if kind == NEAREST_MEAN else 0.1
    joined = fit_head(features[train], labels[train], CLASSES, strength, (), kind, 32)
    rows = quantized(features)
    found = refit_head(rows[train], features[train], labels[train], CLASSES, facts(kind, strength), 32, 0)
    assert found is not None
    assert accuracy(rows[unseen], labels[unseen], found) > accuracy(rows[unseen], labels[unseen], joined) + 0.05


def test_the_joined_head_stays_where_a_refit_is_worse() -> None:
    """Noise of few images is learnt by heart, and the head of the features without it is better."""
    features, labels = blobs(60, apart=0.6)
    noisy = features + 3 * np.random.default_rng(2).standard_normal(features.shape).astype(np.float32)
    assert refit_head(noisy, features, labels, CLASSES, facts(strength=0.01), 0, 0) is None


def test_a_class_of_two_images_whole_groups_and_features_of_the_last_layer_are_no_obstacle() -> None:
    features, labels = blobs(100, classes=2)
    labels[:2] = [2, 2]
    groups = [place // 4 for place in range(100)]
    found = refit_head(quantized(features), features, labels, CLASSES, facts(), 0, 0, groups)
    assert found[0].shape == (32, CLASSES)
    assert np.isfinite(found[0]).all()
    # The last layer may have fewer features than all levels of the backbone.
    features, labels = blobs(150)
    rows = quantized(features)[:, :20]
    found = refit_head(rows, features[:, :20], labels, CLASSES, facts(LAST_LAYER), 20, 0)
    assert found[0].shape == (20, CLASSES)


def test_matched_logits_are_nearer_to_those_of_the_float_file_on_unseen_images() -> None:
    features, labels = blobs(240, apart=0.6)
    train, unseen = slice(0, 150), slice(150, None)
    weights, bias = fit_head(features[train], labels[train], CLASSES, 0.1)
    rows, wanted = quantized(features), features @ weights + bias
    found = match_logits(rows[train], wanted[train], weights, bias)
    assert found is not None
    before, after = (
        compute_divergence(wanted[unseen], rows[unseen] @ head[0] + head[1]).mean() for head in ((weights, bias), found)
    )
    assert after < before / 4


@pytest.mark.parametrize(("count", "moved"), [(9, True), (150, False)], ids=["too few images", "nothing lost"])
def test_the_head_stays_where_nothing_can_be_gained(count: int, moved: bool) -> None:
    features, labels = blobs(150)
    weights, bias = fit_head(features, labels, CLASSES, 0.1)
    rows = quantized(features) if moved else features
    assert match_logits(rows[:count], features[:count] @ weights + bias, weights, bias) is None


def test_logits_that_cannot_be_foretold_keep_the_head() -> None:
    """The logits miss by what the features do not explain: each change of the head would be learnt by heart."""
    features, labels = blobs(120)
    weights, bias = fit_head(features, labels, CLASSES, 0.1)
    basis, _ = np.linalg.qr(np.column_stack([features, np.ones(120)]))
    noise = 2 * np.random.default_rng(0).standard_normal((120, CLASSES))
    noise -= basis @ (basis.T @ noise)
    assert match_logits(features, (features @ weights + bias + noise).astype(np.float32), weights, bias) is None


@pytest.mark.parametrize("by", [0.0, 3.0])
def test_the_divergence_is_that_of_the_probabilities(by: float) -> None:
    logits = np.log(np.array([[0.5, 0.25, 0.25]]))
    assert compute_divergence(logits, logits + by) == pytest.approx(0.0, abs=1e-12)
    assert compute_divergence(logits, np.zeros((1, 3))) == pytest.approx(0.5 * np.log(1.5) + 0.5 * np.log(0.75))

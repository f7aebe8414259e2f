import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from advisor.core import StageError
from advisor.training import fit_head, train_head
from advisor.training._head import Head
from advisor.training._head.folds import divide_groups
from advisor.training._head.trials import GRID, STRONGER, WEAKER
from tests.builders import must_fail
from tests.tables import with_cases

pytestmark = pytest.mark.integration


def _clouds(counts: list[int], width: int = 24, distance: float = 3.0, seed: int = 0) -> tuple[np.ndarray, list[int]]:
    """Features of classes that lie around centres of their own, badly scaled and far from zero."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((len(counts), width)) * distance / np.sqrt(width)
    labels = [label for label, count in enumerate(counts) for _ in range(count)]
    scale = np.geomspace(1e-3, 1e3, width)
    rows = (centres[labels] + random.standard_normal((len(labels), width))) * scale + 5 * scale
    return rows.astype(np.float32), labels


def _labels(head: Head, features: np.ndarray) -> np.ndarray:
    """What the head answers."""
    return (features @ head.weights + head.bias).argmax(axis=1)


def test_the_head_works_on_raw_features() -> None:
    features, labels = _clouds([60, 60, 60], distance=12)
    head = train_head(features, labels, 3, seed=0)
    assert (head.weights.shape, head.bias.shape) == ((24, 3), (3,))
    assert (head.weights.dtype, head.bias.dtype) == (np.float32, np.float32)
    unseen, truth = _clouds([60, 60, 60], distance=12, seed=1)
    assert (_labels(head, unseen) == truth).mean() > 0.97


def test_each_image_has_an_answer_of_a_head_that_did_not_learn_it_which_flatters_nothing() -> None:
    random = np.random.default_rng(0)
    features, labels = random.standard_normal((200, 400)).astype(np.float32), random.integers(0, 4, 200)
    head = train_head(features, labels.tolist(), 4, seed=0)
    assert head.answers.sum(axis=1) == pytest.approx(np.ones(200), abs=1e-5)
    assert (head.answers.argmax(axis=1) == labels).mean() == pytest.approx(head.facts.cv_accuracy)
    assert head.facts.cv_accuracy < 0.4  # there is nothing to learn


def test_few_images_may_take_the_nearest_mean_and_many_never_do() -> None:
    """Around centres with equal spread the mean is all that there is to learn."""
    assert train_head(*_clouds([20, 20]), 2, seed=0).facts.regularization > 0
    heads = [train_head(*_clouds([5, 5, 5], width=60, distance=9, seed=seed), 3, seed=0) for seed in range(8)]
    assert "nearest_mean" in {head.facts.kind for head in heads}


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=2, max_size=4))
def test_classes_of_any_size_are_handled(counts: list[int]) -> None:
    features, labels = _clouds(counts, distance=12)
    head = train_head(features, labels, len(counts), seed=0)
    assert np.isfinite(head.weights).all()
    assert 0 <= head.facts.cv_accuracy <= 1


def test_views_are_learnt_from_and_not_validated_on() -> None:
    features, labels = _clouds([20, 20, 20], distance=4)
    copies = [_clouds([20, 20, 20], distance=4, seed=seed)[0] for seed in (1, 2, 3)]
    plain, helped = train_head(features, labels, 3, seed=0), train_head(features, labels, 3, seed=0, views=copies)
    unseen, truth = _clouds([500, 500, 500], distance=4, seed=9)
    scores = [(_labels(head, unseen) == truth).mean() for head in (plain, helped)]
    assert scores[1] > scores[0]


def test_cross_validation_by_groups_sees_that_a_group_looks_alike() -> None:
    """Each image is there five times: drawn one by one, a head has seen nearly the same image before."""
    features, labels = _clouds([8, 8, 8], width=60, distance=1)
    noise = np.random.default_rng(1).standard_normal((len(labels) * 5, 60)).astype(np.float32)
    repeated = np.repeat(features, 5, axis=0) * (1 + 1e-3 * noise)
    groups = np.repeat(np.arange(len(labels)), 5).tolist()
    one_by_one = train_head(repeated, np.repeat(labels, 5).tolist(), 3, seed=0).facts
    by_group = train_head(repeated, np.repeat(labels, 5).tolist(), 3, seed=0, groups=groups).facts
    assert one_by_one.cv_accuracy > 0.9 > by_group.cv_accuracy


def test_a_class_of_one_group_is_in_several_folds() -> None:
    features, labels = _clouds([20, 20, 20], distance=12)
    groups = [0] * 20 + [1] * 20 + list(range(2, 22))
    facts = train_head(features, labels, 3, seed=0, groups=groups).facts
    assert facts.cv_accuracy > 0.9
    assert len(set(divide_groups(np.asarray(labels), groups))) == 60


@with_cases
def test_classes_without_images_and_misfitting_arrays_are_refused(labels: list[int], classes: int, words: str) -> None:
    must_fail(StageError, words, train_head, np.zeros((3, 4), np.float32), labels, classes, seed=0)


def _with_levels(level_signal: float, seed: int = 0) -> tuple[np.ndarray, list[int]]:
    """Return features of a last layer of 24, and of levels of 24 that tell the classes apart as said."""
    last, labels = _clouds([80, 80, 80], distance=1.5, seed=seed)
    levels, _ = _clouds([80, 80, 80], distance=level_signal, seed=seed + 100)
    scale = np.geomspace(1e-3, 1e3, 24, dtype=np.float32)
    return np.concatenate([last / scale, levels], axis=1), labels


@pytest.mark.parametrize(("gain", "kind"), [(4.0, "all_levels"), (0.1, "last_layer")])
def test_levels_are_read_only_where_they_gain_much(gain: float, kind: str) -> None:
    features, labels = _with_levels(gain)
    head = train_head(features, labels, 3, seed=0, last=24)
    assert (head.facts.kind, head.weights.shape) == (kind, (48, 3))
    assert head.weights[24:].any() == (kind == "all_levels")


def test_levels_that_tell_groups_apart_are_not_read() -> None:
    """Each group has light of its own, which tells its class only while other images of the group are known."""
    random = np.random.default_rng(0)
    last, labels = _clouds([60, 60, 60], distance=3)
    groups = np.arange(180) // 10
    levels = random.standard_normal((18, 24))[groups] * 5 + 0.1 * random.standard_normal((180, 24))
    features = np.concatenate([last / np.geomspace(1e-3, 1e3, 24), levels], axis=1).astype(np.float32)
    assert train_head(features, labels, 3, seed=0, last=24).facts.kind == "all_levels"
    assert train_head(features, labels, 3, seed=0, groups=groups.tolist(), last=24).facts.kind == "last_layer"


def test_the_grid_grows_until_its_end_is_not_chosen_towards_strong_and_weak_penalties() -> None:
    random, labels = np.random.default_rng(2), np.repeat([0, 1], 40)
    features = random.standard_normal((80, 1000)) + 0.04 * (2 * labels[:, None] - 1)
    facts = train_head(features.astype(np.float32), labels.tolist(), 2, seed=0).facts
    assert facts.regularization in STRONGER
    assert not facts.at_grid_end
    # The second feature differs from the first by a hundredth, which tells the classes apart.
    random, labels = np.random.default_rng(0), np.repeat([0, 1], 100)
    first = random.standard_normal(200)
    features = np.stack([first, first + 0.01 * (labels + 0.4 * random.standard_normal(200))], axis=1)
    facts = train_head(features.astype(np.float32), labels.tolist(), 2, seed=0).facts
    assert facts.regularization in WEAKER


def test_of_equal_penalties_the_strongest_is_chosen() -> None:
    features, labels = _clouds([40, 40, 40], width=300, distance=9)
    facts = train_head(features, labels, 3, seed=0).facts
    weak, strong = (fit_head(features, labels, 3, strength)[0] for strength in (GRID[-1], GRID[-2]))
    np.testing.assert_allclose(weak, strong, rtol=1e-4)
    assert facts.regularization < GRID[-2]


def _lit(seed: int = 0) -> tuple[np.ndarray, list[int]]:
    """Return positive features of a last layer, 24 wide, whose length says nothing of the class, and of levels."""
    random = np.random.default_rng(seed)
    centres = np.abs(np.random.default_rng(99).standard_normal((3, 24)))
    labels = [index % 3 for index in range(240)]
    rows = np.maximum(centres[labels] + 0.7 * random.standard_normal((240, 24)), 0)
    rows *= np.exp(0.8 * random.standard_normal((240, 1)))
    return np.concatenate([rows, random.standard_normal((240, 8))], axis=1).astype(np.float32), labels


def test_cosine_is_chosen_where_lengths_mislead() -> None:
    features, labels = _lit()
    head = train_head(features, labels, 3, seed=0, last=24)
    assert head.facts.kind == "cosine"
    unseen, truth = _lit(seed=1)
    assert head.facts.cv_accuracy == pytest.approx((_labels(head, unseen) == truth).mean(), abs=0.05)


def test_a_cosine_head_ignores_the_length_of_features() -> None:
    features, labels = _lit()
    weights, bias = fit_head(features, labels, 3, 1.0, (), "cosine", 24)
    answers = (features @ weights + bias).argmax(axis=1)
    np.testing.assert_array_equal((0.01 * features @ weights + bias).argmax(axis=1), answers)
    assert (answers == labels).mean() > 0.9
    assert not weights[24:].any()


@pytest.mark.parametrize("kind", ["last_layer", "cosine"])
def test_a_known_kind_and_penalty_give_the_same_head_again(kind: str) -> None:
    features, labels = _with_levels(0.1) if kind == "last_layer" else _lit()
    head = train_head(features, labels, 3, seed=0, last=24)
    assert head.facts.kind == kind
    weights, bias = fit_head(features, labels, 3, head.facts.regularization, (), head.facts.kind, 24)
    np.testing.assert_array_equal(weights, head.weights)
    np.testing.assert_array_equal(bias, head.bias)


def test_features_that_do_not_vary_give_a_head_that_knows_nothing() -> None:
    features, labels = np.ones((12, 40), np.float32), [0, 1, 2] * 4
    head = train_head(features, labels, 3, 0, last=16)
    assert np.isfinite(head.weights).all()
    assert np.isfinite(head.bias).all()
    assert head.facts.cv_accuracy < 0.5


def test_some_images_choose_the_head_of_a_large_set_and_all_fit_it(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = _clouds([400, 400, 40], distance=4)
    whole = train_head(features, labels, 3, seed=0)
    monkeypatch.setattr("advisor.training._head.CHOSEN_ON", 210)
    head = train_head(features, labels, 3, seed=0)
    answered = head.answers.any(axis=1)
    assert (head.facts.cv_images, int(answered.sum())) == (210, 210)
    assert np.bincount(np.array(labels)[answered]).tolist() == [100, 100, 10]
    fitted = fit_head(features, labels, 3, head.facts.regularization, kind=head.facts.kind)
    np.testing.assert_allclose(head.weights, fitted[0], rtol=1e-5, atol=1e-7)
    unseen, truth = _clouds([400, 400, 400], distance=4, seed=1)
    assert (_labels(head, unseen) == truth).mean() == pytest.approx((_labels(whole, unseen) == truth).mean(), abs=0.02)

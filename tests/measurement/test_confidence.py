"""Temperature, calibration error and thresholds of a classifier's probabilities."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

from advisor.measurement.confidence import (
    BINS,
    COOLEST,
    HOTTEST,
    at_score,
    crossfitted,
    reachable,
    reliability,
    temperature,
    tempered,
    threshold,
)


def drawn(count: int, degrees: float, seed: int = 0, classes: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities (N, C) and labels of which the probabilities at the temperature ``degrees`` are true."""
    draw = np.random.default_rng(seed)
    logits = draw.normal(0, 2.5, (count, classes))
    true = softmax(logits / degrees, axis=1)
    labels = (true.cumsum(axis=1) > draw.random(count)[:, None]).argmax(axis=1)
    return softmax(logits, axis=1), labels


@pytest.mark.parametrize("degrees", [0.5, 1.0, 2.0])
def test_the_temperature_of_the_labels_is_found(degrees: float) -> None:
    assert temperature(*drawn(4000, degrees)) == pytest.approx(degrees, rel=0.12)


def test_the_temperature_has_the_best_likelihood() -> None:
    probabilities, labels = drawn(500, 1.7)
    found, logits = temperature(probabilities, labels), np.log(np.maximum(probabilities, 1 / 512))

    def loss(degrees: float) -> float:
        return float(-log_softmax(logits / degrees, axis=1)[np.arange(500), labels].sum() + math.log(degrees) ** 2 / 2)

    assert loss(found) <= min(loss(found * 0.97), loss(found * 1.03))


def test_probabilities_that_are_true_keep_their_temperature_in_most_draws() -> None:
    found = [temperature(*drawn(400, 1.0, seed)) for seed in range(40)]
    assert sum(each == 1 for each in found) >= 30


def test_few_images_that_are_all_right_do_not_give_an_extreme_temperature() -> None:
    probabilities = np.full((60, 2), 0.1)
    probabilities[:, 0] = 0.9
    assert 1.2 * COOLEST < temperature(probabilities, np.zeros(60, int)) < 1


@given(st.floats(COOLEST, HOTTEST), st.integers(0, 100))
def test_a_temperature_changes_no_answer_and_keeps_probabilities(degrees: float, seed: int) -> None:
    probabilities, _ = drawn(20, 1.0, seed)
    found = tempered(probabilities, degrees)
    assert found.sum(axis=1) == pytest.approx(np.ones(20))
    assert found.argmax(axis=1).tolist() == probabilities.argmax(axis=1).tolist()
    assert (found.max(axis=1) >= probabilities.max(axis=1) - 1e-9).all() == (degrees <= 1) or degrees == pytest.approx(
        1
    )


def test_each_image_is_calibrated_by_others() -> None:
    probabilities, labels = drawn(50, 2.0)
    first = crossfitted(probabilities, labels)
    changed = labels.copy()
    changed[7] = (changed[7] + 1) % 6
    assert np.array_equal(crossfitted(probabilities, changed)[7], first[7])
    assert not np.array_equal(crossfitted(probabilities, changed), first)


def test_calibrated_probabilities_have_a_small_error_and_overconfident_ones_a_large_one() -> None:
    probabilities, labels = drawn(4000, 2.0)
    before, after = reliability(probabilities, labels), reliability(crossfitted(probabilities, labels), labels)
    assert before.error.value > 0.1
    assert after.error.value < 0.04  # perfect probabilities have 0.03 in 15 bins of 267 images
    assert after.brier.value < before.brier.value
    for found in (before, after):
        assert found.error.low <= found.error.value <= found.error.high
        assert sum(each.images for each in found.bins) == 4000
        assert len(found.bins) == BINS


def test_probabilities_of_one_that_are_right_have_no_error() -> None:
    found = reliability(np.eye(3)[[0, 1, 2, 0]], np.array([0, 1, 2, 0]))
    assert (found.error.value, found.brier.value) == (0.0, 0.0)


def test_without_an_image_there_is_no_reliability() -> None:
    with pytest.raises(ValueError, match="no image"):
        reliability(np.zeros((0, 3)), np.zeros(0, int))


def test_if_all_answers_are_right_all_count() -> None:
    sure = np.linspace(0.3, 1, 100)
    found = threshold(sure, np.ones(100, bool), 0.95)
    assert found is not None
    assert (found.images, found.coverage) == (100, 1.0)
    assert found.score < 0.3


def test_too_few_answers_promise_nothing() -> None:
    assert threshold(np.ones(58), np.ones(58, bool), 0.95) is None
    assert threshold(np.ones(59), np.ones(59, bool), 0.95) is not None


def test_answers_with_one_score_count_together() -> None:
    found = threshold(np.repeat([0.9, 0.5], 100), np.repeat([True, False], 100), 0.9)
    assert found is not None
    assert (found.images, found.score) == (100, pytest.approx(0.7))


def test_answers_that_are_wrong_half_of_the_time_reach_no_precision() -> None:
    assert threshold(np.linspace(0, 1, 400), np.arange(400) % 2 == 0, 0.9) is None


def test_what_can_be_reached_is_the_largest_promise_to_half_a_point() -> None:
    sure, right = np.linspace(0.3, 1, 200), np.arange(200) % 10 > 0
    found = reachable(sure, right)
    assert 0.8 < found < 0.9
    assert threshold(sure, right, found) is not None
    assert threshold(sure, right, found + 0.005) is None
    assert reachable(sure, np.zeros(200, bool)) == 0.0
    assert reachable(sure[:0], right[:0]) == 0.0


@pytest.mark.parametrize("wanted", [0.0, 1.0, 1.01])
def test_a_promise_that_nobody_can_keep_is_an_error(wanted: float) -> None:
    with pytest.raises(ValueError, match="cannot be promised"):
        threshold(np.ones(10), np.ones(10, bool), wanted)


def test_a_score_has_the_precision_and_number_of_answers_from_it_on() -> None:
    found = at_score(0.5, np.array([0.9, 0.5, 0.4]), np.array([True, False, True]))
    assert found.precision is not None
    assert (found.precision.value, found.images, found.of) == (0.5, 2, 3)
    assert at_score(0.95, np.array([0.9]), np.array([True])).precision is None


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.8, 0.9, 0.95]))
def test_a_promise_is_kept_in_nineteen_of_twenty_draws(seed: int, wanted: float) -> None:
    """The answers are right with the probability of their score, so the true precision from a score on is known."""
    draw, broken, rounds = np.random.default_rng(seed), 0, 60
    for _ in range(rounds):
        sure = draw.beta(4, 1, 300)
        found = threshold(sure, draw.random(300) < sure, wanted)
        if found is not None:
            broken += float(np.mean(np.array([each for each in BETA if each >= found.score]))) < wanted
    assert broken <= 0.05 * rounds + 3 * math.sqrt(0.05 * 0.95 * rounds)


BETA = np.random.default_rng(1).beta(4, 1, 20000)

"""Temperature and calibration error of a classifier's probabilities."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

from advisor.measurement.confidence import (
    BINS,
    COOLEST,
    FLOOR,
    HOTTEST,
    crossfitted,
    reliability,
    temperature,
    tempered,
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
    floored = np.maximum(probabilities, FLOOR**2)  # the least probability whose logarithm counts
    before = (floored / floored.sum(axis=1, keepdims=True)).max(axis=1)
    surer, less_sure = (found.max(axis=1) >= before - 1e-9).all(), (found.max(axis=1) <= before + 1e-9).all()
    assert surer or degrees > 1
    assert less_sure or degrees < 1


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

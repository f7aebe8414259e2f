"""Thresholds of a classifier: the guarantees for precision, recall and coverage, and the risk-coverage curve."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.measurement.thresholds import (
    POINTS,
    at_recall,
    at_score,
    covering,
    curve,
    reachable,
    reached,
    recalling,
    threshold,
)
from tests.builders import present

BETA = np.random.default_rng(1).beta(4, 1, 20000)
"""Scores of many images. An answer is right with the probability of its score, so what a threshold does is known."""

ROUNDS = 60
MOST_BROKEN = 0.05 * ROUNDS + 3 * math.sqrt(0.05 * 0.95 * ROUNDS)


def test_if_all_answers_are_right_all_count() -> None:
    sure = np.linspace(0.3, 1, 100)
    found = present(threshold(sure, np.ones(100, bool), 0.95))
    assert (found.images, found.coverage) == (100, 1.0)
    assert found.score < 0.3


def test_too_few_answers_guarantee_nothing() -> None:
    assert threshold(np.ones(58), np.ones(58, bool), 0.95) is None
    assert threshold(np.ones(59), np.ones(59, bool), 0.95) is not None


def test_answers_with_one_score_count_together() -> None:
    found = present(threshold(np.repeat([0.9, 0.5], 100), np.repeat([True, False], 100), 0.9))
    assert (found.images, found.score) == (100, pytest.approx(0.7))


def test_answers_that_are_wrong_half_of_the_time_reach_no_precision() -> None:
    assert threshold(np.linspace(0, 1, 400), np.arange(400) % 2 == 0, 0.9) is None


def test_what_can_be_reached_is_the_largest_guarantee_to_half_a_point() -> None:
    sure, right = np.linspace(0.3, 1, 200), np.arange(200) % 10 > 0
    found = reachable(sure, right)
    assert 0.8 < found.precision < 0.9
    one = present(threshold(sure, right, found.precision))
    assert one.coverage == found.coverage
    assert threshold(sure, right, found.precision + 0.005) is None
    assert reachable(sure, np.zeros(200, bool)) == (0.0, 0.0)
    assert reachable(sure[:0], right[:0]) == (0.0, 0.0)


@pytest.mark.parametrize("wanted", [0.0, 1.0, 1.01])
def test_a_guarantee_that_nobody_can_keep_is_an_error(wanted: float) -> None:
    with pytest.raises(ValueError, match="cannot be guaranteed"):
        threshold(np.ones(10), np.ones(10, bool), wanted)


def test_a_score_has_the_precision_and_number_of_answers_from_it_on() -> None:
    found = at_score(0.5, np.array([0.9, 0.5, 0.4]), np.array([True, False, True]))
    assert (present(found.precision).value, found.images, found.of) == (0.5, 2, 3)
    assert at_score(0.95, np.array([0.9]), np.array([True])).precision is None


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.8, 0.9, 0.95]))
def test_a_guarantee_is_kept_in_nineteen_of_twenty_draws(seed: int, wanted: float) -> None:
    """The answers are right with the probability of their score, so the true precision from a score on is known."""
    draw, broken = np.random.default_rng(seed), 0
    for _ in range(ROUNDS):
        sure = draw.beta(4, 1, 300)
        found = threshold(sure, draw.random(300) < sure, wanted)
        if found is not None:
            broken += float(BETA[found.score <= BETA].mean()) < wanted
    assert broken <= MOST_BROKEN


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.8, 0.9, 0.95]), st.sampled_from([0.25, 1.0]))
def test_a_batch_of_new_images_keeps_its_guarantee_in_nineteen_of_twenty_draws(
    seed: int, wanted: float, batch: float
) -> None:
    draw, broken = np.random.default_rng(seed), 0
    for _ in range(ROUNDS):
        sure, new = draw.beta(4, 1, 400), draw.beta(4, 1, round(400 * batch))
        found = threshold(sure, draw.random(400) < sure, wanted, batch=batch)
        if found is not None:
            kept = at_score(found.score, new, draw.random(len(new)) < new)
            broken += kept.precision is not None and kept.precision.value < wanted
    assert broken <= MOST_BROKEN


@pytest.mark.parametrize("wanted", [0.8, 0.9, 0.95])
def test_a_batch_of_new_images_reaches_the_score_in_nineteen_of_twenty_draws(wanted: float) -> None:
    draw, broken = np.random.default_rng(0), 0
    for _ in range(600):
        score, guaranteed = reached(draw.beta(4, 1, 300), wanted, batch=0.5)
        broken += float((draw.beta(4, 1, 150) >= score).mean()) < min(wanted, guaranteed)
    assert broken <= 0.05 * 600 + 3 * math.sqrt(0.05 * 0.95 * 600)


def test_a_small_batch_needs_more_than_the_probability_itself() -> None:
    few = np.linspace(0.5, 1, 70)
    assert threshold(few, np.ones(70, bool), 0.95) is not None
    assert threshold(few, np.ones(70, bool), 0.95, batch=0.25) is None
    assert threshold(np.linspace(0.5, 1, 78), np.ones(78, bool), 0.95, batch=0.25) is not None


def test_with_too_few_images_the_guarantee_of_a_batch_is_what_it_reaches() -> None:
    score, guaranteed = reached(np.linspace(0.5, 1, 10), 0.9, batch=1.0)
    assert score < 0.5
    assert guaranteed == pytest.approx(0.7)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.8, 0.9, 0.95]), st.sampled_from([60, 300]))
def test_a_wanted_share_of_new_images_reaches_the_score_in_nineteen_of_twenty_draws(
    seed: int, wanted: float, count: int
) -> None:
    draw, broken = np.random.default_rng(seed), 0
    for _ in range(ROUNDS):
        score, guaranteed = reached(draw.beta(4, 1, count), wanted)
        broken += float((score <= BETA).mean()) < wanted
        assert guaranteed >= wanted
    assert broken <= MOST_BROKEN


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.5, 0.8]))
def test_the_precision_at_a_coverage_is_kept_in_nineteen_of_twenty_draws(seed: int, wanted: float) -> None:
    draw, broken = np.random.default_rng(seed), 0
    for _ in range(ROUNDS):
        sure = draw.beta(4, 1, 300)
        found = covering(sure, draw.random(300) < sure, wanted)
        broken += float(BETA[found.at.score <= BETA].mean()) < found.precision
    assert broken <= MOST_BROKEN


@given(st.lists(st.integers(0, 255), min_size=1, max_size=200), st.floats(0.5, 0.9), st.floats(0.01, 0.09))
def test_more_recall_needs_a_lower_score(steps: list[int], wanted: float, more: float) -> None:
    scores = np.array(steps) / 256
    (low, less), (high, greater) = reached(scores, wanted + more), reached(scores, wanted)
    assert low <= high
    assert less >= greater
    assert (scores >= high).mean() >= greater


@given(st.integers(0, 200), st.floats(0.6, 0.9), st.floats(0.01, 0.09))
def test_more_precision_leaves_fewer_answers(seed: int, wanted: float, more: float) -> None:
    draw = np.random.default_rng(seed)
    sure = draw.beta(4, 1, 200)
    right = draw.random(200) < sure
    easy, hard = threshold(sure, right, wanted), threshold(sure, right, min(wanted + more, 0.99))
    assert hard is None or (easy is not None and easy.images >= hard.images)


def test_too_few_images_guarantee_the_share_that_all_of_them_support() -> None:
    score, guaranteed = reached(np.linspace(0.4, 0.9, 28), 0.9)
    assert (score, guaranteed) == (pytest.approx(0.2), pytest.approx(0.05 ** (1 / 28)))
    assert guaranteed < 0.9 <= reached(np.linspace(0.4, 0.9, 29), 0.9)[1]
    assert reached(np.zeros(0), 0.9) == (0.0, 0.0)


def test_a_class_is_flagged_from_its_probability_on() -> None:
    column, members = np.concatenate([np.linspace(0.5, 1, 60), np.linspace(0, 0.6, 140)]), np.arange(200) < 60
    found = recalling(column, members, 0.9)
    assert found.kept
    assert found.recall is not None
    assert found.recall.value >= 0.9
    assert found.images == int((column >= found.score).sum())
    assert present(found.precision).value == pytest.approx(found.recall.value * 60 / found.images)
    elsewhere = at_recall(found, np.zeros(10), np.zeros(10, bool))
    assert (elsewhere.score, elsewhere.recall, elsewhere.precision, elsewhere.flagged) == (found.score, None, None, 0.0)


def test_a_class_without_an_image_guarantees_nothing_and_flags_every_image() -> None:
    found = recalling(np.linspace(0, 1, 50), np.zeros(50, bool), 0.9)
    assert (found.kept, found.guaranteed, found.recall, found.flagged) == (False, 0.0, None, 1.0)


def test_the_curve_goes_from_the_surest_answers_to_all_of_them() -> None:
    draw = np.random.default_rng(0)
    sure = np.round(draw.beta(4, 1, 500) * 256) / 256
    right = draw.random(500) < sure
    points = curve(sure, right)
    assert len(points) <= POINTS
    assert points[-1][1:] == (500, int(right.sum()))
    for point in points:
        found = at_score(point.score - 5e-5, sure, right)
        assert (found.images, found.precision and found.precision.value) == (point.images, point.right / point.images)
    assert curve(sure[:0], right[:0]) == ()
    assert len(curve(np.full(9, 0.5), np.ones(9, bool))) == 1

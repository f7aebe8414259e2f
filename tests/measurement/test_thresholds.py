"""Thresholds and their guarantees, and the temperature and calibration error of a classifier."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from scipy.special import log_softmax, softmax

from advisor.core import Guarantees
from advisor.measurement import _calibration as calibration, _guarantees as confidence, choose_class_thresholds
from tests.builders import must_fail, present

BETA = np.random.default_rng(1).beta(4, 1, 20000)
"""Scores of many images. An answer is right with the probability of its score, so what a threshold does is known."""


def keeps(draw: Callable[[np.random.Generator], bool], draws: int = 100) -> bool:
    """Return whether a guarantee is broken in no more than one of twenty draws, but for three standard errors."""
    random = np.random.default_rng(0)
    broken = sum(draw(random) for _ in range(draws))
    return broken <= 0.05 * draws + 3 * math.sqrt(0.05 * 0.95 * draws)


def test_all_answers_count_if_all_are_right_those_with_one_score_together_and_too_few_guarantee_nothing() -> None:
    sure = np.linspace(0.3, 1, 100)
    found = present(confidence.find_threshold(sure, np.ones(100, bool), 0.95))
    assert (found.images, found.coverage) == (100, 1.0)
    assert found.score < 0.3
    assert confidence.find_threshold(np.ones(58), np.ones(58, bool), 0.95) is None
    assert confidence.find_threshold(np.ones(59), np.ones(59, bool), 0.95) is not None
    found = present(confidence.find_threshold(np.repeat([0.9, 0.5], 100), np.repeat([True, False], 100), 0.9))
    assert (found.images, found.score) == (100, pytest.approx(0.7))


def test_what_can_be_reached_is_the_largest_guarantee_to_half_a_point() -> None:
    sure, right = np.linspace(0.3, 1, 200), np.arange(200) % 10 > 0
    found = confidence.find_reachable(sure, right)
    assert 0.8 < found.precision < 0.9
    one = present(confidence.find_threshold(sure, right, found.precision))
    assert one.coverage == found.coverage
    assert confidence.find_threshold(sure, right, found.precision + 0.005) is None
    assert confidence.find_reachable(sure, np.zeros(200, bool)) == (0.0, 0.0)
    assert confidence.find_reachable(sure[:0], right[:0]) == (0.0, 0.0)


@pytest.mark.parametrize("wanted", [0.0, 1.0, 1.01])
def test_a_guarantee_that_nobody_can_keep_is_an_error(wanted: float) -> None:
    must_fail(ValueError, "cannot be guaranteed", confidence.find_threshold, np.ones(10), np.ones(10, bool), wanted)


def test_a_score_has_the_precision_and_number_of_answers_from_it_on() -> None:
    found = confidence.at_score(0.5, np.array([0.9, 0.5, 0.4]), np.array([True, False, True]))
    assert (present(found.precision).value, found.images, found.of) == (0.5, 2, 3)
    assert confidence.at_score(0.95, np.array([0.9]), np.array([True])).precision is None


@pytest.mark.parametrize("wanted", [0.8, 0.95])
def test_a_guarantee_is_kept_in_nineteen_of_twenty_draws(wanted: float) -> None:
    def broken(random: np.random.Generator) -> bool:
        sure = random.beta(4, 1, 300)
        found = confidence.find_threshold(sure, random.random(300) < sure, wanted)
        return found is not None and float(BETA[found.score <= BETA].mean()) < wanted

    assert keeps(broken)


@pytest.mark.parametrize(("wanted", "batch"), [(0.8, 1.0), (0.95, 0.25)])
def test_a_batch_of_new_images_keeps_its_guarantee_in_nineteen_of_twenty_draws(wanted: float, batch: float) -> None:
    def broken(random: np.random.Generator) -> bool:
        sure, new = random.beta(4, 1, 400), random.beta(4, 1, round(400 * batch))
        found = confidence.find_threshold(sure, random.random(400) < sure, wanted, batch=batch)
        kept = confidence.at_score(found.score, new, random.random(len(new)) < new) if found else None
        return kept is not None and kept.precision is not None and kept.precision.value < wanted

    assert keeps(broken)


def test_a_small_batch_needs_more_than_the_probability_itself_and_too_few_images_what_it_reaches() -> None:
    few = np.linspace(0.5, 1, 70)
    assert confidence.find_threshold(few, np.ones(70, bool), 0.95) is not None
    assert confidence.find_threshold(few, np.ones(70, bool), 0.95, batch=0.25) is None
    assert confidence.find_threshold(np.linspace(0.5, 1, 78), np.ones(78, bool), 0.95, batch=0.25) is not None
    score, guaranteed = confidence.find_reached(np.linspace(0.5, 1, 10), 0.9, batch=1.0)
    assert score < 0.5
    assert guaranteed == pytest.approx(0.7)


@pytest.mark.parametrize(("wanted", "count"), [(0.8, 300), (0.95, 60)])
def test_a_wanted_share_of_new_images_reaches_the_score_in_nineteen_of_twenty_draws(wanted: float, count: int) -> None:
    def broken(random: np.random.Generator) -> bool:
        score, guaranteed = confidence.find_reached(random.beta(4, 1, count), wanted)
        assert guaranteed >= wanted
        return float((score <= BETA).mean()) < wanted

    def broken_in_a_batch(random: np.random.Generator) -> bool:
        score, guaranteed = confidence.find_reached(random.beta(4, 1, 300), wanted, batch=0.5)
        return float((random.beta(4, 1, 150) >= score).mean()) < min(wanted, guaranteed)

    assert keeps(broken)
    assert keeps(broken_in_a_batch)


@pytest.mark.parametrize("wanted", [0.5, 0.8])
def test_the_precision_at_a_coverage_is_kept_in_nineteen_of_twenty_draws(wanted: float) -> None:
    def broken(random: np.random.Generator) -> bool:
        sure = random.beta(4, 1, 300)
        found = confidence.find_covering(sure, random.random(300) < sure, wanted)
        return float(BETA[found.at.score <= BETA].mean()) < found.precision

    assert keeps(broken)


@given(st.lists(st.integers(0, 255), min_size=1, max_size=60), st.floats(0.5, 0.9), st.floats(0.01, 0.09))
def test_more_recall_needs_a_lower_score(steps: list[int], wanted: float, more: float) -> None:
    scores = np.array(steps) / 256
    low, less = confidence.find_reached(scores, wanted + more)
    high, greater = confidence.find_reached(scores, wanted)
    assert low <= high
    assert less >= greater
    assert (scores >= high).mean() >= greater


@settings(max_examples=20)
@given(st.integers(0, 200), st.floats(0.6, 0.9), st.floats(0.01, 0.09))
def test_more_precision_leaves_fewer_answers(seed: int, wanted: float, more: float) -> None:
    draw = np.random.default_rng(seed)
    sure = draw.beta(4, 1, 200)
    right = draw.random(200) < sure
    easy = confidence.find_threshold(sure, right, wanted)
    hard = confidence.find_threshold(sure, right, min(wanted + more, 0.99))
    assert hard is None or (easy is not None and easy.images >= hard.images)


def test_too_few_images_guarantee_the_share_that_they_support_and_a_class_without_an_image_nothing() -> None:
    score, guaranteed = confidence.find_reached(np.linspace(0.4, 0.9, 28), 0.9)
    assert (score, guaranteed) == (pytest.approx(0.2), pytest.approx(0.05 ** (1 / 28)))
    assert guaranteed < 0.9 <= confidence.find_reached(np.linspace(0.4, 0.9, 29), 0.9)[1]
    assert confidence.find_reached(np.zeros(0), 0.9) == (0.0, 0.0)
    found = confidence.find_recalling(np.linspace(0, 1, 50), np.zeros(50, bool), 0.9)
    assert (found.kept, found.guaranteed, found.recall, found.flagged) == (False, 0.0, None, 1.0)


def test_a_class_is_flagged_from_its_probability_on() -> None:
    column, members = np.concatenate([np.linspace(0.5, 1, 60), np.linspace(0, 0.6, 140)]), np.arange(200) < 60
    found = confidence.find_recalling(column, members, 0.9)
    assert found.kept
    assert found.recall.value >= 0.9
    assert found.images == int((column >= found.score).sum())
    assert present(found.precision).value == pytest.approx(found.recall.value * 60 / found.images)
    elsewhere = confidence.at_recall(found, np.zeros(10), np.zeros(10, bool))
    assert (elsewhere.score, elsewhere.recall, elsewhere.precision, elsewhere.flagged) == (found.score, None, None, 0.0)


def test_the_curve_goes_from_the_surest_answers_to_all_of_them() -> None:
    draw = np.random.default_rng(0)
    sure = np.round(draw.beta(4, 1, 500) * 256) / 256
    right = draw.random(500) < sure
    points = confidence.draw_curve(sure, right)
    assert len(points) <= confidence.POINTS
    assert points[-1][1:] == (500, int(right.sum()))
    for point in points:
        found = confidence.at_score(point.score - 5e-5, sure, right)
        assert (found.images, found.precision and found.precision.value) == (point.images, point.right / point.images)
    assert confidence.draw_curve(sure[:0], right[:0]) == ()
    assert len(confidence.draw_curve(np.full(9, 0.5), np.ones(9, bool))) == 1


def drawn(count: int, degrees: float, seed: int = 0, classes: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities (N, C) and labels of which the probabilities at the temperature ``degrees`` are true."""
    draw = np.random.default_rng(seed)
    logits = draw.normal(0, 2.5, (count, classes))
    true = softmax(logits / degrees, axis=1)
    labels = (true.cumsum(axis=1) > draw.random(count)[:, None]).argmax(axis=1)
    return softmax(logits, axis=1), labels


@pytest.mark.parametrize("degrees", [0.5, 1.0, 2.0])
def test_the_temperature_of_the_labels_is_found(degrees: float) -> None:
    assert calibration.fit_temperature(*drawn(4000, degrees)) == pytest.approx(degrees, rel=0.12)


def test_the_temperature_has_the_best_likelihood() -> None:
    probabilities, labels = drawn(500, 1.7)
    found, logits = calibration.fit_temperature(probabilities, labels), np.log(np.maximum(probabilities, 1 / 512))

    def loss(degrees: float) -> float:
        return float(-log_softmax(logits / degrees, axis=1)[np.arange(500), labels].sum() + math.log(degrees) ** 2 / 2)

    assert loss(found) <= min(loss(found * 0.97), loss(found * 1.03))


def test_probabilities_that_are_true_keep_their_temperature_in_most_draws() -> None:
    found = [calibration.fit_temperature(*drawn(400, 1.0, seed)) for seed in range(20)]
    assert sum(each == 1 for each in found) >= 15


def test_few_images_that_are_all_right_do_not_give_an_extreme_temperature() -> None:
    probabilities = np.full((60, 2), 0.1)
    probabilities[:, 0] = 0.9
    assert 1.2 * calibration.COOLEST < calibration.fit_temperature(probabilities, np.zeros(60, int)) < 1


@example(1.0, 83)
@given(st.floats(calibration.COOLEST, calibration.HOTTEST), st.integers(0, 100))
def test_a_temperature_changes_no_answer_and_keeps_probabilities(degrees: float, seed: int) -> None:
    probabilities, _ = drawn(20, 1.0, seed)
    found = calibration.apply_temperature(probabilities, degrees)
    assert found.sum(axis=1) == pytest.approx(np.ones(20))
    assert found.argmax(axis=1).tolist() == probabilities.argmax(axis=1).tolist()
    floored = np.maximum(probabilities, calibration.FLOOR**2)  # the least probability whose logarithm counts
    before = (floored / floored.sum(axis=1, keepdims=True)).max(axis=1)
    surer, less_sure = (found.max(axis=1) >= before - 1e-9).all(), (found.max(axis=1) <= before + 1e-9).all()
    assert surer or degrees > 1
    assert less_sure or degrees <= 1  # a temperature of 1 leaves probabilities as they are, also below the floor


def test_each_image_is_calibrated_by_others() -> None:
    probabilities, labels = drawn(50, 2.0)
    first = calibration.crossfit_probabilities(probabilities, labels)
    changed = labels.copy()
    changed[7] = (changed[7] + 1) % 6
    assert np.array_equal(calibration.crossfit_probabilities(probabilities, changed)[7], first[7])
    assert not np.array_equal(calibration.crossfit_probabilities(probabilities, changed), first)


def test_calibrated_probabilities_have_a_small_error_and_overconfident_ones_a_large_one() -> None:
    probabilities, labels = drawn(4000, 2.0)
    before = calibration.assess_reliability(probabilities, labels)
    after = calibration.assess_reliability(calibration.crossfit_probabilities(probabilities, labels), labels)
    assert before.error.value > 0.1
    assert after.error.value < 0.04  # perfect probabilities have 0.03 in 15 bins of 267 images
    assert after.brier.value < before.brier.value
    for found in (before, after):
        assert found.error.low <= found.error.value <= found.error.high
        assert sum(each.images for each in found.bins) == 4000
        assert len(found.bins) == calibration.BINS


def test_probabilities_of_one_that_are_right_have_no_error_and_without_an_image_nothing_is_known() -> None:
    found = calibration.assess_reliability(np.eye(3)[[0, 1, 2, 0]], np.array([0, 1, 2, 0]))
    assert (found.error.value, found.brier.value) == (0.0, 0.0)
    must_fail(ValueError, "no image", calibration.assess_reliability, np.zeros((0, 3)), np.zeros(0, int))


def test_answers_out_of_fold_stand_beside_those_of_a_file_that_answers_alike(tmp_path: Path) -> None:
    files = tmp_path / "answers.npy", tmp_path / "floats.npy"
    own = np.array([[0.9, 0.1], [0.2, 0.8]])
    np.save(files[0], np.array([[0.6, 0.4], [0.0, 0.0], [0.3, 0.7]]))
    np.save(files[1], own)
    folds = calibration.OutOfFold(files[0], (0, 1, 1), files[1])
    rows, labels, _ = folds.beside(own, np.array([0, 1]))
    np.testing.assert_array_equal(rows, [[0.6, 0.4], [0.3, 0.7], *own])
    assert labels.tolist() == [0, 1, 0, 1]
    rows, labels, _ = folds.beside(own[::-1], np.array([0, 1]))
    assert (len(rows), labels.tolist()) == (2, [0, 1])


def test_a_guarantee_counts_images_of_one_group_as_fewer() -> None:
    draw = np.random.default_rng(0)
    right = np.repeat(draw.random(40) < 0.93, 8)
    sure = draw.uniform(0.6, 1.0, len(right))
    labels = np.arange(len(right)) % 2
    first = np.where(right == (labels == 0), sure, 1 - sure)
    rows = np.stack([first, 1 - first], axis=1)
    groups = [f"visit {place // 8}" for place in range(len(right))]

    def find_reachable(names: Sequence[str]) -> float:
        facts = choose_class_thresholds(rows, labels, ("a", "b"), Guarantees(), 320, groups=names)
        return present(facts.reachable).precision

    assert find_reachable(groups) + 0.02 < find_reachable(())

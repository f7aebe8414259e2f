"""Metrics of a classifier's answers, and each image's share in them. Predictions through plain LiteRT."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image
from scipy.special import softmax

from advisor.core import METRICS, Interval, Metric, RuntimeRefusal, StageError, UsageError
from advisor.datasets import InputSpec
from advisor.measurement import Detector, least_cpu_ms, measure, predict, predict_arrays, predict_pixels
from advisor.measurement._metrics import Judged, map_scores, score_all
from advisor.measurement._other_images import of_other_images
from advisor.measurement._processes import existing_model
from tests.builders import must_fail, present
from tests.measurement import small_models

SCORES = map_scores()
VIEW = InputSpec(8, (127.5,) * 3, (127.5,) * 3)
COLOURS = ((250, 10, 20), (10, 250, 20), (20, 10, 250))
USES = [measure, least_cpu_ms, lambda path: predict(path, [], VIEW), lambda path: Detector(path, VIEW)]
CLASSIFIERS = {name for name, metric in METRICS.items() if not metric.of_boxes}


def drawn(images: int = 300, classes: int = 6, seed: int = 0, skill: float = 1.5, groups: int = 4) -> Judged:
    """Return answers to images of unequal classes, with groups, and costs with one constant answer that is cheapest."""
    draw = np.random.default_rng(seed)
    labels = draw.choice(classes, images, p=np.arange(1, classes + 1) / (classes * (classes + 1) / 2))
    logits = draw.normal(0, 1, (images, classes))
    logits[np.arange(images), labels] += skill
    costs = np.random.default_rng(0).uniform(0.5, 4, (classes, classes))
    np.fill_diagonal(costs, 0)
    costs[:, -1] *= 0.5
    return Judged(softmax(logits, axis=1), labels, None, [f"site {n}" for n in draw.integers(0, groups, images)], costs)


def some(judged: Judged, rows: np.ndarray) -> Judged:
    """Return the answers to some of the images."""
    groups = [judged.groups[row] for row in rows]
    return replace(judged, probabilities=judged.probabilities[rows], labels=judged.labels[rows], groups=groups)


def of_answers(answers: list[int], labels: list[int], costs: list[list[float]] | None = None) -> Judged:
    """Return answers of two or more classes that are given with certainty."""
    rows = np.eye(max(answers + labels) + 1)[answers]
    return Judged(rows, np.array(labels), costs=None if costs is None else np.array(costs))


@settings(deadline=None, max_examples=12)
@given(st.integers(1, 120), st.integers(2, 9), st.integers(0, 10_000), st.floats(-1, 6))
def test_the_mean_of_the_shares_is_the_metric(images: int, classes: int, seed: int, skill: float) -> None:
    for name, score in score_all(drawn(images, classes, seed, skill)).items():
        figure = score.figure
        assert score.shares.shape == (images,), name
        assert score.shares.mean() == pytest.approx(figure.value, abs=1e-9), name
        assert figure.low <= figure.value <= figure.high <= 1 + 1e-12, name
        assert name == Metric.COST_SAVED or figure.low >= 0, name


@pytest.mark.parametrize("name", sorted(CLASSIFIERS - {Metric.WORST_GROUP}))
def test_resampled_shares_are_nearly_the_metric_of_the_resample(name: str) -> None:
    judged, draw = drawn(2000), np.random.default_rng(1)
    whole = present(SCORES[name](judged))
    rows = draw.integers(0, 2000, (200, 2000))
    exact = [found.figure.value for each in rows if (found := SCORES[name](some(judged, each)))]
    linear = whole.shares[rows].mean(axis=1)
    assert np.std(exact - linear) < 0.25 * np.std(exact)
    assert np.std(linear) == pytest.approx(np.std(exact), rel=0.25)


@pytest.mark.parametrize("name", sorted(CLASSIFIERS - {Metric.WORST_GROUP}))
def test_the_interval_holds_the_metric_of_all_images(name: str) -> None:
    truth = present(SCORES[name](drawn(50_000, seed=99)))
    held = 0
    for seed in range(50):
        score = present(SCORES[name](drawn(150, seed=seed)))
        held += score.figure.low <= truth.figure.value <= score.figure.high
    assert held >= 44


def test_a_range_is_wider_where_few_groups_bring_its_error() -> None:
    narrow = of_other_images(0.5, [0.505, 0.495] * 10)
    wide = of_other_images(0.5, [0.5 + 0.005 * 20 / 19**0.5, *[0.5] * 19])
    assert wide.error == pytest.approx(narrow.error)
    assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)


def test_every_metric_has_a_function_and_top_1_wilsons_interval() -> None:
    score = present(SCORES[Metric.TOP1](of_answers([0, 1, 1, 0], [0, 1, 0, 0])))
    assert score.figure == Interval.wilson(3, 4)
    assert score.shares.tolist() == [1, 1, 0, 1]
    assert set(SCORES) == CLASSIFIERS == set(score_all(drawn()))


def test_each_class_counts_the_same_in_the_balanced_accuracy_and_a_rare_one_without_a_mistake_is_no_certainty() -> None:
    score = present(SCORES[Metric.BALANCED_ACCURACY](of_answers([0] * 10, [0] * 8 + [1] * 2)))
    assert score.figure.value == pytest.approx(0.5)
    labels = [0] * 100 + [1] * 2
    score = present(SCORES[Metric.BALANCED_ACCURACY](of_answers(labels, labels)))
    assert score.figure.value == 1
    assert score.figure.low < 0.75


@pytest.mark.parametrize("name", [Metric.BALANCED_ACCURACY, Metric.MACRO_F1])
def test_a_class_without_an_image_does_not_count(name: str) -> None:
    score = present(SCORES[name](of_answers([0, 1, 2, 1], [0, 1, 0, 1])))
    expected = {Metric.BALANCED_ACCURACY: 0.75, Metric.MACRO_F1: (2 / 3 + 1) / 2}
    assert score.figure.value == pytest.approx(expected[name])
    assert score.shares.mean() == pytest.approx(expected[name])


def test_macro_f1_and_log_loss_have_the_values_of_the_books() -> None:
    two_classes = of_answers([0, 0, 1, 1, 1], [0, 0, 0, 1, 1])
    assert present(SCORES[Metric.MACRO_F1](two_classes)).figure.value == pytest.approx(0.8)
    unsure = Judged(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 0]))
    assert present(SCORES[Metric.LOG_LOSS](unsure)).figure.value == pytest.approx(math.sqrt(0.9 * 0.4))
    certain_mistake = present(SCORES[Metric.LOG_LOSS](of_answers([1], [0])))
    assert certain_mistake.figure.value == pytest.approx(1 / 512), "as int8 can tell"


def test_top_5_needs_more_than_five_classes_and_the_temperature_changes_the_mean_probability_alone() -> None:
    assert SCORES[Metric.TOP5](drawn(classes=5)) is None
    rows = np.array([[0.3, 0.2, 0.15, 0.14, 0.11, 0.1]] * 2)
    score = present(SCORES[Metric.TOP5](Judged(rows, np.array([4, 5]))))
    assert score.shares.tolist() == [1, 0]
    judged = drawn()
    hotter = replace(judged, calibrated=np.sqrt(judged.probabilities))
    changed = {name for name, s in score_all(hotter).items() if s.figure.value != score_all(judged)[name].figure.value}
    assert changed == {Metric.LOG_LOSS}


def test_the_cheapest_constant_answer_saves_nothing_and_without_costs_nothing_is_saved() -> None:
    costs = [[0.0, 1.0], [10.0, 0.0]]
    same = SCORES[Metric.COST_SAVED](of_answers([1, 1, 1, 1], [0, 0, 0, 1], costs))
    right = SCORES[Metric.COST_SAVED](of_answers([0, 0, 0, 1], [0, 0, 0, 1], costs))
    worse = SCORES[Metric.COST_SAVED](of_answers([0, 0, 0, 0], [0, 0, 0, 1], costs))
    assert same is not None and right is not None and worse is not None  # noqa: PT018
    assert [each.figure.value for each in (same, right, worse)] == pytest.approx([0, 1, 1 - 10 / 3])
    assert SCORES[Metric.COST_SAVED](of_answers([0, 1], [0, 1])) is None
    assert SCORES[Metric.COST_SAVED](of_answers([1, 0], [0, 0], [[0.0, 1.0], [1.0, 0.0]])) is None


def test_a_few_answers_that_are_all_right_are_no_certainty_of_the_costs() -> None:
    labels = [0, 1, 2] * 3
    score = present(
        SCORES[Metric.COST_SAVED](of_answers(labels, labels, [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]))
    )
    assert (score.figure.value, score.figure.high) == (1, 1)
    assert 0.5 < score.figure.low < 0.8


def test_the_worst_group_is_named() -> None:
    answers, labels = [0] * 60, [0] * 30 + [0] * 20 + [1] * 10
    groups = ["roof"] * 30 + ["cellar"] * 30
    score = present(SCORES[Metric.WORST_GROUP](replace(of_answers(answers, labels), groups=groups)))
    assert score.figure.value == pytest.approx(2 / 3)
    assert score.note == "group 'cellar' (30 images), the lowest of 2 groups"
    small = replace(of_answers([0] * 48 + [1], [0] * 49), groups=["roof"] * 30 + ["cellar"] * 19)
    assert SCORES[Metric.WORST_GROUP](small) is None, "groups of fewer than 20 images are not compared"


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    """A red, a green and a blue picture."""
    paths = [tmp_path / f"{index}.png" for index in range(3)]
    for path, colour in zip(paths, COLOURS, strict=True):
        Image.new("RGB", (20, 30), colour).save(path)
    return paths


def test_each_image_gets_its_row(brightness_model: Path, images: list[Path]) -> None:
    found = predict(brightness_model, images, VIEW)
    assert found.shape == (3, 3)
    assert found.dtype == np.float32
    assert found.argmax(axis=1).tolist() == [0, 1, 2]
    expected = np.exp(10 * (np.array(COLOURS[0]) - 127.5) / 127.5)
    assert found[0] == pytest.approx(expected / expected.sum(), abs=1e-5)
    assert predict(brightness_model, [], VIEW).shape == (0, 3)


def test_int8_files_answer_as_their_float_files(float_model: Path, int8_model: Path) -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (16, 32, 32, 3), dtype=np.uint8)
    exact, rounded = (predict_pixels(path, pixels, VIEW) for path in (float_model, int8_model))
    assert rounded.dtype == np.float32
    assert rounded.sum(axis=1) == pytest.approx(np.ones(16), abs=0.02)
    assert np.abs(exact - rounded).max() < 0.05


def test_the_named_output_is_taken_of_two(tmp_path: Path) -> None:
    both, one = tmp_path / "both.tflite", tmp_path / "one.tflite"
    both.write_bytes(small_models.classifier(features=True))
    one.write_bytes(small_models.classifier())
    pixels = np.full((1, 32, 32, 3), 200, np.uint8)
    assert np.array_equal(predict_pixels(both, pixels, VIEW), predict_pixels(one, pixels, VIEW))


def test_normalised_arrays_are_taken_with_and_without_a_batch(brightness_model: Path) -> None:
    green = np.full((8, 8, 3), (-0.9, 0.9, -0.9), np.float32)
    found = predict_arrays(brightness_model, [green, green[None]])
    assert found.argmax(axis=1).tolist() == [1, 1]
    assert np.array_equal(found[0], found[1])


def test_a_wrong_size_and_a_file_for_a_newer_runtime_are_named(tmp_path: Path, brightness_model: Path) -> None:
    with pytest.raises(StageError, match=r"\(9, 9, 3\) for an input of shape \(8, 8, 3\)"):
        predict_pixels(brightness_model, np.zeros((1, 9, 9, 3), np.uint8), VIEW)
    newer = small_models.saved(tmp_path, small_models.of_a_newer_runtime(brightness_model.read_bytes()), "newer.tflite")
    with pytest.raises(RuntimeRefusal, match=r"newer.tflite: LiteRT cannot load the model: .*version '99'"):
        predict_pixels(newer, np.zeros((1, 8, 8, 3), np.uint8), VIEW)


@pytest.mark.parametrize("use", [existing_model, *USES])
def test_a_missing_file_is_a_usage_error(tmp_path: Path, use: Callable[[Path], object]) -> None:
    must_fail(UsageError, r"no model file '.*absent\.tflite'", use, tmp_path / "absent.tflite")


@pytest.mark.parametrize("use", USES[1:])
@pytest.mark.parametrize("length", [7, 300, 400])
def test_truncation_is_told(tmp_path: Path, brightness_model: Path, use: Callable[[Path], object], length: int) -> None:
    broken = small_models.saved(tmp_path, brightness_model.read_bytes()[:length], "broken.tflite")
    must_fail(RuntimeRefusal, r"^broken\.tflite: .*cannot load the (file|model)", use, broken)

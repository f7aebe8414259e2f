"""Boxes that a detector finds, and the file that keeps them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from PIL import Image

from advisor.core import Interval, StageError
from advisor.datasets import InputSpec, draw_captures
from advisor.engine import compute_auroc
from advisor.engine._pipeline.stages.unknown_score import Neighbours, make_rule, mean_of, share_accepted
from advisor.measurement import Detections, Detector, predict_captured, predict_pixels
from advisor.tflite import Suppression
from tests.builders import must_fail
from tests.datasets.folders import fill
from tests.measurement import small_models
from tests.measurement.test_average_precision import HERE, THERE, boxes
from tests.tflite.graphs import tiny_detector, tiny_features

RANDOM = np.random.default_rng(0)
SCORES = st.lists(st.integers(-5, 5), min_size=1, max_size=30).map(np.array)
VIEW = InputSpec(16, (0.0,) * 3, (255.0,) * 3)
VIEW_OF_DETECTION = InputSpec(2, (127.5,) * 3, (127.5,) * 3)
ANCHORS = np.array([[0.2, 0.2, 0.2, 0.2], [0.5, 0.5, 0.4, 0.2], [0.9, 0.9, 0.4, 0.4]], np.float32)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def low_rank(rows: np.ndarray, rank: int) -> np.ndarray:
    left, values, right = np.linalg.svd(rows, full_matrices=False)
    return left[:, :rank] * values[:rank] @ right[:rank]


@given(SCORES, SCORES)
def test_auroc_is_the_share_of_pairs_in_order_and_inside_its_interval(known: np.ndarray, unknown: np.ndarray) -> None:
    found = compute_auroc(known, unknown)
    apart = unknown[:, None] - known[None]
    assert found.value == pytest.approx((apart > 0).mean() + (apart == 0).mean() / 2)
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_the_interval_of_auroc_holds_the_true_one_in_about_95_of_100_draws() -> None:
    held = 0
    for _ in range(200):
        found = compute_auroc(RANDOM.normal(0, 1, 150), RANDOM.normal(1, 1, 60))
        held += found.low <= 0.7602 <= found.high
    assert 180 <= held <= 199


def test_auroc_without_an_unknown_image_is_refused() -> None:
    must_fail(ValueError, "no unknown", compute_auroc, np.zeros(3), np.zeros(0))


def test_neighbours_are_the_same_by_images_and_by_features() -> None:
    features, others = RANDOM.random((30, 40)), RANDOM.random((7, 40))
    wide = Neighbours.of(features, 10).similarity(others)
    padded = np.vstack([features, np.repeat(features[:1], 20, axis=0)])  # more rows than features, of equal images
    truth = (unit(others) @ low_rank(unit(padded), 10).T).max(axis=1)
    np.testing.assert_allclose(Neighbours.of(padded, 10).similarity(others), truth, atol=1e-5)
    np.testing.assert_allclose(wide, (unit(others) @ low_rank(unit(features), 10).T).max(axis=1), atol=1e-5)


def test_neighbours_of_equal_images_are_finite_and_have_at_most_their_rank() -> None:
    near = Neighbours.of(np.repeat(RANDOM.random((1, 40)), 8, axis=0), 8)
    assert np.isfinite(near.axes).all()
    assert near.similarity(RANDOM.random((3, 40))).max() <= 1 + 1e-5
    near = Neighbours.of(RANDOM.random((5, 40)), 64)
    assert (near.axes.shape, near.images.shape) == ((40, 5), (5, 5))


@pytest.mark.parametrize("count", [0, 1, 6, 7])
def test_a_few_images_at_a_time_have_the_same_nearest_ones(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    near, others = Neighbours.of(RANDOM.random((50, 40))), RANDOM.random((count, 40))
    whole = near.similarity(others)
    monkeypatch.setattr("advisor.engine._pipeline.stages.unknown_score.MOST_COSINES", 150)  # three images
    np.testing.assert_allclose(near.similarity(others), whole, rtol=1e-6)
    assert whole.shape == (count,)


def test_the_rule_keeps_the_wanted_share_of_known_images_and_reads_the_logits_alone_of_equally_near_ones() -> None:
    logits, similarity = RANDOM.normal(0, 3, (400, 5)), RANDOM.random(400)
    found = make_rule(logits, similarity, 0.9)
    assert (found.scores(logits, similarity) <= 1e-9).mean() == pytest.approx(0.9, abs=0.01)
    assert make_rule(RANDOM.normal(0, 1, (50, 3)), np.ones(50)).weight == 0


def test_accepted_counts_unknown_images_below_the_score_that_keeps_known_ones() -> None:
    assert share_accepted(np.arange(100.0), np.array([0.0, 50.0, 99.0, 200.0])) == pytest.approx(0.5)


def test_the_mean_of_independent_figures_is_narrower() -> None:
    found = mean_of([Interval(0.8, 0.7, 0.9)] * 4)
    assert (found.value, found.high - found.low) == (pytest.approx(0.8), pytest.approx(0.1))


def test_answers_are_those_to_each_capture(tmp_path: Path) -> None:
    paths = fill(tmp_path / "pictures", 3, suffix=".png")
    model = small_models.saved(tmp_path, small_models.brightness(16))
    answers = predict_captured(model, paths, VIEW)
    for place, path in enumerate(paths):
        expected = predict_pixels(model, draw_captures(path, 16), VIEW).argmax(axis=1)
        np.testing.assert_array_equal(answers[:, place], expected)


def test_what_is_saved_is_loaded_image_by_image(tmp_path: Path) -> None:
    found = [boxes(HERE, THERE, labels=[0, 1], sure=0.5), boxes(), boxes(THERE, labels=[3])]
    Detections.save_all(tmp_path / "none.npz", [boxes(), boxes()])
    assert [one.boxes.shape for one in Detections.load_all(tmp_path / "none.npz")] == [(0, 4), (0, 4)]
    Detections.save_all(tmp_path / "found.npz", found)
    for one, kept in zip(found, Detections.load_all(tmp_path / "found.npz"), strict=True):
        assert kept.boxes.shape == one.boxes.shape
        for name in ("boxes", "labels", "scores"):
            assert getattr(kept, name).dtype == getattr(one, name).dtype
            assert getattr(kept, name).tolist() == getattr(one, name).tolist()


def test_true_boxes_are_sure() -> None:
    (one, none) = (Detections.of_true_boxes(rows) for rows in (((1, *THERE), (0, *HERE)), ()))
    assert one.labels.tolist() == [1, 0]
    assert one.boxes == pytest.approx(np.array([THERE, HERE]))
    assert one.scores.tolist() == [1.0, 1.0]
    assert none.boxes.shape == (0, 4)


def test_a_detector_gives_boxes_within_the_image_the_surest_first(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    pixels = np.array([10, 200, 40, 90, 60, 120, 250, 0, 30, 180, 220, 70], np.uint8).reshape(2, 2, 3)
    Image.fromarray(pixels.repeat(8, axis=0).repeat(8, axis=1)).save(path)
    data = Suppression(12, score=0.5, overlap=1.0).append_to(tiny_detector(), ANCHORS)
    found = Detector(small_models.saved(tmp_path, data), VIEW_OF_DETECTION)(path)
    assert len(found.boxes) == len(found.labels) == len(found.scores) > 1
    assert found.boxes.min() >= 0.0
    assert found.boxes.max() <= 1.0
    assert sorted(found.scores, reverse=True) == found.scores.tolist()


def test_a_model_without_detections_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="are not those of a detector"):
        Detector(small_models.saved(tmp_path, tiny_features()), VIEW_OF_DETECTION)

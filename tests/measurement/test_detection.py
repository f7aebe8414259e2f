"""Boxes that a detector finds, and the file that keeps them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.core.errors import RuntimeRefusal, StageError, UsageError
from advisor.datasets.images import InputSpec
from advisor.measurement.detection import Detector, load, save, true_boxes
from advisor.tflite.postprocess import Suppression, append_postprocess
from tests.measurement.test_average_precision import HERE, THERE, boxes
from tests.tflite.graphs import tiny_detector, tiny_features

VIEW = InputSpec(2, (127.5,) * 3, (127.5,) * 3)
ANCHORS = np.array([[0.2, 0.2, 0.2, 0.2], [0.5, 0.5, 0.4, 0.2], [0.9, 0.9, 0.4, 0.4]], np.float32)


def test_what_is_saved_is_loaded_image_by_image(tmp_path: Path) -> None:
    found = [boxes(HERE, THERE, labels=[0, 1], sure=0.5), boxes(), boxes(THERE, labels=[3])]
    save(tmp_path / "found.npz", found)
    for one, kept in zip(found, load(tmp_path / "found.npz"), strict=True):
        assert kept.boxes.shape == one.boxes.shape
        for name in ("boxes", "labels", "scores"):
            assert getattr(kept, name).dtype == getattr(one, name).dtype
            assert getattr(kept, name).tolist() == getattr(one, name).tolist()


def test_images_in_which_nothing_is_found_are_saved_too(tmp_path: Path) -> None:
    save(tmp_path / "found.npz", [boxes(), boxes()])
    assert [one.boxes.shape for one in load(tmp_path / "found.npz")] == [(0, 4), (0, 4)]


def test_true_boxes_are_sure() -> None:
    (one, none) = (true_boxes(rows) for rows in (((1, *THERE), (0, *HERE)), ()))
    assert one.labels.tolist() == [1, 0]
    assert one.boxes == pytest.approx(np.array([THERE, HERE]))
    assert one.scores.tolist() == [1.0, 1.0]
    assert none.boxes.shape == (0, 4)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image.png"
    pixels = np.array([10, 200, 40, 90, 60, 120, 250, 0, 30, 180, 220, 70], np.uint8).reshape(2, 2, 3)
    Image.fromarray(pixels.repeat(8, axis=0).repeat(8, axis=1)).save(path)
    return path


def written(folder: Path, data: bytes) -> Path:
    path = folder / "model.tflite"
    path.write_bytes(data)
    return path


def test_a_detector_gives_boxes_within_the_image_the_surest_first(tmp_path: Path, image: Path) -> None:
    data = append_postprocess(tiny_detector(), ANCHORS, Suppression(12, score=0.5, overlap=1.0))
    found = Detector(written(tmp_path, data), VIEW)(image)
    assert len(found.boxes) == len(found.labels) == len(found.scores) > 1
    assert found.boxes.min() >= 0.0
    assert found.boxes.max() <= 1.0
    assert sorted(found.scores, reverse=True) == found.scores.tolist()


def test_a_model_without_detections_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="are not those of a detector"):
        Detector(written(tmp_path, tiny_features()), VIEW)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        Detector(tmp_path / "no.tflite", VIEW)


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeRefusal):
        Detector(written(tmp_path, b"no model"), VIEW)

"""Predictions through plain LiteRT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.core.errors import RuntimeRefusal, StageError, UsageError
from advisor.datasets.images import InputSpec
from advisor.measurement.accuracy import predict, predict_arrays, predict_pixels
from tests.measurement import small_models

VIEW = InputSpec(8, (127.5,) * 3, (127.5,) * 3)
COLOURS = ((250, 10, 20), (10, 250, 20), (20, 10, 250))


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


def test_no_images_give_no_rows(brightness_model: Path) -> None:
    assert predict(brightness_model, [], VIEW).shape == (0, 3)


def test_a_wrong_size_is_named(brightness_model: Path) -> None:
    with pytest.raises(StageError, match=r"\(9, 9, 3\) for an input of shape \(8, 8, 3\)"):
        predict_pixels(brightness_model, np.zeros((1, 9, 9, 3), np.uint8), VIEW)


def test_a_truncated_file_is_one_line(tmp_path: Path, brightness_model: Path) -> None:
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(brightness_model.read_bytes()[:300])
    with pytest.raises(StageError, match=r"broken.tflite: LiteRT cannot load the model"):
        predict_pixels(broken, np.zeros((1, 8, 8, 3), np.uint8), VIEW)


def test_a_file_for_a_newer_runtime_is_refused(tmp_path: Path, brightness_model: Path) -> None:
    newer = tmp_path / "newer.tflite"
    newer.write_bytes(small_models.of_a_newer_runtime(brightness_model.read_bytes()))
    with pytest.raises(RuntimeRefusal, match=r"newer.tflite: LiteRT cannot load the model: .*version '99'"):
        predict_pixels(newer, np.zeros((1, 8, 8, 3), np.uint8), VIEW)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no model file"):
        predict(tmp_path / "absent.tflite", [], VIEW)

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from advisor.datasets.capture import TESTS, captures
from advisor.datasets.images import InputSpec
from advisor.measurement.accuracy import captured_answers, predict_pixels, robustness
from tests.datasets.folders import fill
from tests.measurement import small_models

VIEW = InputSpec(16, (0.0,) * 3, (255.0,) * 3)


def _brightest_channel(path: Path) -> Path:
    """A classifier of three classes: which of red, green and blue has the greatest mean."""
    build = small_models.Builder()
    image = build.input(16)
    path.write_bytes(build.finish({"image": image}, {"probabilities": build.mean(image)}))
    return path


def test_answers_are_those_to_each_capture(tmp_path: Path) -> None:
    paths = fill(tmp_path / "pictures", 3, suffix=".png")
    model = _brightest_channel(tmp_path / "m.tflite")
    answers = captured_answers(model, paths, VIEW)
    for place, path in enumerate(paths):
        expected = predict_pixels(model, captures(path, 16), VIEW).argmax(axis=1)
        np.testing.assert_array_equal(answers[:, place], expected)


def test_the_mean_runs_over_tests_and_images() -> None:
    answers = np.zeros((len(TESTS), 4), np.int64)
    answers[0] = 1
    found = robustness(answers, [0, 0, 0, 1])
    right = (len(TESTS) - 1) * 3 + 1
    assert found.accuracy.value == pytest.approx(right / (4 * len(TESTS)))
    assert found.by_test[0] == (TESTS[0][0].name, TESTS[0][1], 0.25)
    assert found.by_test[1][2] == 0.75
    assert found.accuracy.low <= found.accuracy.value <= found.accuracy.high


def test_more_images_make_the_interval_narrower() -> None:
    def width(count: int) -> float:
        answers = np.zeros((len(TESTS), count), np.int64)
        found = robustness(answers, [place % 2 for place in range(count)]).accuracy
        return found.high - found.low

    assert width(400) < 0.5 * width(50)


def test_answers_that_do_not_fit_the_labels_are_refused() -> None:
    with pytest.raises(ValueError, match="tests"):
        robustness(np.zeros((len(TESTS), 3), np.int64), [0, 1])

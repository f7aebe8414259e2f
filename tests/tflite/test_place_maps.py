"""Scores of places: what is joined with a backbone answers as the kernels on its maps do."""

import numpy as np
import pytest

from advisor.core import StageError
from advisor.tflite import attach_head, read_head, to_float_io, with_levels
from advisor.training._place_maps import PlaceKernel, select_place_maps, with_places
from tests.builders import must_fail
from tests.tflite.running import Array, Quantize, Run, stays_within_one_delegate

LABELS = 3


def test_a_file_answers_as_its_head_on_features_and_largest_scores(
    backbone: bytes, images: list[Array], run: Run, quantize: Quantize
) -> None:
    body = with_levels(backbone)
    maps = select_place_maps(body)
    shapes = [places.shape[1:] for places in run(maps, {"image": images[0]}).values()]
    assert [shape[:2] for shape in shapes] == [(6, 6), (12, 12)]
    random = np.random.default_rng(0)
    bias = np.array([0, 0.5, -1], np.float32)
    kernels = [PlaceKernel(random.normal(0, 0.1, (shape[2], LABELS)).astype(np.float32), bias) for shape in shapes]
    must_fail(StageError, "do not fit", with_places, body, kernels[:1])
    width = run(body, {"image": images[0]})["features"].shape[1]
    weights = random.normal(0, 0.05, (width + 2 * LABELS, LABELS)).astype(np.float32)
    file = attach_head(with_places(body, kernels), weights, bias, "scores")
    assert stays_within_one_delegate(file)
    assert read_head(file)[0] == pytest.approx(weights)
    rounded = to_float_io(quantize(file, "static_wi8_ai8"))
    for image in images:
        features = [run(body, {"image": image})["features"][0]]
        for places, kernel in zip(run(maps, {"image": image}).values(), kernels, strict=True):
            features.append(np.maximum((places @ kernel.weights + kernel.bias).max(axis=(0, 1, 2)), 0))
        scores = 1 / (1 + np.exp(-(np.concatenate(features) @ weights + bias)))
        assert run(file, {"image": image})["scores"][0] == pytest.approx(scores, abs=1e-4)
        assert run(rounded, {"image": image})["scores"][0] == pytest.approx(scores, abs=0.1)

"""Scores of places: what is joined with a backbone answers as the kernels on its maps do."""

import numpy as np
import pytest

from advisor.core import StageError
from advisor.tflite import attach_head, read_head, to_float_io, with_levels
from advisor.training._place_maps import PlaceKernel, select_place_maps, with_places
from tests.builders import must_fail
from tests.tflite.running import Array, Quantize, Run, stays_within_one_delegate

LABELS = 3


@pytest.fixture(scope="module")
def maps(backbone: bytes, images: list[Array], run: Run) -> list[list[Array]]:
    """The places of each image in each map, (P, F)."""
    selected = select_place_maps(with_levels(backbone))
    answers = [run(selected, {"image": image}) for image in images]
    return [
        [answer[f"map{n}"].reshape(-1, answer[f"map{n}"].shape[-1]) for n in range(len(answer))] for answer in answers
    ]


@pytest.fixture(scope="module")
def kernels(maps: list[list[Array]]) -> list[PlaceKernel]:
    """A kernel of each map; some of its largest scores are below 0."""
    random = np.random.default_rng(0)
    shapes = [rows.shape[1] for rows in maps[0]]
    return [
        PlaceKernel(random.normal(0, 0.1, (width, LABELS)).astype(np.float32), np.array([0, 0.5, -1], np.float32))
        for width in shapes
    ]


def test_a_file_answers_as_its_head_on_features_and_largest_scores(
    backbone: bytes, images: list[Array], maps: list[list[Array]], kernels: list[PlaceKernel], run: Run
) -> None:
    assert [len(rows) for rows in maps[0]] == [6 * 6, 12 * 12]
    body = with_levels(backbone)
    must_fail(StageError, "do not fit", with_places, body, kernels[:1])
    with_scores = with_places(body, kernels)
    width = run(body, {"image": images[0]})["features"].shape[1]
    random = np.random.default_rng(1)
    weights = random.normal(0, 0.05, (width + 2 * LABELS, LABELS)).astype(np.float32)
    bias = random.normal(size=LABELS).astype(np.float32)
    file = attach_head(with_scores, weights, bias, "scores")
    for image, places in zip(images, maps, strict=True):
        features = run(body, {"image": image})["features"][0]
        largest = [
            (rows @ kernel.weights + kernel.bias).max(axis=0) for rows, kernel in zip(places, kernels, strict=True)
        ]
        joined = np.concatenate([features, *np.maximum(largest, 0)])
        assert run(with_scores, {"image": image})["features"][0] == pytest.approx(joined, abs=1e-4)
        scores = 1 / (1 + np.exp(-(joined @ weights + bias)))
        assert run(file, {"image": image})["scores"][0] == pytest.approx(scores, abs=1e-4)
    assert read_head(file)[0] == pytest.approx(weights)


def test_scores_of_places_stay_nearly_the_same_in_8_bits(
    backbone: bytes, images: list[Array], kernels: list[PlaceKernel], run: Run, quantize: Quantize
) -> None:
    body = with_places(with_levels(backbone), kernels)
    width = run(body, {"image": images[0]})["features"].shape[1]
    weights = np.zeros((width, LABELS), np.float32)
    weights[-LABELS:] = np.eye(LABELS)
    file = attach_head(body, weights, np.zeros(LABELS, np.float32), "scores")
    assert stays_within_one_delegate(file)
    rounded = to_float_io(quantize(file, "static_wi8_ai8"))
    for image in images:
        exact = run(file, {"image": image})["scores"]
        assert run(rounded, {"image": image})["scores"] == pytest.approx(exact, abs=0.05)

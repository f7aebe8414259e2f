"""Kernels learn from labels of whole images what one place looks like."""

import numpy as np
import pytest

from advisor.measurement import label_precision
from advisor.training._label_head import fit_label_head
from advisor.training._places import DIMENSIONS, PlaceMap

IMAGES = 300
PLACES = 49


@pytest.fixture(scope="module")
def place_map() -> PlaceMap:
    """Random places; one of those of every second image has a mark, which the mean hides."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(IMAGES, PLACES, DIMENSIONS)).astype(np.float16)
    marked = np.arange(0, IMAGES, 2)
    rows[marked, random.integers(0, PLACES, len(marked)), :2] += 5
    return PlaceMap(rows, np.zeros(DIMENSIONS, np.float32), np.eye(DIMENSIONS, dtype=np.float32))


def test_a_small_thing_is_learnt_from_labels_of_whole_images(place_map: PlaceMap) -> None:
    truth = (np.arange(IMAGES) % 2 == 0).astype(np.int8)[:, None]
    means = place_map.rows.astype(np.float32).mean(axis=1)
    learnt = np.arange(200)
    hashes = [str(place) for place in learnt]
    head = fit_label_head(means[:200], truth[:200], learnt, hashes, 0, places=[place_map.take(learnt)])
    (kernel,) = head.kernels
    scores = (place_map.rows.astype(np.float32) @ kernel.weights).max(axis=1) + kernel.bias
    assert scores.min() > 0
    logits = np.concatenate([means, scores], axis=1) @ head.weights + head.bias
    assert label_precision.mean_precision(truth[200:], logits[200:]) > 0.95


def test_places_that_tell_nothing_are_left_out(place_map: PlaceMap) -> None:
    random = np.random.default_rng(1)
    features = random.normal(size=(IMAGES, 20)).astype(np.float32)
    truth = (features[:, :2] > 0).astype(np.int8)
    images = range(IMAGES)
    assert not fit_label_head(features, truth, images, list(map(str, images)), 0, places=[place_map]).kernels

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from advisor.datasets.look_alikes import groups_tell_classes, look_alikes, silhouettes

CLASSES, EACH = 4, 40


def _single(seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8], list[int]]:
    """Independent images; the colours of a class are near its own point."""
    random = np.random.default_rng(seed)
    labels = [label for label in range(CLASSES) for _ in range(EACH)]
    centres = random.normal(128, 12, (CLASSES, 12))
    values = centres[labels] + random.normal(0, 20, (len(labels), 12))
    return *_small(values), labels


def _visits(seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8], list[int]]:
    """Five visits a class; the images of a visit are near its own point."""
    random = np.random.default_rng(seed)
    labels = [label for label in range(CLASSES) for _ in range(EACH)]
    centres = random.normal(128, 25, (5 * CLASSES, 12))
    visits = [place // (EACH // 5) for place in range(len(labels))]
    values = centres[visits] + random.normal(0, 4, (len(labels), 12))
    return *_small(values), labels


def _small(values: NDArray[np.float64]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    whole = np.clip(values, 0, 255).astype(np.uint8)
    return whole.reshape(len(whole), 2, 2, 3), whole


def test_visits_are_found() -> None:
    colours, _, labels = _visits(0)
    groups = look_alikes(colours, labels)
    for visit in range(5 * CLASSES):
        start = visit * EACH // 5
        assert len(set(groups[start : start + EACH // 5])) == 1


def test_cells_share_no_group() -> None:
    colours, _, labels = _single(0)
    groups = look_alikes(colours, labels)
    assert len(set(zip(groups, labels, strict=True))) == len(set(groups))


def test_visits_tell_classes() -> None:
    for seed in range(10):
        colours, histograms, labels = _visits(seed)
        assert groups_tell_classes(colours, histograms, labels, look_alikes(colours, labels))


def test_accidental_groups_of_single_images_tell_nothing() -> None:
    for seed in range(10):
        colours, histograms, labels = _single(seed)
        assert not groups_tell_classes(colours, histograms, labels, look_alikes(colours, labels))


def test_classes_with_colours_of_their_own_need_no_groups() -> None:
    random = np.random.default_rng(0)
    labels = [label for label in range(CLASSES) for _ in range(EACH)]
    centres = random.permutation(np.linspace(40, 210, CLASSES))[:, None].repeat(12, axis=1)
    colours, histograms = _small(centres[labels] + random.normal(0, 10, (len(labels), 12)))
    assert not groups_tell_classes(colours, histograms, labels, look_alikes(colours, labels))


def test_one_group_for_each_class_tells_nothing() -> None:
    colours, histograms, labels = _visits(0)
    assert not groups_tell_classes(colours, histograms, labels, labels)


def test_clear_visits_count_where_classes_have_colours_of_their_own() -> None:
    for seed in range(5):
        random = np.random.default_rng(seed)
        labels = [label for label in range(CLASSES) for _ in range(EACH)]
        centres = random.permutation(np.linspace(40, 210, CLASSES)).repeat(5)[:, None] + random.normal(0, 8, (20, 12))
        visits = [place // (EACH // 5) for place in range(len(labels))]
        colours, histograms = _small(centres[visits] + random.normal(0, 2, (len(labels), 12)))
        assert groups_tell_classes(colours, histograms, labels, look_alikes(colours, labels))


def test_silhouettes_of_two_clear_clusters_are_near_one() -> None:
    places = np.array([0.0, 1.0, 100.0, 101.0])
    found = silhouettes(np.abs(places[:, None] - places), np.array([0, 0, 1, 1]))
    assert (found > 0.98).all()
    assert (silhouettes(np.abs(places[:, None] - places), np.array([0, 1, 0, 1])) < 0).all()

from collections.abc import Callable

import numpy as np
import pytest

from advisor.training._augmentation import Augmentation, augment_images, change_pixels

Change = Callable[..., np.ndarray]

pytestmark = pytest.mark.integration

NOTHING = Augmentation(crop=1.0, colour=0.0, mixup=0.0)


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (16, 12, 12, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def targets() -> np.ndarray:
    return np.eye(4, dtype=np.float32)[np.arange(16) % 4]


@pytest.fixture(params=["graph", "pixels"])
def change(request: pytest.FixtureRequest) -> Change:
    if request.param == "graph":
        return lambda images, change, seed=0: _run(images, np.zeros((len(images), 1), np.float32), change, seed)[0]
    return lambda images, change, seed=0: change_pixels(images.round().astype(np.uint8), change, (seed, 1))


def _run(images: np.ndarray, targets: np.ndarray, change: Augmentation, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    import tensorflow as tf

    seen, wanted = augment_images(tf.constant(images), tf.constant(targets), change, tf.constant([seed, 1]))
    return seen.numpy(), wanted.numpy()


def test_without_crop_images_are_as_they_are_or_mirrored(images: np.ndarray, change: Change) -> None:
    seen = change(images, NOTHING)
    plain = np.isclose(seen, images, atol=0.01).all(axis=(1, 2, 3))
    mirrored = np.isclose(seen, images[:, :, ::-1], atol=0.01).all(axis=(1, 2, 3))
    assert (plain ^ mirrored).all()
    assert plain.any()
    assert mirrored.any()


def test_crops_show_parts(change: Change) -> None:
    ramp = np.broadcast_to(np.linspace(0, 255, 12, dtype=np.float32)[None, :, None, None], (16, 12, 12, 3))
    seen = change(ramp, Augmentation(crop=0.5, colour=0.0, mixup=0.0))
    heights = seen[:, -1, 0, 0] - seen[:, 0, 0, 0]
    assert (heights > 0.45 * 255).all()
    assert len(np.unique(heights.round(2))) > 8


def test_some_images_are_tilted_by_so_much_at_most(change: Change) -> None:
    across = np.linspace(-1, 1, 48, dtype=np.float32)
    ramp = np.broadcast_to((127.5 + 80 * across)[None, None, :, None], (16, 48, 48, 3))
    seen = change(ramp, Augmentation(crop=1.0, colour=0.0, mixup=0.0, turn=15.0)).astype(float)
    down, right = (np.gradient(seen[:, 12:36, 12:36, 0], axis=axis).mean(axis=(1, 2)) for axis in (1, 2))
    angles = np.degrees(np.arctan2(np.abs(down), np.abs(right)))
    assert (angles < 15.2).all()
    assert (angles > 0.5).sum() >= 3
    assert (angles < 0.01).sum() >= 3


def test_values_stay_in_range_and_equal_seeds_change_equally(images: np.ndarray, change: Change) -> None:
    seen = change(images, Augmentation(crop=0.5, colour=0.9, mixup=1.0))
    assert seen.min() >= 0
    assert seen.max() <= 255
    first, same, other = (change(images, Augmentation(), seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, same)
    assert not np.allclose(first, other)


def test_both_ways_change_colours_alike(change: Change) -> None:
    photo = np.random.default_rng(1).integers(60, 200, (1, 12, 12, 3)).astype(np.float32)
    seen = change(np.repeat(photo, 400, axis=0), Augmentation(crop=1.0, colour=0.2, mixup=0.0))
    brightness = seen.mean(axis=(1, 2, 3)) / photo.mean()
    contrast = seen.mean(axis=3).std(axis=(1, 2)) / photo.mean(axis=3).std() / brightness
    for factors in (brightness, contrast):
        assert (factors.mean(), factors.std()) == (pytest.approx(1.0, abs=0.02), pytest.approx(0.1155, abs=0.012))


def test_mixing_keeps_targets_whole_and_the_first_image_in_the_lead(images: np.ndarray, targets: np.ndarray) -> None:
    for seed in range(10):
        _, wanted = _run(images, targets, Augmentation(mixup=1.0), seed)
        np.testing.assert_allclose(wanted.sum(axis=1), 1, rtol=1e-5)
        assert (wanted[targets == 1] >= 0.499).all()

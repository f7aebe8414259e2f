"""The maps of the frozen lower part: where the network is cut, what is kept, and that learning on them is the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.core.errors import StageError
from advisor.training.batches import Augmentation, Batches
from advisor.training.finetune import maps
from advisor.training.finetune.hyperparameters import Finetuning
from advisor.training.finetune.maps import MapBatches, cuts, halve
from advisor.training.finetune.network import Start, build
from tests.training import nets

pytestmark = pytest.mark.integration

CHANGES = Finetuning(cached=True, copies=2, augmentation=Augmentation(crop=0.5, colour=0.2, mixup=0.0), seed=3)


def _model(trained: float) -> Any:
    weights = np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32)
    return build(nets.backbone(), Start(weights, np.zeros(2, np.float32)), nets.VIEW, trained, cached=True)


@pytest.fixture(scope="module")
def model() -> Any:
    return _model(0.5)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Batches:
    folder = tmp_path_factory.mktemp("images")
    return Batches(*nets.stripes(folder, 40), nets.SIZE, folder / "pictures.npy")


def test_a_layer_beside_a_shortcut_is_no_cut() -> None:
    import keras

    image = keras.Input((8, 8, 3))
    first = keras.layers.Conv2D(4, 1, name="first")(image)
    beside = keras.layers.Conv2D(4, 1, name="beside")(first)
    last = keras.layers.Add(name="sum")([first, beside])
    body = keras.Model(image, keras.layers.GlobalAveragePooling2D(name="pooled")(last))
    assert cuts(body) == ["first", "sum"]


def test_an_operation_that_is_no_layer_is_no_cut() -> None:
    import keras

    image = keras.Input((8, 8, 3))
    first = keras.layers.Conv2D(4, 1, name="first")(image)
    gated = keras.layers.ReLU(6.0, name="gate")(first + 3.0) * (1.0 / 6.0)  # the hard sigmoid of MobileNetV3
    product = keras.layers.Multiply(name="product")([first, gated])
    body = keras.Model(image, keras.layers.GlobalAveragePooling2D(name="pooled")(product))
    assert cuts(body) == ["first", "product"]


def test_the_cut_is_the_highest_one_below_the_trained_layers(model: Any) -> None:
    upper = halve(model, 40).upper.get_layer("backbone")
    assert [layer.name for layer in upper.layers[1:]] == ["conv1", "norm1", "relu1", "features"]


def test_both_halves_answer_as_the_whole(model: Any, images: Batches) -> None:
    pixels, _ = next(images.epoch(np.arange(8), 8))
    halves = halve(model, 40)
    shown = pixels.astype(np.float32)
    np.testing.assert_allclose(
        np.asarray(halves.upper(halves.lower(shown))), np.asarray(model(shown)), rtol=1e-4, atol=1e-4
    )


def test_levels_below_the_cut_are_kept_with_the_map(images: Batches) -> None:
    levels = ("relu0", "relu1")
    weights = np.random.default_rng(0).normal(size=(8 + 6 + 8, 2)).astype(np.float32)
    model = build(nets.backbone(), Start(weights, np.zeros(2, np.float32), levels), nets.VIEW, 0.25, cached=True)
    halves = halve(model, 40, levels)
    shown = next(images.epoch(np.arange(8), 8))[0].astype(np.float32)
    assert len(halves.upper.inputs[0].shape) == 2  # a map and means in one row
    np.testing.assert_allclose(
        np.asarray(halves.upper(halves.lower(shown))), np.asarray(model(shown)), rtol=1e-4, atol=1e-4
    )


def test_maps_that_are_too_large_move_the_cut_up(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model(0.5)
    lowest = halve(model, 40).upper.inputs[0].shape[1:]
    monkeypatch.setattr(maps, "MAX_BYTES", 40 * 2 * int(np.prod(lowest)) - 1)
    higher = halve(model, 40).upper
    assert np.prod(higher.inputs[0].shape[1:]) < np.prod(lowest)
    monkeypatch.setattr(maps, "MAX_BYTES", 1)
    with pytest.raises(StageError, match="40 images"):
        halve(model, 40)


def test_the_kept_maps_are_those_of_the_network(model: Any, images: Batches, tmp_path: Path) -> None:
    lower = halve(model, 40).lower
    kept = MapBatches(lower, images, replace(CHANGES, copies=0), tmp_path)
    found, labels = next(kept.epoch(np.array([7, 3]), 2))
    pixels, expected = next(images.epoch(np.array([7, 3]), 2))
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_allclose(found, np.asarray(lower(pixels.astype(np.float32))), rtol=2**-10, atol=1e-3)


def test_changed_copies_stand_in_for_a_share_of_the_images(model: Any, images: Batches, tmp_path: Path) -> None:
    lower = halve(model, 40).lower
    kept = MapBatches(lower, images, CHANGES, tmp_path)
    every = np.arange(40)
    plain, _ = next(kept.epoch(every, 40))
    mixed, _ = next(kept.epoch(every, 40, 0.5, (0, 0)))
    changed = [bool((one != other).any()) for one, other in zip(plain, mixed, strict=True)]
    assert 8 <= sum(changed) <= 32
    again, _ = next(kept.epoch(every, 40, 0.5, (0, 0)))
    np.testing.assert_array_equal(mixed, again)
    other, _ = next(kept.epoch(every, 40, 0.5, (0, 1)))
    assert (mixed != other).any()


def test_equal_seeds_keep_equal_maps_and_others_their_own(model: Any, images: Batches, tmp_path: Path) -> None:
    lower, every = halve(model, 40).lower, np.arange(40)
    kept = []
    for place, seed in (("first", 3), ("second", 3), ("second", 4)):
        (tmp_path / place).mkdir(exist_ok=True)
        kept.append(MapBatches(lower, images, replace(CHANGES, seed=seed), tmp_path / place))
    plain = [next(one.epoch(every, 40))[0] for one in kept]
    mixed = [next(one.epoch(every, 40, 1.0))[0] for one in kept]
    np.testing.assert_array_equal(plain[0], plain[2])
    np.testing.assert_array_equal(mixed[0], mixed[1])
    assert (mixed[0] != mixed[2]).any()


def test_a_capture_condition_changes_the_copies_alone(model: Any, images: Batches, tmp_path: Path) -> None:
    lower, every = halve(model, 40).lower, np.arange(40)
    kept = [MapBatches(lower, images, replace(CHANGES, capture=share), tmp_path) for share in (0.0, 1.0)]
    plain, mixed = ([next(one.epoch(every, 40, changed))[0] for one in kept] for changed in (0.0, 1.0))
    np.testing.assert_array_equal(*plain)
    assert (mixed[0] != mixed[1]).any(axis=(1, 2, 3)).mean() > 0.5


def test_another_lower_part_has_maps_of_its_own(model: Any, images: Batches, tmp_path: Path) -> None:
    other = _model(0.5)
    layer = other.get_layer("backbone").get_layer("conv0")
    layer.set_weights([2 * weight for weight in layer.get_weights()])
    lower, doubled = (halve(each, 40).lower for each in (model, other))
    first, second, again = (MapBatches(each, images, CHANGES, tmp_path) for each in (lower, doubled, lower))
    maps_of = [next(each.epoch(np.arange(4), 4))[0] for each in (first, second, again)]
    np.testing.assert_array_equal(maps_of[0], maps_of[2])
    assert (maps_of[0] != maps_of[1]).any()
    assert len(list(tmp_path.glob("maps-*.npy"))) == 2

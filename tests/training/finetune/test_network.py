"""The levels of a Keras backbone are those of its file, and learning on kept maps is the same."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.core import StageError
from advisor.measurement import Classifier
from advisor.tflite import with_levels as with_levels_of_file
from advisor.training import Finetuning, extract_features
from advisor.training._augmentation import Augmentation
from advisor.training._batches import Batches
from advisor.training._cut_maps import find_cut_maps
from advisor.training._finetune import convert_backbone, halves, network
from advisor.training._finetune.halves import find_cuts, halve_network
from advisor.training._finetune.maps import MapBatches, PlainMaps
from tests.builders import must_fail
from tests.training import nets

pytestmark = pytest.mark.integration

SIDE = 64
BATCH = (np.full((4, SIDE, SIDE, 3), 90, np.uint8), np.array([0, 1, 0, 1]), np.ones(4, np.float32))
KNOBS = Finetuning(batch=4, epochs=5, learning_rate=0.01, augmentation=Augmentation(mixup=0.0), averaging=10)
CHANGES = Finetuning(cached=True, copies=2, augmentation=Augmentation(crop=0.5, colour=0.2, mixup=0.0), seed=3)


def _start(width: int) -> network.Start:
    weights = np.random.default_rng(0).normal(size=(width, 2)).astype(np.float32)
    return network.Start(weights, np.zeros(2, np.float32), np.zeros(width, np.float32), np.ones(width, np.float32))


def _convolutions() -> Any:
    import keras

    keras.utils.set_random_seed(0)
    image = keras.Input((SIDE, SIDE, 3), batch_size=1, name="image")
    wide = keras.layers.Conv2D(5, 3, strides=2, activation="relu")(image)
    return keras.Model(image, keras.layers.GlobalAveragePooling2D()(wide))


def _flattened() -> Any:
    import keras

    image = keras.Input((SIDE, SIDE, 3), batch_size=1, name="image")
    return keras.Model(image, keras.layers.Flatten()(keras.layers.AveragePooling2D(16)(image)))


def _optimizer(model: Any, steps: int, side: int = 32, **changed: float) -> Any:
    """Return an optimizer that took so many steps with falling losses."""
    from advisor.training._finetune.optimizer import Optimizer

    with nets.uncompiled_steps():  # a few steps cost less than the trace of their graph
        made = Optimizer(model, replace(KNOBS, **changed), 8)  # type: ignore[arg-type]
    assert all(made.run(*BATCH, (0, place), side).numpy() > 0 for place in range(steps))
    return made


@pytest.mark.parametrize(("make", "smaller"), [(_convolutions, 32), (_flattened, SIDE)])
def test_convolutions_may_train_on_smaller_images_and_a_fixed_size_stays(make: Callable[[], Any], smaller: int) -> None:
    backbone = make()
    model = network.build_network(backbone, _start(int(backbone.outputs[0].shape[-1])), nets.VIEW, 1.0)
    assert network.training_side(model, SIDE, 0.5) == smaller
    assert network.training_side(model, SIDE, 1.0) == SIDE
    _optimizer(model, 1, smaller)


def test_the_means_trail_the_weights_and_come_back() -> None:
    model = network.build_network(_convolutions(), _start(5), nets.VIEW, 1.0)
    step = _optimizer(model, 4)
    last = model.get_weights()
    step.swap_means()
    mean = model.get_weights()
    assert any((first != second).any() for first, second in zip(last, mean, strict=True))
    step.swap_means()
    for first, second in zip(last, model.get_weights(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_the_network_answers_as_trunk_and_head_and_features_that_never_move_are_not_blown_up() -> None:
    backbone, plain = _convolutions(), _start(5)
    spread = np.array([0.0, 1e-9, 0.2, 0.4, 0.6], np.float32)
    photo = np.random.default_rng(1).integers(0, 256, (1, SIDE, SIDE, 3)).astype(np.float32)
    features = np.asarray(backbone((photo - nets.VIEW.mean[0]) / nets.VIEW.std[0]))
    for start in (plain, replace(plain, mean=np.full(5, 0.1, np.float32), spread=spread)):
        model = network.build_network(backbone, start, nets.VIEW, 1.0)
        np.testing.assert_allclose(np.asarray(model(photo)), features @ start.weights + start.bias, atol=1e-4)
    assert model.get_layer("standard").scale.max() == pytest.approx(1 / (network.LEAST_SPREAD * 0.2))
    weights, bias = network.copy_parts(model, backbone, start)
    np.testing.assert_allclose(weights, start.weights, rtol=1e-5)
    np.testing.assert_allclose(bias, start.bias, atol=1e-5)


def test_decay_towards_the_start_holds_the_backbone_back() -> None:
    moved, backbone = [], _convolutions()
    for strength in (0.0, 100.0):
        model = network.build_network(backbone, _start(5), nets.VIEW, 1.0)
        kernel = model.get_layer("backbone").layers[1].kernel
        before = np.array(kernel)
        _optimizer(model, 4, l2_sp=strength)
        moved.append(float(np.abs(np.array(kernel) - before).max()))
    assert 0 < moved[1] < 0.97 * moved[0]


@pytest.mark.parametrize("pad", [False, True])
def test_both_find_the_same_means_in_the_same_order_and_other_features_do_not_agree(pad: bool, tmp_path: Path) -> None:
    backbone, path = nets.halvings(pad), tmp_path / "backbone.tflite"
    images = np.random.default_rng(0).normal(size=(2, nets.WIDE, nets.WIDE, 3)).astype(np.float32)
    path.write_bytes(with_levels_of_file(convert_backbone(backbone)))
    features = np.stack(list(map(Classifier(path), images)))
    names = network.level_layers(backbone)
    assert names == ["wide2", "wide1"]
    found = np.concatenate([np.asarray(network.with_levels(backbone, names)(photo[None])) for photo in images])
    np.testing.assert_allclose(found, features, atol=1e-5)
    assert network.gives_features(backbone, names, images, features)
    assert not network.gives_features(backbone, names[::-1], images, features)
    assert not network.gives_features(backbone, names[:1], images, features)
    assert not network.gives_features(backbone, names, images, features[:, :-1])


def _model() -> Any:
    return network.build_network(nets.backbone(), _start(8), nets.VIEW, 0.5, cached=True)


@pytest.fixture(scope="module")
def model_of_maps() -> Any:
    return _model()


@pytest.fixture(scope="module")
def lower(model_of_maps: Any) -> Any:
    return halve_network(model_of_maps, 40).lower


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Batches:
    folder = tmp_path_factory.mktemp("images")
    return Batches(*nets.stripes(folder, 40), nets.SIZE, folder / "pictures.npy")


def test_a_layer_beside_a_shortcut_and_an_operation_that_is_no_layer_are_no_cut() -> None:
    from keras import Input, Model, layers

    image = Input((8, 8, 3))
    first = layers.Conv2D(4, 1, name="first")(image)
    gated = layers.ReLU(6.0, name="gate")(first + 3.0) * (1.0 / 6.0)  # the hard sigmoid of MobileNetV3
    for beside, joined in ((layers.Conv2D(4, 1)(first), layers.Add), (gated, layers.Multiply)):
        last = joined(name="last")([first, beside])
        body = Model(image, layers.GlobalAveragePooling2D(name="pooled")(last))
        assert find_cuts(body) == ["first", "last"]


def test_the_cut_is_the_highest_one_below_the_trained_layers(model_of_maps: Any) -> None:
    upper = halve_network(model_of_maps, 40).upper.get_layer("backbone")
    assert [layer.name for layer in upper.layers[1:]] == ["conv1", "norm1", "relu1", "features"]


def test_both_halves_answer_as_the_whole(model_of_maps: Any, images: Batches) -> None:
    pixels, _ = next(images.epoch(np.arange(8), 8))
    halves = halve_network(model_of_maps, 40)
    shown = pixels.astype(np.float32)
    np.testing.assert_allclose(
        np.asarray(halves.upper(halves.lower(shown))), np.asarray(model_of_maps(shown)), rtol=1e-4, atol=1e-4
    )


def test_levels_below_the_cut_are_kept_with_the_map(images: Batches) -> None:
    levels = ("relu0", "relu1")
    model = network.build_network(
        nets.backbone(), replace(_start(8 + 6 + 8), levels=levels), nets.VIEW, 0.25, cached=True
    )
    halves = halve_network(model, 40, levels)
    shown = next(images.epoch(np.arange(8), 8))[0].astype(np.float32)
    assert len(halves.upper.inputs[0].shape) == 2  # a map and means in one row
    np.testing.assert_allclose(
        np.asarray(halves.upper(halves.lower(shown))), np.asarray(model(shown)), rtol=1e-4, atol=1e-4
    )


def test_maps_that_are_too_large_move_the_cut_up(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model()
    lowest = halve_network(model, 40).upper.inputs[0].shape[1:]
    monkeypatch.setattr(halves, "MAX_BYTES", 40 * 2 * int(np.prod(lowest)) - 1)
    higher = halve_network(model, 40).upper
    assert np.prod(higher.inputs[0].shape[1:]) < np.prod(lowest)
    monkeypatch.setattr(halves, "MAX_BYTES", 1)
    must_fail(StageError, "40 images", halve_network, model, 40)


@pytest.mark.parametrize("from_features", [False, True])
def test_kept_maps_are_the_networks(from_features: bool, images: Batches, model_of_maps: Any, tmp_path: Path) -> None:
    halves, plain = halve_network(model_of_maps, 40), None
    if from_features:
        (tmp_path / "backbone.tflite").write_bytes(convert_backbone(nets.backbone()))
        extract_features(tmp_path / "backbone.tflite", images._images, nets.VIEW, maps=tmp_path)
        few, more = (list(find_cut_maps([tmp_path / "rows.npy"], halves.cut, count)) for count in (40, 41))
        assert not more, "one image has none"
        plain = PlainMaps(halves, np.zeros((40, 1), np.float32), few)
        assert plain.find_reader(images, lambda pixels: np.asarray(halves.lower(pixels)))
        assert plain.find_reader(images, lambda pixels: 1.1 * np.asarray(halves.lower(pixels))) is None
    kept = MapBatches(halves.lower, images, replace(CHANGES, copies=0), tmp_path, 1e6, plain)
    found, labels = next(kept.epoch(np.array([7, 3]), 2))
    pixels, expected = next(images.epoch(np.array([7, 3]), 2))
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_allclose(found, np.asarray(halves.lower(pixels.astype(np.float32))), rtol=2**-9, atol=1e-3)


def test_changed_copies_stand_in_for_a_share_of_the_images(lower: Any, images: Batches, tmp_path: Path) -> None:
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


def test_images_that_only_judge_have_no_changed_copies(lower: Any, images: Batches, tmp_path: Path) -> None:
    whole, some = (MapBatches(lower, images, CHANGES, tmp_path, None, None, chosen) for chosen in (None, np.arange(9)))
    every = np.arange(40)
    plain, mixed, all_mixed = (
        next(one.epoch(every, 40, part))[0] for one, part in ((some, 0.0), (some, 1.0), (whole, 1.0))
    )
    np.testing.assert_array_equal(plain[9:], mixed[9:])
    assert (plain[:9] != mixed[:9]).any(axis=(1, 2, 3)).all()
    assert (plain != all_mixed).any(axis=(1, 2, 3)).all()


def test_a_capture_condition_changes_the_copies_alone(lower: Any, images: Batches, tmp_path: Path) -> None:
    every = np.arange(40)
    kept = [MapBatches(lower, images, replace(CHANGES, copies=1, capture=share), tmp_path) for share in (0.0, 1.0)]
    plain, mixed = ([next(one.epoch(every, 40, changed))[0] for one in kept] for changed in (0.0, 1.0))
    np.testing.assert_array_equal(*plain)
    assert (mixed[0] != mixed[1]).any(axis=(1, 2, 3)).mean() > 0.5


def test_another_lower_part_has_maps_of_its_own(lower: Any, images: Batches, tmp_path: Path) -> None:
    other = _model()
    layer = other.get_layer("backbone").get_layer("conv0")
    layer.set_weights([2 * weight for weight in layer.get_weights()])
    doubled = halve_network(other, 40).lower
    first, second, again = (MapBatches(each, images, CHANGES, tmp_path) for each in (lower, doubled, lower))
    maps_of = [next(each.epoch(np.arange(4), 4))[0] for each in (first, second, again)]
    np.testing.assert_array_equal(maps_of[0], maps_of[2])
    assert (maps_of[0] != maps_of[1]).any()
    assert len(list(tmp_path.glob("maps-*.npy"))) == 2

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from advisor.training.batches import Augmentation
from advisor.training.finetune.hyperparameters import Finetuning
from advisor.training.finetune.network import LEAST_SPREAD, Start, build, parts, training_side
from tests.training import nets

pytestmark = pytest.mark.integration

SIDE = 64
BATCH = (np.full((4, SIDE, SIDE, 3), 90, np.uint8), np.array([0, 1, 0, 1]), np.ones(4, np.float32))
KNOBS = Finetuning(batch=4, epochs=5, learning_rate=0.01, augmentation=Augmentation(mixup=0.0), averaging=10)


def _start(width: int) -> Start:
    weights = np.random.default_rng(0).normal(size=(width, 2)).astype(np.float32)
    return Start(weights, np.zeros(2, np.float32))


def _convolutions() -> Any:
    import keras

    image = keras.Input((SIDE, SIDE, 3), batch_size=1, name="image")
    wide = keras.layers.Conv2D(5, 3, strides=2, activation="relu")(image)
    return keras.Model(image, keras.layers.GlobalAveragePooling2D()(wide))


def _flattened() -> Any:
    import keras

    image = keras.Input((SIDE, SIDE, 3), batch_size=1, name="image")
    small = keras.layers.AveragePooling2D(16)(image)
    return keras.Model(image, keras.layers.Flatten()(small))


@pytest.fixture(scope="module")
def model() -> Any:
    return build(_convolutions(), _start(5), nets.VIEW, 1.0)


def test_convolutions_may_train_on_smaller_images(model: Any) -> None:
    from advisor.training.finetune.optimizer import Optimizer

    assert training_side(model, SIDE, 0.5) == 32
    assert training_side(model, SIDE, 1.0) == SIDE
    assert Optimizer(model, KNOBS, 8).run(*BATCH, (0, 0), 32).numpy() > 0


def test_a_network_of_one_size_keeps_it() -> None:
    from advisor.training.finetune.optimizer import Optimizer

    backbone = _flattened()
    model = build(backbone, _start(int(backbone.outputs[0].shape[-1])), nets.VIEW, 1.0)
    assert training_side(model, SIDE, 0.5) == SIDE
    assert Optimizer(model, KNOBS, 8).run(*BATCH, (0, 0), SIDE).numpy() > 0


def test_the_network_answers_as_trunk_and_head(model: Any) -> None:
    backbone, start = _convolutions(), _start(5)
    model = build(backbone, start, nets.VIEW, 1.0)
    photo = np.random.default_rng(1).integers(0, 256, (1, SIDE, SIDE, 3)).astype(np.float32)
    features = np.asarray(backbone((photo - nets.VIEW.mean[0]) / nets.VIEW.std[0]))
    np.testing.assert_allclose(np.asarray(model(photo)), features @ start.weights + start.bias, atol=1e-4)


def test_the_means_trail_the_weights_and_come_back() -> None:
    from advisor.training.finetune.optimizer import Optimizer

    model = build(_convolutions(), _start(5), nets.VIEW, 1.0)
    step = Optimizer(model, KNOBS, 8)
    for place in range(4):
        step.run(*BATCH, (0, place), 32)
    last = model.get_weights()
    step.swap()
    mean = model.get_weights()
    assert any((first != second).any() for first, second in zip(last, mean, strict=True))
    step.swap()
    for first, second in zip(last, model.get_weights(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_features_are_standardised_and_those_that_never_move_are_not_blown_up() -> None:
    backbone, start = _convolutions(), _start(5)
    spread = np.array([0.0, 1e-9, 0.2, 0.4, 0.6], np.float32)
    start = replace(start, mean=np.full(5, 0.1, np.float32), spread=spread)
    model = build(backbone, start, nets.VIEW, 1.0)
    photo = np.random.default_rng(1).integers(0, 256, (1, SIDE, SIDE, 3)).astype(np.float32)
    features = np.asarray(backbone((photo - nets.VIEW.mean[0]) / nets.VIEW.std[0]))
    np.testing.assert_allclose(np.asarray(model(photo)), features @ start.weights + start.bias, atol=1e-4)
    assert model.get_layer("standard").scale.max() == pytest.approx(1 / (LEAST_SPREAD * 0.2))
    weights, bias = parts(model, backbone, start)
    np.testing.assert_allclose(weights, start.weights, rtol=1e-5)
    np.testing.assert_allclose(bias, start.bias, atol=1e-5)


def test_decay_towards_the_start_holds_the_backbone_back() -> None:
    from advisor.training.finetune.optimizer import Optimizer

    moved, backbone = [], _convolutions()
    for strength in (0.0, 100.0):
        model = build(backbone, _start(5), nets.VIEW, 1.0)
        kernel = model.get_layer("backbone").layers[1].kernel
        before = np.array(kernel)
        step = Optimizer(model, replace(KNOBS, l2_sp=strength), 8)
        for place in range(4):
            step.run(*BATCH, (0, place), 32)
        moved.append(float(np.abs(np.array(kernel) - before).max()))
    assert 0 < moved[1] < 0.97 * moved[0]

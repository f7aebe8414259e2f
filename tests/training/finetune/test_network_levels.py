"""The levels of a Keras backbone are those of its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.measurement.accuracy import Classifier
from advisor.tflite.levels import with_levels as with_levels_of_file
from advisor.training.finetune.network import agrees, level_layers, with_levels
from advisor.training.finetune.tuning import convert

pytestmark = pytest.mark.integration

SIDE = 64


def _plain(pad: bool) -> Any:
    """Three halvings; the last resolution is read by a window and not by a stride."""
    import keras

    keras.utils.set_random_seed(1)
    last = image = keras.Input((SIDE, SIDE, 3), batch_size=1, name="image")
    for number, width in enumerate((4, 6, 8)):
        if pad:
            last = keras.layers.ZeroPadding2D(((0, 1), (0, 1)))(last)
        last = keras.layers.Conv2D(width, 3, strides=2, padding="valid" if pad else "same", name=f"conv{number}")(last)
        last = keras.layers.ReLU(6.0, name=f"relu{number}")(last)
        last = keras.layers.Conv2D(2 * width, 1, activation="relu", name=f"wide{number}")(last)
    last = keras.layers.DepthwiseConv2D(3, padding="same", name="deep")(last)
    return keras.Model(image, keras.layers.GlobalAveragePooling2D(name="features")(last))


def _in_litert(backbone: Any, images: np.ndarray, path: Path) -> np.ndarray:
    path.write_bytes(with_levels_of_file(convert(backbone)))
    model = Classifier(path)
    return np.stack([model(image) for image in images])


@pytest.mark.parametrize("pad", [False, True])
def test_both_find_the_same_means_in_the_same_order(pad: bool, tmp_path: Path) -> None:
    backbone = _plain(pad)
    images = np.random.default_rng(0).normal(size=(2, SIDE, SIDE, 3)).astype(np.float32)
    features = _in_litert(backbone, images, tmp_path / "backbone.tflite")
    names = level_layers(backbone)
    assert names == ["wide2", "wide1"]
    found = np.concatenate([np.asarray(with_levels(backbone, names)(photo[None])) for photo in images])
    np.testing.assert_allclose(found, features, atol=1e-5)
    assert agrees(backbone, names, images, features)


def test_other_features_do_not_agree(tmp_path: Path) -> None:
    backbone = _plain(False)
    images = np.random.default_rng(0).normal(size=(2, SIDE, SIDE, 3)).astype(np.float32)
    features = _in_litert(backbone, images, tmp_path / "backbone.tflite")
    names = level_layers(backbone)
    assert not agrees(backbone, names[::-1], images, features)
    assert not agrees(backbone, names[:1], images, features)
    assert not agrees(backbone, names, images, features[:, :-1])

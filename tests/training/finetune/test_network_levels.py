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
from tests.training import nets

pytestmark = pytest.mark.integration


def _in_litert(backbone: Any, images: np.ndarray, path: Path) -> np.ndarray:
    path.write_bytes(with_levels_of_file(convert(backbone)))
    model = Classifier(path)
    return np.stack([model(image) for image in images])


@pytest.mark.parametrize("pad", [False, True])
def test_both_find_the_same_means_in_the_same_order(pad: bool, tmp_path: Path) -> None:
    backbone = nets.halvings(pad)
    images = np.random.default_rng(0).normal(size=(2, nets.WIDE, nets.WIDE, 3)).astype(np.float32)
    features = _in_litert(backbone, images, tmp_path / "backbone.tflite")
    names = level_layers(backbone)
    assert names == ["wide2", "wide1"]
    found = np.concatenate([np.asarray(with_levels(backbone, names)(photo[None])) for photo in images])
    np.testing.assert_allclose(found, features, atol=1e-5)
    assert agrees(backbone, names, images, features)


def test_other_features_do_not_agree(tmp_path: Path) -> None:
    backbone = nets.halvings(False)
    images = np.random.default_rng(0).normal(size=(2, nets.WIDE, nets.WIDE, 3)).astype(np.float32)
    features = _in_litert(backbone, images, tmp_path / "backbone.tflite")
    names = level_layers(backbone)
    assert not agrees(backbone, names[::-1], images, features)
    assert not agrees(backbone, names[:1], images, features)
    assert not agrees(backbone, names, images, features[:, :-1])

"""Checkpoints that Keras and TensorFlow write themselves: what they saved is what is read."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.catalog.weights import mapping
from advisor.catalog.weights.readers import read
from advisor.core.errors import WeightsError

pytestmark = pytest.mark.integration


def network(layers: Any, image: Any) -> Any:
    """A small classifier whose layers of one class are many, so that their order can be lost."""
    x = image
    for index in range(12):
        x = layers.Conv2D(3, 1, name=f"conv_{12 - index}")(x)
    x = layers.BatchNormalization(name="norm")(x)
    x = layers.SeparableConv2D(4, 3, name="apart")(x)
    x = layers.Dropout(0.5)(layers.GlobalAveragePooling2D()(x))
    return layers.Dense(5, name="logits")(x)


@pytest.fixture
def model() -> Any:
    """The network with weights that tell the layers apart."""
    import keras
    from keras import layers

    image = keras.Input((8, 8, 3), batch_size=1)
    built = keras.Model(image, network(layers, layers.RandomFlip()(image)))
    rng = np.random.default_rng(3)
    for variable in built.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))
    return built


def blank() -> Any:
    """The same graph, flat and with other weights."""
    import keras
    from keras import layers

    image = keras.Input((8, 8, 3), batch_size=1)
    return keras.Model(image, network(layers, image))


def agree(one: Any, other: Any) -> bool:
    photo = np.random.default_rng(5).normal(size=(1, 8, 8, 3)).astype(np.float32)
    return bool(np.allclose(one(photo, training=False), other(photo, training=False), rtol=1e-4, atol=1e-3))


def test_an_exported_saved_model_fills_the_graph(tmp_path: Path, model: Any) -> None:
    model.export(tmp_path / "m", verbose=False)
    filled = blank()
    mapping.put("keras", filled, read("checkpoint", tmp_path / "m" / "variables" / "variables.index"))
    assert agree(filled, model)


def test_a_checkpoint_of_plain_names_is_read(tmp_path: Path) -> None:
    import tensorflow as tf

    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "model.ckpt"),
        tensor_names=["MobilenetV1/Conv2d_0/weights", "global_step"],
        shape_and_slices=["", ""],
        tensors=[values, np.int64(7)],
    )
    tensors = read("checkpoint", tmp_path / "model.ckpt.index")
    assert list(tensors) == ["MobilenetV1/Conv2d_0/weights"]
    assert np.array_equal(tensors["MobilenetV1/Conv2d_0/weights"], values)


def test_a_checkpoint_of_the_first_form_is_one_file(tmp_path: Path) -> None:
    import tensorflow as tf

    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    tf.raw_ops.Save(filename=str(tmp_path / "inception_v1.ckpt"), tensor_names=["a/weights"], data=[values])
    tensors = read("checkpoint", tmp_path / "inception_v1.ckpt")
    assert np.array_equal(tensors["a/weights"], values)


@pytest.mark.parametrize("damaged", ["variables.index", "variables.data-00000-of-00001"])
def test_a_cut_off_checkpoint_is_a_clear_error(tmp_path: Path, model: Any, damaged: str) -> None:
    model.export(tmp_path / "m", verbose=False)
    folder = tmp_path / "m" / "variables"
    (folder / damaged).write_bytes((folder / damaged).read_bytes()[:-100])
    with pytest.raises(WeightsError, match=r"variables\.index cannot be read as checkpoint"):
        read("checkpoint", folder / "variables.index")

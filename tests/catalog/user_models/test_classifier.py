"""Any float classifier in the product's form: named, fixed, with probabilities and features."""

from typing import Any

import numpy as np
import pytest

from advisor.catalog.user_models import classifier
from advisor.catalog.user_models.classifier import run
from advisor.core.errors import UsageError
from advisor.tflite.levels import attach_head
from advisor.tflite.rewrite import select_output
from tests.catalog.user_models.models import CLASSES, SIZE, network, tflite

pytestmark = pytest.mark.integration

IMAGE = np.random.default_rng(0).normal(size=(1, SIZE, SIZE, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def model() -> Any:
    return network()


@pytest.fixture(scope="module")
def converted(model: Any) -> bytes:
    return tflite(model)


def test_the_named_file_computes_what_the_model_does(model: Any, converted: bytes) -> None:
    named = classifier.named(converted, "net", softmax=False)
    assert run(named, IMAGE)["probabilities"] == pytest.approx(np.asarray(model(IMAGE)), abs=1e-6)


def test_the_batch_is_fixed_at_one_image(converted: bytes) -> None:
    from ai_edge_litert.interpreter import Interpreter

    named = classifier.named(converted, "net", softmax=False)
    (entry,) = Interpreter(model_content=named).get_input_details()
    assert entry["shape_signature"].tolist() == entry["shape"].tolist() == [1, SIZE, SIZE, 3]


def test_logits_get_a_softmax() -> None:
    logits = network(activation=None)
    named = classifier.named(tflite(logits), "net", softmax=True)
    scores = np.exp(np.asarray(logits(IMAGE), np.float64))
    assert run(named, IMAGE)["probabilities"] == pytest.approx(scores / scores.sum(), abs=1e-6)


@pytest.mark.parametrize("head", ["dense", "convolution"])
def test_features_are_what_the_classifier_sees(head: str) -> None:
    import keras

    own = network(head=head)
    pooled = next(layer for layer in own.layers if "pooling" in layer.name)
    expected = np.asarray(keras.Model(own.input, pooled.output)(IMAGE)).reshape(1, -1)
    master, found = classifier.with_features(classifier.named(tflite(own), "net", softmax=False), "net")
    assert found
    assert run(master, IMAGE)["features"] == pytest.approx(expected, abs=1e-6)


def test_a_new_head_fits_the_features(converted: bytes) -> None:
    master, _ = classifier.with_features(classifier.named(converted, "net", softmax=False), "net")
    backbone = select_output(master, "features")
    joined = attach_head(backbone, np.zeros((8, 3), np.float32), np.zeros(3, np.float32))
    assert run(joined, IMAGE)["probabilities"] == pytest.approx(np.full((1, 3), 1 / 3))


def test_a_file_that_classifies_maps_has_no_features() -> None:
    named = classifier.named(tflite(network(head="maps")), "net", softmax=False)
    master, found = classifier.with_features(named, "net")
    assert not found
    assert set(run(master, IMAGE)) == {"probabilities"}


def test_input_and_classes_are_read(converted: bytes) -> None:
    assert classifier.shape_of(converted, "net") == (SIZE, CLASSES)


def test_a_quantized_file_is_refused_with_what_to_give_instead() -> None:
    import keras
    from keras import layers

    image = keras.Input((SIZE, SIZE, 3))
    wide = layers.GlobalAveragePooling2D()(layers.Conv2D(64, 3)(image))
    data = tflite(keras.Model(image, layers.Dense(64, activation="softmax")(wide)), quantized=True)
    with pytest.raises(UsageError, match="net: it is quantized") as raised:
        classifier.shape_of(data, "net")
    assert "float32 (or float16) file" in raised.value.hint


def test_several_labels_a_image_are_refused() -> None:
    with pytest.raises(UsageError, match="sigmoid"):
        classifier.shape_of(tflite(network(activation="sigmoid")), "net")


@pytest.mark.parametrize("shape", [(SIZE, SIZE, 1), (SIZE, 2 * SIZE, 3)])
def test_an_input_that_is_no_square_colour_image_is_refused(shape: tuple[int, int, int]) -> None:
    import keras
    from keras import layers

    image = keras.Input(shape)
    data = tflite(keras.Model(image, layers.Dense(3, activation="softmax")(layers.GlobalAveragePooling2D()(image))))
    with pytest.raises(UsageError, match="not one square RGB image"):
        classifier.shape_of(data, "net")


@pytest.mark.parametrize("kept", [0, 7, 100, 2000])
def test_a_damaged_file_is_refused(converted: bytes, kept: int) -> None:
    with pytest.raises(UsageError, match="net"):
        classifier.shape_of(converted[:kept], "net")

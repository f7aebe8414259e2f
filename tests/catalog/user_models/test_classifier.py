"""Any float classifier in the product's form: named, fixed, with probabilities and features."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from advisor.catalog import classifier, run
from advisor.core import UsageError
from advisor.tflite import attach_head, select_output
from tests.catalog.user_models.models import CLASSES, SIZE, network, tflite
from tests.measurement.small_models import Builder, classifier as small_classifier, dynamic_int8

pytestmark = pytest.mark.integration

IMAGE = np.random.default_rng(0).normal(size=(1, SIZE, SIZE, 3)).astype(np.float32)


@pytest.mark.parametrize("head", ["dense", "convolution"])
def test_features_are_what_the_classifier_sees_and_a_new_head_fits_them(head: str) -> None:
    import keras

    own = network(head=head)
    pooled = next(layer for layer in own.layers if "pooling" in layer.name)
    expected = np.asarray(keras.Model(own.input, pooled.output)(IMAGE)).reshape(1, -1)
    master, found = classifier.with_features(classifier.name_output(tflite(own), "net", softmax=False), "net")
    assert found
    assert run(master, IMAGE)["features"] == pytest.approx(expected, abs=1e-6)
    joined = attach_head(select_output(master, "features"), np.zeros((8, 3), np.float32), np.zeros(3, np.float32))
    assert run(joined, IMAGE)["probabilities"] == pytest.approx(np.full((1, 3), 1 / 3))


def test_a_file_that_classifies_maps_has_no_features() -> None:
    build = Builder()
    scores = build.softmax(build.mean(build.convolution(build.input(SIZE), CLASSES, 3)))
    named = classifier.name_output(build.finish({"image": 0}, {"scores": scores}), "net", softmax=False)
    master, found = classifier.with_features(named, "net")
    assert not found
    assert set(run(master, IMAGE)) == {"probabilities"}


def of_shape(*shape: int) -> bytes:
    build = Builder()
    image = build.made.tensor("image", shape)
    return build.finish({"image": image}, {"scores": build.head(build.mean(image), 3)})


@pytest.mark.parametrize(
    ("make", "said", "hint"),
    [
        (lambda: dynamic_int8(small_classifier(SIZE)), "net: it is quantized", "float32 (or float16) file"),
        (partial(of_shape, 1, SIZE, SIZE, 1), "not one square RGB image", "convert it"),
        (partial(of_shape, 1, SIZE, 2 * SIZE, 3), "not one square RGB image", "convert it"),
    ],
)
def test_what_is_no_float_classifier_of_squares_is_refused(make: Callable[[], bytes], said: str, hint: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        classifier.shape_of(make(), "net")
    assert hint in raised.value.hint

"""Any float classifier in the product's form: named, fixed, with probabilities and features."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.schema_py_generated import BuiltinOperator

from advisor.catalog import classifier, run
from advisor.catalog._user_models.master import prepare
from advisor.core import UsageError
from advisor.tflite import attach_head, select_output
from tests.builders import must_fail
from tests.catalog.user_models.models import CLASSES, SIZE, network, tflite
from tests.measurement.small_models import Builder, classifier as small_classifier, dynamic_int8
from tests.requirements import shared_case

pytestmark = pytest.mark.integration

IMAGE = np.random.default_rng(0).normal(size=(1, SIZE, SIZE, 3)).astype(np.float32)
IMAGES = np.random.default_rng(0).uniform(-1, 1, (5, 1, SIZE, SIZE, 3)).astype(np.float32)


@pytest.mark.parametrize("head", ["dense", "convolution"])
def test_features_are_what_the_classifier_sees_and_a_new_head_fits_them(head: str) -> None:
    import keras

    own = network(head=head)
    pooled = next(layer for layer in own.layers if "pooling" in layer.name)
    expected = np.asarray(keras.Model(own.input, pooled.output)(IMAGE)).reshape(1, -1)
    master, found = classifier.with_features(classifier.name_output(tflite(own), "net"), "net")
    assert found
    assert run(master, IMAGE)["features"] == pytest.approx(expected, abs=1e-6)
    joined = attach_head(select_output(master, "features"), np.zeros((8, 3), np.float32), np.zeros(3, np.float32))
    assert run(joined, IMAGE)["probabilities"] == pytest.approx(np.full((1, 3), 1 / 3))


def test_a_file_that_classifies_maps_has_no_features() -> None:
    build = Builder()
    scores = build.softmax(build.mean(build.convolution(build.input(SIZE), CLASSES, 3)))
    named = classifier.name_output(build.finish({"image": 0}, {"scores": scores}), "net")
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
    raised = must_fail(UsageError, said, classifier.shape_of, make(), "net")
    assert hint in raised.hint


def one_sigmoid(scores: int = 1) -> bytes:
    """Return a network whose scores are sigmoids of a linear layer."""
    build = Builder()
    logits = build.dense(build.mean(build.convolution(build.input(SIZE), 8, 3)), scores)
    return build.finish({"image": 0}, {"scores": build.operator(BuiltinOperator.LOGISTIC, [logits], (1, scores))})


def test_the_second_probability_is_the_sigmoid() -> None:
    given = one_sigmoid()
    edited = classifier.name_output(classifier.with_two_classes(given, "net"), "net")
    for image in IMAGES:
        probability = float(classifier.run(given, image)["scores"].reshape(-1)[0])
        answer = classifier.run(edited, image)["probabilities"]
        np.testing.assert_allclose(answer, [[1 - probability, probability]], atol=1e-6)


def test_it_can_be_retrained_on_images() -> None:
    edited = classifier.name_output(classifier.with_two_classes(one_sigmoid(), "net"), "net")
    master, has_features = classifier.with_features(edited, "net")
    assert has_features
    assert classifier.run(master, IMAGES[0])["features"].shape == (1, 8)


def test_several_sigmoids_stay_what_they_are() -> None:
    given = one_sigmoid(scores=3)
    assert classifier.with_two_classes(given, "net") == given
    refused = must_fail(UsageError, "a model of several labels an image", classifier.shape_of, given, "net")
    assert "softmax" in refused.hint


@pytest.mark.integration
def test_a_real_keras_file_with_one_sigmoid_is_taken(tmp_path: Path) -> None:
    case = shared_case("k12_binary_sigmoid.keras")
    facts, _ = prepare(case, None, tmp_path / "net.tflite", finished=False)
    assert facts.classes == 2
    assert facts.features

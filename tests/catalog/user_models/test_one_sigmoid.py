"""A network with one sigmoid, as Keras' first tutorial makes it, is a classifier of two classes."""

from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.schema_py_generated import BuiltinOperator

from advisor.catalog import classifier
from advisor.catalog._user_models.master import prepare
from advisor.core import UsageError
from tests.measurement.small_models import Builder
from tests.requirements import shared_case

SIZE = 32
IMAGES = np.random.default_rng(0).uniform(-1, 1, (5, 1, SIZE, SIZE, 3)).astype(np.float32)


def one_sigmoid(scores: int = 1) -> bytes:
    """Return a network whose scores are sigmoids of a linear layer."""
    build = Builder()
    logits = build.dense(build.mean(build.convolution(build.input(SIZE), 8, 3)), scores)
    return build.finish({"image": 0}, {"scores": build.operator(BuiltinOperator.LOGISTIC, [logits], (1, scores))})


def test_the_second_probability_is_the_sigmoid() -> None:
    given = one_sigmoid()
    edited = classifier.name_output(classifier.with_two_classes(given, "net"), "net", softmax=False)
    for image in IMAGES:
        probability = float(classifier.run(given, image)["scores"].reshape(-1)[0])
        answer = classifier.run(edited, image)["probabilities"]
        np.testing.assert_allclose(answer, [[1 - probability, probability]], atol=1e-6)


def test_it_can_be_retrained_on_images() -> None:
    edited = classifier.name_output(classifier.with_two_classes(one_sigmoid(), "net"), "net", softmax=False)
    master, has_features = classifier.with_features(edited, "net")
    assert has_features
    assert classifier.run(master, IMAGES[0])["features"].shape == (1, 8)


def test_several_sigmoids_stay_what_they_are() -> None:
    given = one_sigmoid(scores=3)
    assert classifier.with_two_classes(given, "net") == given
    with pytest.raises(UsageError, match="a model of several labels an image") as refused:
        classifier.shape_of(given, "net")
    assert "softmax" in refused.value.hint


@pytest.mark.integration
def test_a_real_keras_file_with_one_sigmoid_is_taken(tmp_path: Path) -> None:
    case = shared_case("k12_binary_sigmoid.keras")
    facts, _ = prepare(case, None, tmp_path / "net.tflite", finished=False)
    assert facts.classes == 2
    assert facts.features

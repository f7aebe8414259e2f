"""The shipped model: what MediaPipe takes, answering as the artefact that was measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from advisor.core.errors import UsageError
from advisor.datasets.images import InputSpec
from advisor.exporting.bundle import Bundle
from advisor.exporting.model import ShippedModel, prepare
from advisor.measurement.accuracy import predict_pixels
from advisor.store import RunFolder
from advisor.tasks.classification.shipping import answers
from advisor.tflite.metadata import Metadata, read_metadata
from advisor.tflite.metadata_writer import write_metadata
from advisor.tflite.surgery import select_output
from tests.exporting.conftest import FORMS, Pixels, evaluation_of, mediapipe_answers

SCORE_TOLERANCE = 0.03
ROUNDED_TOLERANCE = 0.05
"""Of ``dynamic_int8``: each runtime rounds the activations of every image in its own kernels, and the head enlarges
the difference."""


def agree(model: ShippedModel, images: list[Pixels], tolerance: float = SCORE_TOLERANCE) -> None:
    """MediaPipe must put the same label first as LiteRT does."""
    own = np.array(answers(model.content, np.stack(images), model))
    theirs = mediapipe_answers(model.content, images)
    assert [label for label, _ in theirs] == [model.labels[place] for place in own.argmax(axis=1)]
    assert np.abs(own.max(axis=1) - [score for _, score in theirs]).max() < tolerance


def test_mediapipe_answers_fifty_images_as_litert_does(bundle: Bundle, many_images: list[Pixels]) -> None:
    assert len(many_images) == 50
    assert (bundle.path / "model.tflite").read_bytes() == bundle.model.content
    agree(bundle.model, many_images)


@pytest.mark.parametrize("form", FORMS)
def test_mediapipe_takes_every_form(trained: RunFolder, many_images: list[Pixels], form: str) -> None:
    evaluation = evaluation_of(trained, form)
    tolerance = ROUNDED_TOLERANCE if form == "dynamic_int8" else SCORE_TOLERANCE
    agree(prepare((trained.path / evaluation.artefact).read_bytes(), form), many_images[::5], tolerance)


@pytest.mark.parametrize("form", FORMS)
def test_only_the_integer_form_is_edited(trained: RunFolder, form: str) -> None:
    artefact = (trained.path / evaluation_of(trained, form).artefact).read_bytes()
    model = prepare(artefact, form)
    if form == "int8":
        assert "float32 instead of int8" in model.edits[0]
        assert len(model.content) - len(artefact) < 2000
    else:
        assert model.edits == ()
        assert model.content == artefact


def test_the_edited_form_answers_exactly_as_the_measured_one(trained: RunFolder, many_images: list[Pixels]) -> None:
    path = trained.path / evaluation_of(trained, "int8").artefact
    model = prepare(path.read_bytes(), "int8")
    images = np.stack(many_images[:10])
    measured = predict_pixels(path, images, InputSpec(model.size, (model.mean,) * 3, (model.std,) * 3))
    np.testing.assert_array_equal(np.array(answers(model.content, images, model), np.float32), measured)


@pytest.mark.parametrize("form", ["float32", "int8"])
def test_a_normalization_that_differs_by_channel_goes_inside(
    trained: RunFolder, many_images: list[Pixels], tmp_path: Path, form: str
) -> None:
    artefact = (trained.path / evaluation_of(trained, form).artefact).read_bytes()
    mean, std = (123.0, 117.0, 104.0), (130.0, 120.0, 125.0)
    described = write_metadata(artefact, Metadata("x", ("a", "b", "c"), mean, std))
    model = prepare(described, form)
    assert (model.mean, model.std) == (0.0, 1.0)
    assert "happens inside the model" in model.edits[-1]
    images = many_images[::5]
    (tmp_path / "measured.tflite").write_bytes(described)
    measured = predict_pixels(tmp_path / "measured.tflite", images, InputSpec(model.size, mean, std))
    own = np.array(answers(model.content, np.stack(images), model))
    assert np.abs(own - measured).max() < SCORE_TOLERANCE
    agree(model, images)


def test_a_model_that_does_not_describe_itself_is_refused(trained: RunFolder) -> None:
    artefact = (trained.path / evaluation_of(trained, "float32").artefact).read_bytes()
    assert read_metadata(artefact) is not None
    bare = select_output(artefact, "probabilities")
    assert read_metadata(bare) is None
    with pytest.raises(UsageError, match="has no metadata with labels"):
        prepare(bare, "bare")


def test_a_damaged_model_is_refused_by_name(trained: RunFolder) -> None:
    artefact = (trained.path / evaluation_of(trained, "float32").artefact).read_bytes()
    with pytest.raises(UsageError, match=r"half\.tflite is not a usable"):
        prepare(artefact[: len(artefact) // 2], "half.tflite")

"""Prepare a user's model as the float master of a card, and check it again in a search.

Everything here runs in child processes, as an untrusted model may crash native code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog.cards import Card, Conversion, Preprocessing
from advisor.catalog.trial_run import photograph, run
from advisor.catalog.user_models import classifier
from advisor.catalog.user_models.formats import as_tflite, format_of
from advisor.catalog.weights.arrays import Array
from advisor.core.errors import StageError, UsageError, message_of
from advisor.core.probabilities import as_probabilities
from advisor.core.tasks import IMAGE_CLASSIFICATION, OBJECT_DETECTION
from advisor.downloads.files import WeightsFile
from advisor.tflite.float16 import to_float32
from advisor.tflite.interface import with_fixed_batch
from advisor.tflite.macs import count, form_of
from advisor.tflite.metadata import Metadata, read_metadata
from advisor.tflite.metadata_writer import write_metadata
from advisor.tflite.model import read
from advisor.tflite.postprocess import DETECTIONS, ENDS, cut_postprocess, task_of, with_named_outputs
from advisor.tflite.quantization import dequantize, quantize

MAX_DIFFERENCE = 1e-5
"""Largest difference of a probability between the given and the edited file."""

_SCORES = "give an image classifier that ends in a softmax"
_CONVERTED_ANEW = "convert it again with builtin operators that LiteRT has"


@dataclass(frozen=True)
class ModelFacts:
    """Facts of a user's model as a float ``.tflite``.

    Attributes:
        input_size: side of the square input in pixels.
        classes: number of classes.
        params: elements of its weights.
        macs: multiply-accumulates of one image.
        features: length of the vector under its classifier; None if it does not end in a linear layer, so that it
            cannot be retrained, as no detector can.
        metadata: labels, normalization and licence written in the file, empty where it has none.
        task: what it does, see :data:`advisor.core.tasks.TASKS`.
        form: its form if it keeps it, such as ``int8``; empty if every form can be made of it.
    """

    input_size: int
    classes: int
    params: int
    macs: int
    features: int | None
    metadata: Metadata
    task: str = IMAGE_CLASSIFICATION
    form: str = ""


def check_file(file: Path, size: int | None) -> None:
    """Check ``file``, of any of the formats, before packages are fetched for its conversion.

    ``size`` is the side of the input where the file leaves it open.

    Raises:
        UsageError: not a supported model, or one that would run its own code.
    """
    format_of(file).check(file, size)


def convert_file(file: Path, size: int | None, target: Path) -> Conversion | None:
    """Write ``file``, of any of the formats, as a ``.tflite`` to ``target``; return how it compares with its original.

    ``size`` is the side of the input where the file leaves it open.

    Raises:
        UsageError: not a supported model, one that would run its own code, or one that cannot be converted.
    """
    data, conversion = as_tflite(file, size)
    target.write_bytes(data)
    return conversion


def prepare(converted: Path, name: str, target: Path, fixed: bool = False) -> ModelFacts:
    """Write a converted file as a float model of its task.

    Constants stored as float16 become float32, which changes no answer. A quantized file keeps its form.

    Args:
        converted: the file that :func:`convert_file` wrote.
        name: the user's file, for errors.
        target: the file to write.
        fixed: a float file keeps its form, too.

    Raises:
        UsageError: not an image classifier or detector.
    """
    given = converted.read_bytes()
    metadata, model = read_metadata(given, name) or Metadata("", (), (), ()), read(given, name)
    if fixed or classifier.is_quantized(model):
        return FIX[task_of(model)](given, name, target, metadata)
    data = to_float32(given, name)
    return PREPARE[task_of(read(data, name))](data, name, target, metadata)


def _fixed_classifier(data: bytes, name: str, target: Path, metadata: Metadata) -> ModelFacts:
    """Write a classifier as it is, with a batch of one image; a run shows that the runtime has its operators."""
    input_size, classes = classifier.shape_of(data, name, fixed=True)
    target.write_bytes(with_fixed_batch(data, name))
    model = read(target.read_bytes(), name)
    cost = count(model)
    _scores(target.read_bytes(), np.zeros((1, input_size, input_size, 3), np.float32), name)
    return ModelFacts(input_size, classes, cost.parameters, cost.macs, None, metadata, form=form_of(model, cost))


def _fixed_detector(data: bytes, name: str, target: Path, metadata: Metadata) -> ModelFacts:
    """Write a detector as it is, with named outputs and a batch of one image."""
    edited = with_named_outputs(data, name)
    raw, process = cut_postprocess(edited, name)
    input_size = classifier.side_of(raw, name, fixed=True)
    target.write_bytes(edited)
    model = read(raw, name)
    cost = count(model)
    form = form_of(model, cost)
    return ModelFacts(input_size, process.classes, cost.parameters, cost.macs, None, metadata, OBJECT_DETECTION, form)


FIX: Mapping[str, Callable[[bytes, str, Path, Metadata], ModelFacts]] = {
    IMAGE_CLASSIFICATION: _fixed_classifier,
    OBJECT_DETECTION: _fixed_detector,
}
"""Functions that take a file of fixed form, by task."""


def _classifier(data: bytes, name: str, target: Path, metadata: Metadata) -> ModelFacts:
    """Write the master of a classifier; a run of the file shows whether its scores are probabilities."""
    input_size, classes = classifier.shape_of(data, name)
    edited = classifier.named(data, name, softmax=not _sums_to_one(data, input_size, name))
    target.write_bytes(edited)
    cost = count(read(edited, name))
    master, has_features = classifier.with_features(edited, name)
    width = read(master).outputs[1].shape[-1] if has_features else None
    return ModelFacts(input_size, classes, cost.parameters, cost.macs, width, metadata)


def _detector(data: bytes, name: str, target: Path, metadata: Metadata) -> ModelFacts:
    """Write the master of a detector, with named outputs and a batch of one image."""
    edited = with_named_outputs(data, name)
    raw, process = cut_postprocess(edited, name)
    input_size = classifier.side_of(raw, name)
    target.write_bytes(edited)
    cost = count(read(raw, name))
    return ModelFacts(input_size, process.classes, cost.parameters, cost.macs, None, metadata, OBJECT_DETECTION)


PREPARE: Mapping[str, Callable[[bytes, str, Path, Metadata], ModelFacts]] = {
    IMAGE_CLASSIFICATION: _classifier,
    OBJECT_DETECTION: _detector,
}
"""Functions that make the master of a float file, by task."""


def describe(target: Path, metadata: Metadata) -> None:
    """Write labels and normalization into the prepared file, unless it states them."""
    data = target.read_bytes()
    stated = read_metadata(data)
    if not stated or any(getattr(stated, name) != getattr(metadata, name) for name in ("labels", "mean", "std")):
        target.write_bytes(write_metadata(data, metadata))


Seen = tuple[tuple[str, int, float], ...]
"""Answers to photographs: the subject of the photograph, the index of the label, and its probability."""


def answers_to_photographs(target: Path, preprocessing: Preprocessing, facts: ModelFacts) -> Seen:
    """Return the surest answer of the prepared file to each of three photographs, if there is one.

    Raises:
        UsageError: answers that are not those of the task.
    """
    data, answers = target.read_bytes(), []
    for title, name in (("a cat", "chelsea"), ("a cup of coffee", "coffee"), ("a rocket", "rocket")):
        image = photograph(preprocessing, facts.input_size, name)
        outputs = (FIXED_RUNS[facts.task] if facts.form else run)(data, image)
        answers += [(title, *answer) for answer in ANSWERS[facts.task](outputs, facts, title)]
    return tuple(answers)


def _probabilities(data: bytes, image: Array) -> Mapping[str, Array]:
    """Return the answer of a file of fixed form to an image."""
    row = as_probabilities(_scores(data, image, "the model")[None])
    return {classifier.PROBABILITIES: row / max(float(row.sum()), 1e-6)}


FIXED_RUNS: Mapping[str, Callable[[bytes, Array], Mapping[str, Array]]] = {
    IMAGE_CLASSIFICATION: _probabilities,
    OBJECT_DETECTION: run,
}
"""Functions that run a file of fixed form over an image, by task; a detector's outputs are named."""


def _class_of(outputs: Mapping[str, Array], _facts: ModelFacts, title: str) -> list[tuple[int, float]]:
    (row,) = outputs[classifier.PROBABILITIES]
    if not np.isfinite(row).all() or abs(float(row.sum()) - 1.0) > 1e-3:
        raise UsageError(f"the model's answer to a photograph ({title}) is not a row of probabilities", _SCORES)
    return [(int(row.argmax()), float(row.max()))]


def _surest_box(outputs: Mapping[str, Array], facts: ModelFacts, title: str) -> list[tuple[int, float]]:
    found = int(outputs["count"].reshape(-1)[0])
    boxes, classes, scores = (outputs[name][0, :found] for name in DETECTIONS[:3])
    sound = (
        np.isfinite(boxes).all() and np.isfinite(scores).all() and ((classes >= 0) & (classes < facts.classes)).all()
    )
    if not sound:
        raise UsageError(f"the model's answer to a photograph ({title}) is not boxes of {facts.classes} classes", ENDS)
    return [(int(classes[scores.argmax()]), float(scores.max()))] if found else []


ANSWERS: Mapping[str, Callable[[Mapping[str, Array], ModelFacts, str], list[tuple[int, float]]]] = {
    IMAGE_CLASSIFICATION: _class_of,
    OBJECT_DETECTION: _surest_box,
}
"""Functions that return the surest answer in the outputs of a file, by task."""


def convert_own(card: Card, weights: WeightsFile | None, path: Path) -> dict[str, Any]:
    """Write the master of a card of a user's file, and check that it computes what the file does.

    Raises:
        StageError: the file is not available, or is not what the card says.
    """
    if weights is None:
        raise StageError(f"{card.name} is a file of your own, and the file is not available")
    data = weights.path.read_bytes()
    input_size, classes = classifier.shape_of(data, str(weights.path))
    if (input_size, classes) != (card.input_size, card.classes):
        raise StageError(
            f"{card.name} says input {card.input_size} and {card.classes} classes, its file {input_size} and {classes}"
        )
    softmax = not _sums_to_one(data, input_size, card.name)
    master, has_features = classifier.with_features(classifier.named(data, card.name, softmax), card.name)
    difference = 0.0
    if not softmax:
        image = photograph(card.preprocessing, input_size)
        edited = np.asarray(run(master, image)[classifier.PROBABILITIES]).reshape(-1)
        difference = float(np.abs(edited - _scores(data, image, "the file")).max())
    if not difference <= MAX_DIFFERENCE:
        raise StageError(f"the edited {card.name} differs from its file by {difference:.2g} in a probability")
    path.write_bytes(master)
    return {"difference": difference, "features": has_features}


def _sums_to_one(data: bytes, input_size: int, name: str) -> bool:
    """Return whether the answers are probabilities already; logits are not, whatever the image."""
    rng = np.random.default_rng(0)
    for image in rng.normal(size=(3, 1, input_size, input_size, 3)).astype(np.float32):
        row = _scores(data, image, name)
        if row.min() < 0 or abs(float(row.sum()) - 1.0) > 1e-3:
            return False
    return True


def _scores(data: bytes, image: Array, name: str) -> Array:
    """Return one row of scores from a file that may have no signature."""
    from ai_edge_litert.interpreter import Interpreter

    try:
        runner = Interpreter(model_content=data)
        runner.allocate_tensors()
        (detail,) = runner.get_input_details()
        runner.set_tensor(detail["index"], quantize(image, detail))
        runner.invoke()
    except (ValueError, RuntimeError) as error:
        raise UsageError(f"{name}: LiteRT cannot run it: {message_of(error)}", _CONVERTED_ANEW) from error
    tensor = classifier.scores_tensor(read(data, name), name)
    scores = next(each for each in runner.get_output_details() if each["index"] == tensor)
    row = dequantize(runner.get_tensor(tensor), scores).reshape(-1)
    if not np.isfinite(row).all():
        raise UsageError(f"{name}: its answers are not finite numbers", _SCORES)
    return row

"""Prepare a user's model as the float master of a card, and check it again in a search.

Everything here runs in child processes, as an untrusted model may crash native code.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog.cards import Card, Preprocessing, WeightsFile
from advisor.catalog.user_models import classifier
from advisor.core.errors import StageError, UsageError
from advisor.tflite.float16 import to_float32
from advisor.tflite.metadata import Metadata

MAX_DIFFERENCE = 1e-5
"""Largest difference of a probability between the given and the edited file."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ModelFacts:
    """What is known of a user's model, once it is a float ``.tflite``.

    Attributes:
        input_size: side of the square input in pixels.
        classes: number of classes.
        params: elements of its weights.
        macs: multiply-accumulates of one image.
        features: length of the vector under its classifier; None if it does not end in a linear layer, so that it
            cannot be retrained.
        metadata: labels, normalization and licence written in the file, or None.
    """

    input_size: int
    classes: int
    params: int
    macs: int
    features: int | None
    metadata: Metadata | None


@dataclass(frozen=True)
class PhotographAnswer:
    """The answer to one photograph."""

    photograph: str
    label: int
    probability: float


def prepare(file: Path, size: int | None, target: Path) -> ModelFacts:
    """Write ``file`` (``.keras``, SavedModel folder or ``.tflite``) as a float classifier to ``target``.

    Args:
        file: the user's model; constants stored as float16 become float32, which changes no answer.
        size: side of the input where the file leaves it open.
        target: where to write.

    Raises:
        UsageError: not a supported model, one that would run its own code, or one that cannot be converted.
    """
    given = _as_tflite(file, size)
    data = to_float32(given, str(file))
    shape = classifier.shape_of(data, str(file))
    edited = classifier.named(data, str(file), softmax=not _sums_to_one(data, shape, str(file)))
    target.write_bytes(edited)
    return _facts(given, edited, shape, str(file))


def describe(target: Path, metadata: Metadata) -> None:
    """Write labels and normalization into the prepared file."""
    from advisor.tflite.metadata import write_metadata

    target.write_bytes(write_metadata(target.read_bytes(), metadata))


def answers_to_photographs(target: Path, preprocessing: Preprocessing, size: int) -> tuple[PhotographAnswer, ...]:
    """Run the prepared file over photographs.

    Raises:
        UsageError: answers that are not probabilities.
    """
    from advisor.catalog.trial_run import run

    data, answers = target.read_bytes(), []
    for name, image in _photographs(size).items():
        scaled = (image - np.asarray(preprocessing.mean)) / np.asarray(preprocessing.std)
        (row,) = run(data, scaled[None].astype(np.float32))[classifier.PROBABILITIES]
        if not np.isfinite(row).all() or abs(float(row.sum()) - 1.0) > 1e-3:
            raise UsageError(f"the model's answer to a photograph ({name}) is not a row of probabilities")
        answers.append(PhotographAnswer(name, int(row.argmax()), float(row.max())))
    return tuple(answers)


def convert_own(card: Card, weights: WeightsFile | None, path: Path) -> dict[str, Any]:
    """Write the master of a card of a user's file, and check that it computes what the file does.

    Raises:
        StageError: the file is not available, or is not what the card says.
    """
    from advisor.catalog.trial_run import photograph

    if weights is None:
        raise StageError(f"{card.name} is a file of your own, and the file is not available")
    data = weights.path.read_bytes()
    shape = classifier.shape_of(data, str(weights.path))
    if (shape.input_size, shape.classes) != (card.input_size, card.classes):
        raise StageError(f"{card.name} says input {card.input_size} and {card.classes} classes, its file {shape}")
    softmax = not _sums_to_one(data, shape, card.name)
    master, has_features = classifier.with_features(classifier.named(data, card.name, softmax), card.name)
    difference = 0.0 if softmax else _difference(data, master, photograph(card))
    if not difference <= MAX_DIFFERENCE:
        raise StageError(f"the edited {card.name} differs from its file by {difference:.2g} in a probability")
    path.write_bytes(master)
    return {"difference": difference, "features": has_features}


def _as_tflite(file: Path, size: int | None) -> bytes:
    if file.is_dir():
        from advisor.catalog.user_models.saved_model import to_tflite as convert

        return convert(file, size)
    if file.suffix == ".keras":
        from advisor.catalog.user_models.keras_archive import to_tflite as convert

        return convert(file, size)
    if file.suffix == ".tflite":
        return _bytes(file)
    raise UsageError(
        f"'{file}' is neither .keras, .tflite nor the folder of a SavedModel",
        "save it from Keras with model.save('name.keras')",
    )


def _bytes(file: Path) -> bytes:
    from advisor.tflite.model import read

    read(file)
    return file.read_bytes()


def _facts(data: bytes, edited: bytes, shape: classifier.Shape, name: str) -> ModelFacts:
    from advisor.tflite.macs import count
    from advisor.tflite.metadata import read_metadata
    from advisor.tflite.model import read

    cost = count(read(edited, name))
    master, has_features = classifier.with_features(edited, name)
    width = read(master).outputs[1].shape[-1] if has_features else None
    return ModelFacts(shape.input_size, shape.classes, cost.parameters, cost.macs, width, read_metadata(data, name))


def _sums_to_one(data: bytes, shape: classifier.Shape, name: str) -> bool:
    """Return whether the answers are probabilities already; logits are not, whatever the image."""
    rng = np.random.default_rng(0)
    for image in rng.normal(size=(3, 1, shape.input_size, shape.input_size, 3)).astype(np.float32):
        row = _scores(data, image, name)
        if row.min() < 0 or abs(float(row.sum()) - 1.0) > 1e-3:
            return False
    return True


def _scores(data: bytes, image: Array, name: str) -> Array:
    """Return one row of scores from a file that may have no signature."""
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_content=data)
    runner.allocate_tensors()
    runner.set_tensor(runner.get_input_details()[0]["index"], image)
    runner.invoke()
    row: Array = np.asarray(runner.get_tensor(_scores_index(runner))).reshape(-1)
    if not np.isfinite(row).all():
        raise UsageError(f"{name}: its answers are not finite numbers")
    return row


def _scores_index(runner: Any) -> int:
    details = runner.get_output_details()
    if len(details) > 1:
        (signature,) = runner.get_signature_list()
        (wanted,) = (
            detail
            for output, detail in runner.get_signature_runner(signature).get_output_details().items()
            if output == classifier.PROBABILITIES
        )
        return int(wanted["index"])
    return int(details[0]["index"])


def _difference(data: bytes, master: bytes, image: Array) -> float:
    from advisor.catalog.trial_run import run

    edited = np.asarray(run(master, image)[classifier.PROBABILITIES]).reshape(-1)
    return float(np.abs(edited - _scores(data, image, "the file")).max())


def _photographs(size: int) -> dict[str, Array]:
    """Return three photographs that need no download, RGB 0..255 (S, S, 3)."""
    from skimage import data, transform

    images = {"a cat": data.chelsea(), "a cup of coffee": data.coffee(), "a rocket": data.rocket()}
    return {name: transform.resize(image, (size, size), order=1, preserve_range=True) for name, image in images.items()}

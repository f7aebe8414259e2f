"""Fine-tune a card and write its float ``.tflite``, in one call that continues after an interruption."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.core.evaluation_facts import HeadFacts
from advisor.datasets.images import InputSpec
from advisor.tflite.levels import with_levels
from advisor.tflite.surgery import attach_head
from advisor.training.features import joined
from advisor.training.finetune.finetune import VERSION, WEIGHTS, Finetuned, finetune, read_progress
from advisor.training.finetune.hyperparameters import FINETUNING, Finetuning
from advisor.training.finetune.network import FinetuneData, flatbuffer
from advisor.training.head.train import Head

if TYPE_CHECKING:
    import keras

    from advisor.catalog.cards import Card
    from advisor.downloads.files import WeightsFile

__all__ = ["FINETUNING", "VERSION", "WEIGHTS", "Finetuning", "TuningImages", "epochs_done", "tune"]

_SHIPS = "ships"
"""Folder beside the maps with a note for each training that ships."""


@dataclass(frozen=True)
class TuningImages:
    """The images of a fine-tuning.

    Attributes:
        features: ``.npy`` files whose rows are the features of the images.
        images: training and validation part.
        labels: their classes.
        validation: indices in ``images`` of the validation part.
        groups: see :class:`advisor.training.finetune.network.FinetuneData`.
        head: the head that was chosen for the images outside the validation part, ``.npz`` with weights and bias; None
            to choose one.
    """

    features: Sequence[Path]
    images: Sequence[Path]
    labels: Sequence[int]
    validation: Sequence[int]
    groups: Sequence[int] = ()
    head: tuple[Path, HeadFacts] | None = None


def tune(
    card: Card,
    weights: WeightsFile | None,
    given: TuningImages,
    hyperparameters: Finetuning,
    checkpoints: Path,
    path: Path,
    after: Path | None = None,
    maps: Path | None = None,
) -> dict[str, Any]:
    """Fine-tune a card and write its float classifier.

    Args:
        card: the model card.
        weights: the pretrained weights.
        given: the images, and the head to begin with.
        hyperparameters: see :class:`advisor.training.finetune.hyperparameters.Finetuning`.
        checkpoints: folder for checkpoints of this call; a later call with the same folder continues.
        path: where to write the ``.tflite``; its weights go into the same folder.
        after: ``path`` of an earlier call, to continue training with the validation part too.
        maps: folder for the maps of frozen layers, from the compared model to the one that ships. The latter's complete
            training removes it, and the checkpoints of trainings that continued what a time limit had ended. None keeps
            maps in ``checkpoints``.

    Returns:
        ``validation_accuracy`` and ``start_accuracy`` (shares), ``best_epoch``, ``history``, ``levels``: whether
        the head reads all levels, and ``out_of_time``: whether the time limit ended the training.
    """
    import keras

    from advisor.catalog.convert import build_model

    try:
        model = build_model(card, weights)
        backbone = keras.Model(model.inputs[0], model.output["features"])
        view = InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)
        data = FinetuneData(
            joined(given.features), given.images, given.labels, view, given.validation, given.groups,
            given.head and _read_head(*given.head),
        )  # fmt: skip
        begun = None if after is None else after.with_name(WEIGHTS)
        if maps is not None and after is not None:
            _note(maps, checkpoints)
        tuned = finetune(backbone, data, hyperparameters, checkpoints, after=begun, maps=maps)
        path.write_bytes(to_tflite(backbone, tuned))
        shutil.copyfile(checkpoints / WEIGHTS, path.with_name(WEIGHTS))
        if maps is not None and after is not None and not tuned.out_of_time:
            _clear(maps, checkpoints)
    finally:
        keras.backend.clear_session()
    return {
        "validation_accuracy": tuned.validation_accuracy,
        "start_accuracy": tuned.start_accuracy,
        "best_epoch": tuned.best_epoch,
        "history": list(tuned.history),
        "levels": tuned.levels,
        "out_of_time": tuned.out_of_time,
    }


def _read_head(file: Path, facts: HeadFacts) -> Head:
    with np.load(file, allow_pickle=False) as arrays:
        return Head(arrays["weights"], arrays["bias"], facts)


def _note(maps: Path, checkpoints: Path) -> None:
    """Note in the folder of the maps where a training that ships has its checkpoints."""
    notes = maps / _SHIPS
    notes.mkdir(parents=True, exist_ok=True)
    (notes / checkpoints.name).touch()


def _clear(maps: Path, checkpoints: Path) -> None:
    """Remove the maps, and the checkpoints of other trainings that ship: what they continued is complete by now."""
    for note in (maps / _SHIPS).iterdir():
        if note.name != checkpoints.name:
            shutil.rmtree(checkpoints.with_name(note.name), ignore_errors=True)
    shutil.rmtree(maps, ignore_errors=True)


def to_tflite(backbone: keras.Model, tuned: Finetuned) -> bytes:
    """Convert the backbone and append the head and a softmax.

    Args:
        backbone: ``keras.Model`` as :func:`advisor.training.finetune.finetune.finetune` left it.
        tuned: the result of that call.

    Returns:
        a float ``.tflite``: input ``image`` (1, S, S, 3), output ``probabilities`` (1, C).
    """
    data = convert(backbone)
    return attach_head(with_levels(data) if tuned.levels else data, tuned.weights, tuned.bias)


def convert(backbone: keras.Model) -> bytes:
    """Return the backbone as a float ``.tflite`` with the only output ``features`` (1, F)."""
    import keras

    return flatbuffer(keras.Model(backbone.inputs[0], {"features": backbone.outputs[0]}))


def epochs_done(checkpoints: Path, hyperparameters: Finetuning) -> tuple[int, int] | None:
    """Return (epochs done, largest number of epochs); None before the first is done."""
    progress = read_progress(checkpoints)
    return (len(progress.history), hyperparameters.epochs) if progress and progress.history else None

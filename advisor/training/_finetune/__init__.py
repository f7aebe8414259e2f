"""Fine-tune a backbone and its head in Keras, from a pretrained network to a float ``.tflite``.

The stages of a search call :func:`tune_network` in a child process, once to compare and once for
the network that ships; a time limit ends a call, and a later one continues it. Begin here, then
read `finetune.py` (one training), `network.py` and `halves.py` (its networks), `maps.py` (kept
maps), `optimizer.py` (its steps), `finetuning.py` and `hyperparameters.py`. Equal images and
hyperparameters give equal networks, bit by bit; a change of them raises ``FINETUNE_VERSION``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.core import HeadFacts
from advisor.datasets import InputSpec
from advisor.tflite import attach_head, with_levels
from advisor.training._features import join_parts
from advisor.training._finetune.finetune import (
    FINETUNE_VERSION,
    WEIGHTS_FILE,
    Finetuned,
    finetune,
    read_progress,
)
from advisor.training._finetune.finetuning import Finetuning
from advisor.training._finetune.hyperparameters import FINETUNING, TrainingTime
from advisor.training._finetune.network import FinetuneData, convert_to_flatbuffer
from advisor.training._head import Head

if TYPE_CHECKING:
    import keras

__all__ = [
    "FINETUNE_VERSION",
    "FINETUNING",
    "WEIGHTS_FILE",
    "Finetuning",
    "TrainingTime",
    "TuningImages",
    "epochs_done",
    "tune_network",
]

_SHIPS = "ships"  # Folder beside the maps with a note for each training that ships


@dataclass(frozen=True)
class TuningImages:
    """The images of a fine-tuning."""

    features: Sequence[Path]  # ``.npy`` files whose rows are the features of the images
    images: Sequence[Path]  # training and validation part
    # Their classes, or of each image a row of labels, see :class:`FinetuneData`.
    labels: Sequence[Any]
    validation: Sequence[int]  # indices in ``images`` of the validation part
    groups: Sequence[int] = ()  # see :class:`advisor.training._finetune.network.FinetuneData`
    # the head that was chosen for the images outside the validation part,
    # ``.npz`` with weights and bias; None to choose one
    head: tuple[Path, HeadFacts] | None = None
    scores: str = ""  # output with a score for each label; empty for probabilities of classes


def tune_network(
    build: Callable[[], keras.Model],
    spec: InputSpec,
    tuning_images: TuningImages,
    hyperparameters: Finetuning,
    checkpoints: Path,
    path: Path,
    after: Path | None = None,
    maps: Path | None = None,
    limit: TrainingTime | None = None,
) -> dict[str, Any]:
    """Fine-tune a network; write its float classifier to ``path``, and its weights beside it.

    ``build`` makes it, from an image as in ``spec`` to the output ``features``. A later call with
    the same folder ``checkpoints`` continues. ``after`` is the ``path`` of an earlier call, to
    continue training with the validation part too. ``maps`` is the folder for the maps of frozen
    layers, from the compared model to the one that ships; None keeps them in ``checkpoints``. The
    complete training of the one that ships removes it, and the checkpoints of trainings that
    continued what a time limit had ended. ``limit`` says what a time limit means: the result is
    ``shortened`` where it chose the hyperparameters, or left no time for all.
    """
    import keras

    try:
        model = build()
        backbone = keras.Model(model.inputs[0], model.output["features"])
        data = _read_data(tuning_images, spec)
        begun = None if after is None else after.with_name(WEIGHTS_FILE)
        # Several trainings may ship from one compared network.
        # The note of each says which checkpoints lie beside it.
        notes = maps / _SHIPS if maps is not None and after is not None else None
        if notes:
            notes.mkdir(parents=True, exist_ok=True)
            (notes / checkpoints.name).touch()
        tuned = finetune(
            backbone, data, hyperparameters, checkpoints, after=begun, maps=maps, limit=limit
        )
        path.write_bytes(to_tflite(backbone, tuned, tuning_images.scores))
        shutil.copyfile(checkpoints / WEIGHTS_FILE, path.with_name(WEIGHTS_FILE))
        shortened = (limit is not None and limit.fitted) or tuned.out_of_time or tuned.fewer_copies
        if notes and not shortened:
            _remove_leftovers(notes, checkpoints)
    finally:
        # A child trains several networks, and Keras keeps the graphs of all of them.
        keras.backend.clear_session()
    return {
        "validation_accuracy": tuned.validation_accuracy,
        "start_accuracy": tuned.start_accuracy,
        "best_epoch": tuned.best_epoch,
        "levels": tuned.levels,
        "out_of_time": tuned.out_of_time,
        "history": list(tuned.history),
        "shortened": shortened,
        "trained": hyperparameters.trained,
    }


def _read_data(tuning_images: TuningImages, spec: InputSpec) -> FinetuneData:
    """Return the data of a training, with the features and the head that lie in files."""
    head = None
    if tuning_images.head:
        path, facts = tuning_images.head
        with np.load(path, allow_pickle=False) as arrays:
            head = Head(arrays["weights"], arrays["bias"], facts)
    return FinetuneData(
        features=join_parts(tuning_images.features),
        images=tuning_images.images,
        labels=tuning_images.labels,
        spec=spec,
        validation=tuning_images.validation,
        groups=tuning_images.groups,
        head=head,
        files=tuning_images.features,
    )


def _remove_leftovers(notes: Path, checkpoints: Path) -> None:
    """Remove the maps, and the checkpoints of other trainings that the complete one makes idle.

    A note has the name of the folder of a training's checkpoints, beside ``checkpoints``.
    """
    for note in notes.iterdir():
        if note.name != checkpoints.name:
            shutil.rmtree(checkpoints.with_name(note.name), ignore_errors=True)
    shutil.rmtree(notes.parent, ignore_errors=True)


def to_tflite(backbone: keras.Model, tuned: Finetuned, scores: str = "") -> bytes:
    """Return backbone, head and softmax as a float ``.tflite``.

    Its input is ``image`` (1, S, S, 3), its output ``probabilities`` (1, C). With a name for
    ``scores``, sigmoids take the place of the softmax, and that is the name of the output.
    """
    data = convert_backbone(backbone)
    if tuned.levels:
        data = with_levels(data)
    return attach_head(data, tuned.weights, tuned.bias, scores)


def convert_backbone(backbone: keras.Model) -> bytes:
    """Return the backbone as a float ``.tflite`` with the only output ``features`` (1, F)."""
    import keras

    return convert_to_flatbuffer(
        keras.Model(backbone.inputs[0], {"features": backbone.outputs[0]})
    )


def epochs_done(checkpoints: Path, hyperparameters: Finetuning) -> tuple[int, int, float] | None:
    """Return epochs done, largest number of epochs, and the spent share of all seconds.

    All seconds are those of ``hyperparameters``; a time limit may have chosen fewer layers and
    more epochs, which take other seconds. None before ten steps.
    """
    progress = read_progress(checkpoints)
    if progress is None or not progress.spent_s:
        return None
    epochs = int(str(progress.hyperparameters.get("epochs", hyperparameters.epochs)))
    trained = float(str(progress.hyperparameters.get("trained", hyperparameters.trained)))
    whole_s = progress.spent_s + progress.rest_s
    share = hyperparameters.share_of_seconds(trained, epochs) * progress.spent_s / whole_s
    return len(progress.history), epochs, share

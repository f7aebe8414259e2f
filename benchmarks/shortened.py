"""Published networks cut short: the same weights up to an earlier resolution, pooled there, as a team's own files.

A team that has the weights of ten networks has more than ten candidates: for a task of few classes the features of an
earlier stage are often enough, at a fraction of the time and the bytes. Each shortened network becomes a file that
``advisor.catalog._user_models.import_model`` adds to a catalogue, so that a search takes it as any other.
"""

import contextlib
import io
import multiprocessing
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.catalog import Card
from advisor.core import WeightsFile

CLASSES = 10
"""Of the classifier that stands in until a head is trained."""

Cut = tuple[int, int]
"""Side of the input, and how many resolutions before its last the network ends."""


def add_shortened(card: Card, weights: WeightsFile, cuts: Sequence[Cut], catalogue: Path) -> None:
    """Add ``card`` cut short in several ways to ``catalogue``."""
    from advisor.catalog._user_models.import_model import ModelDescription, add, inspect

    labels = catalogue.parent / "labels.txt"
    labels.write_text("".join(f"class {place}\n" for place in range(CLASSES)), encoding="utf-8")
    files = [catalogue.parent / f"{card.name}_cut{halvings}_at_{size}.tflite" for size, halvings in cuts]
    child = multiprocessing.get_context("spawn").Process(target=save, args=(card, weights, cuts, files))
    child.start()
    child.join()
    if child.exitcode:
        raise RuntimeError(f"{card.name} could not be cut short")
    looks = card.preprocessing
    given = ModelDescription(
        labels=str(labels), mean=looks.mean, std=looks.std, licence=card.licence, family=card.family
    )
    for file in files:
        with inspect(file) as inspected:
            add(inspected, given, into=catalogue)
        file.unlink()


def save(card: Card, weights: WeightsFile, cuts: Sequence[Cut], files: Sequence[Path]) -> None:
    """Build the card at each size with its weights, cut it and write it as a float ``.tflite``."""
    import tensorflow as tf

    from advisor.catalog import build_model

    for (size, halvings), file in zip(cuts, files, strict=True):
        model = build_model(replace(card, input_size=size), weights)
        with contextlib.redirect_stdout(io.StringIO()):
            file.write_bytes(tf.lite.TFLiteConverter.from_keras_model(_cut(model, halvings)).convert())


def _cut(model: Any, halvings: int) -> Any:
    import keras

    pooled = keras.layers.GlobalAveragePooling2D()(_end(model, halvings))
    return keras.Model(model.inputs, keras.layers.Dense(CLASSES, activation="softmax")(pooled))


def _end(model: Any, halvings: int) -> Any:
    """Return the last tensor at ``halvings`` times twice the network's last resolution.

    Where branches are joined, only what was joined counts; elsewhere what an activation or a sum gave.
    """
    joined = [layer for layer in model.layers if type(layer).__name__ == "Concatenate"]
    kinds = ("ReLU", "Activation", "Add")
    chosen = joined or [layer for layer in model.layers if type(layer).__name__ in kinds]
    maps = [layer.output for layer in chosen if len(layer.output.shape) == 4]
    sides = sorted({int(each.shape[1]) for each in maps})
    return [each for each in maps if int(each.shape[1]) == sides[halvings]][-1]

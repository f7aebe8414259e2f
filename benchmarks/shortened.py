"""Published networks cut short: the same weights up to an earlier resolution, pooled there, as a team's own files.

A team that has the weights of ten networks has more than ten candidates: for a task of few classes the features of an
earlier stage are often enough, at a fraction of the time and the bytes. Each shortened network becomes a file that is
added to a catalogue by the product's own way (``advisor.catalog.bring``), so that a search takes it as any other.
"""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.catalog.cards import Card
from advisor.catalog.weights.file import WeightsFile

CLASSES = 10
"""Of the classifier that stands in until a head is trained."""


def add_shortened(card: Card, weights: WeightsFile, size: int, halvings: int, catalogue: Path) -> str:
    """Add ``card`` cut ``halvings`` resolutions before its last to ``catalogue``; returns the new card's name."""
    from advisor.catalog.bring import Given, add, inspect

    name = f"{card.name}_cut{halvings}_at_{size}"
    file, labels = catalogue.parent / f"{name}.keras", catalogue.parent / "labels.txt"
    labels.write_text("".join(f"class {place}\n" for place in range(CLASSES)), encoding="utf-8")
    child = multiprocessing.get_context("spawn").Process(target=save, args=(card, weights, size, halvings, file))
    child.start()
    child.join()
    if child.exitcode:
        raise RuntimeError(f"{name} could not be made")
    looks = card.preprocessing
    given = Given(name=name, labels=str(labels), mean=looks.mean, std=looks.std, licence=card.licence)
    with inspect(file) as inspected:
        add(inspected, replace(given, family=card.family), into=catalogue)
    file.unlink()
    return name


def save(card: Card, weights: WeightsFile, size: int, halvings: int, file: Path) -> None:
    """Build the card at ``size`` with its weights, cut it and save it for Keras."""
    import keras

    from advisor.catalog.build import build_model

    model = build_model(replace(card, input_size=size), weights)
    pooled = keras.layers.GlobalAveragePooling2D()(_end(model, halvings))
    answers = keras.layers.Dense(CLASSES, activation="softmax", name="probabilities")(pooled)
    keras.Model(model.inputs, answers).save(file)


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

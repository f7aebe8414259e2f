"""Warn of a user's own file whose graph scales an input that is scaled before, too.

Such a file runs and answers nonsense. A search warns when it finds the parts of its question, and
``advisor catalog add`` when the card is made; both try the file on images with and without the
scaling, in a child process, which calls :func:`answer` by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from advisor.catalog import (
    Card,
    Preprocessing,
    classifier,
    fetch_weights,
    read_published_labels,
    warn_of_scale,
)
from advisor.core import TASKS, AdvisorError, StageError
from advisor.datasets import InputSpec, list_files
from advisor.isolation import CallLimits, ChildPool, Scratch
from advisor.store import FetchOptions
from advisor.tflite import read, scale_of_input

TRIED = 20
"""Images that both readings are tried on."""

LIMITS = CallLimits(seconds=60, memory_bytes=6_000_000_000, processes=4)
UNSCALED = Preprocessing((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))

Example = tuple[Path, str]
"""An image of the user and its class."""


def choose_examples(examples: Sequence[Example]) -> Sequence[Example]:
    """Return :data:`TRIED` of the examples, or all if there are fewer, from their whole
    sequence.
    """
    step = max(1, len(examples) // TRIED)
    return examples[::step][:TRIED]


def scale_warning(card: Card, examples: Sequence[Example]) -> str:
    """Return a warning if a user's own file is described as scaled
    and its graph scales its input too; else nothing.

    Both readings are tried on :data:`TRIED` of the examples,
    if there are any and the file has a class for an image.
    """
    if not card.own_file:
        return ""
    try:
        file = fetch_weights(card, FetchOptions(offline=True)).path
        scale = scale_of_input(read(file.read_bytes(), card.name))
    except AdvisorError:
        return ""  # the file is missing or damaged, which the search says
    warning = warn_of_scale(scale, card.preprocessing.std)
    if warning and examples and TASKS[card.task].probabilities:
        warning += f". {_try_scales(card, file, choose_examples(examples))}"
    return warning


def warn_of_input(card: Card, data: Path) -> str:
    """Return :func:`scale_warning` of a card, tried on the images of a folder;
    UsageError if they cannot be listed.
    """
    examples = [(entry.path, entry.label) for entry in list_files(data).entries]
    return scale_warning(card, examples)


def _try_scales(card: Card, file: Path, examples: Sequence[Example]) -> str:
    """Return what the file answers to images as it is described, and with pixels as they are."""
    described_as = card.preprocessing
    specs = [
        InputSpec(card.input_size, described_as.mean, described_as.std),
        InputSpec(card.input_size, UNSCALED.mean, UNSCALED.std),
    ]
    paths = [path for path, _ in examples]
    with Scratch() as folder, ChildPool(folder / "log.txt") as pool:
        try:
            described, unscaled = pool.call(
                f"{__name__}:answer", file, specs, paths, limits=LIMITS
            )
        except StageError as error:
            return f"Neither could be tried: {error.message}"
    labels = read_published_labels(card)
    classes = [label for _, label in examples]
    images = f"{len(examples)} of your images"
    # Only with the user's classes can an answer be right.
    # Otherwise a working input shows by many different answers.
    if set(classes) <= set(labels):
        right = _count_right(described, classes, labels)
        right_unscaled = _count_right(unscaled, classes, labels)
        return (
            f"Of {images}, it is right on {right} as described, and on {right_unscaled} with"
            " --mean 0 --std 1"
        )
    different = len(set(described))
    different_unscaled = len(set(unscaled))
    return (
        f"To {images}, it gives {different} different answers as described, and"
        f" {different_unscaled} with --mean 0 --std 1"
    )


def _count_right(answers: Sequence[int], classes: Sequence[str], labels: Sequence[str]) -> int:
    return sum(labels[answer] == name for answer, name in zip(answers, classes, strict=True))


def answer(file: Path, specs: Sequence[InputSpec], images: Sequence[Path]) -> list[list[int]]:
    """Return for each kind of input the index of the most probable class of each image.

    Runs in a child process.
    """
    data = file.read_bytes()
    answers = []
    for spec in specs:
        labels = []
        for image in images:
            scores = classifier.scores_of(data, spec.read(image)[None], file.name)
            labels.append(int(np.argmax(scores)))
        answers.append(labels)
    return answers

"""Warn of users' own files whose graph scales the input that is scaled before,
and try both readings on images.
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
from advisor.datasets import InputSpec
from advisor.downloads import FetchOptions
from advisor.isolation import CallLimits, ChildPool, Scratch
from advisor.tflite import read, scale_of_input

TRIED = 20
"""Images that both readings are tried on."""

LIMITS = CallLimits(seconds=60, memory_bytes=6_000_000_000, processes=4)
UNSCALED = Preprocessing((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))

Example = tuple[Path, str]
"""An image of the user and its class."""


def spread_examples(examples: Sequence[Example]) -> Sequence[Example]:
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
        warning += f". {_try_scales(card, file, spread_examples(examples))}"
    return warning


def _try_scales(card: Card, file: Path, examples: Sequence[Example]) -> str:
    """Return what the file answers to images as it is described, and with pixels as they are."""
    specs = [
        InputSpec(card.input_size, pre.mean, pre.std) for pre in (card.preprocessing, UNSCALED)
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
        first, second = (
            _count_right(answers, classes, labels) for answers in (described, unscaled)
        )
        return (
            f"Of {images}, it is right on {first} as described, and on {second} with --mean 0"
            " --std 1"
        )
    first = len(set(described))
    second = len(set(unscaled))
    return (
        f"To {images}, it gives {first} different answers as described, and {second} with --mean 0"
        " --std 1"
    )


def _count_right(answers: Sequence[int], classes: Sequence[str], labels: Sequence[str]) -> int:
    return sum(labels[answer] == name for answer, name in zip(answers, classes, strict=True))


def answer(file: Path, specs: Sequence[InputSpec], images: Sequence[Path]) -> list[list[int]]:
    """Return for each kind of input the index of the surest class of each image.
    Runs in a child process.
    """
    data = file.read_bytes()
    answers = []
    for spec in specs:
        rows = [classifier.scores_of(data, spec.read(image)[None], file.name) for image in images]
        answers.append([int(np.argmax(row)) for row in rows])
    return answers

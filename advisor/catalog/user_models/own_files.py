"""Say what is done with users' own files, by task: it is made a card's master, run on photographs, described."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from advisor.core.tasks import DEFAULT_TASK, TASKS
from advisor.tflite.metadata import Metadata
from advisor.tflite.model import Model

if TYPE_CHECKING:
    from advisor.catalog.user_models.import_model import ImportedModel
    from advisor.catalog.weights.arrays import Array


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
    task: str = DEFAULT_TASK
    form: str = ""


class OwnFiles(Protocol):
    """Functions for users' own files of a task."""

    search_options: str
    """The options that a search for the task needs, beside ``--candidates``."""

    def takes(self, model: Model) -> bool:
        """Return whether a file is one of the task."""

    def prepare(self, data: bytes, name: str, target: Path, metadata: Metadata) -> ModelFacts:
        """Write the master of a float file to ``target``; ``name`` is the user's file, for errors.

        Raises:
            UsageError: it cannot be used.
        """

    def take(self, data: bytes, name: str, target: Path, metadata: Metadata) -> ModelFacts:
        """Write a file that keeps its form; as :meth:`prepare` otherwise."""

    def run(self, data: bytes, image: Array, finished: bool) -> Mapping[str, Array]:
        """Return the outputs of a prepared file for an image, by name; ``finished`` for one that keeps its form."""

    def surest(self, outputs: Mapping[str, Array], facts: ModelFacts, title: str) -> list[tuple[int, float]]:
        """Return the index of the surest label and its probability, if there is one; ``title`` is the photograph's.

        Raises:
            UsageError: the outputs are not those of the task.
        """

    def remarks(self, added: ImportedModel) -> Iterator[str]:
        """Yield remarks on a card that is not taken as it is."""


def task_of(model: Model) -> str:
    """Return the name of the task that a file is for: the last one that takes it, as the first takes every file."""
    return [name for name, task in TASKS.items() if task.own_cards is not None and task.own_files().takes(model)][-1]

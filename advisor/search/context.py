"""What every stage of one search shares: the question, the pictures, the parts and where results are kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

from advisor.catalog.cards import Card
from advisor.datasets.dataset import Dataset
from advisor.datasets.split import Split
from advisor.isolation import ChildPool
from advisor.search.jobs import View
from advisor.search.machine import Machine
from advisor.search.request import Request
from advisor.store import ArtifactCache
from advisor.store.hashing import sha256_json

CALIBRATION_PICTURES = 100

Notify = Callable[[str, str, str, str], None]
"""Called with (stage, card name, what is being done, ``started`` | ``done`` | ``cached``)."""


@dataclass(frozen=True)
class Pictures:
    """The user's pictures and their split.

    Attributes:
        dataset: the pictures.
        split: its parts.
        leaks: groups of pictures that show the same or belong together, and that the user's own split puts on several
            sides.
    """

    dataset: Dataset
    split: Split
    leaks: tuple[tuple[int, ...], ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every picture, in the order of its features."""
        return tuple(picture.path for picture in self.dataset.pictures)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the pictures in their order and with their labels."""
        return self._hash(range(len(self.dataset.pictures)))

    @cached_property
    def train_fingerprint(self) -> str:
        """Hash of the training part."""
        return self._hash(self.split.train)

    @cached_property
    def holdout_fingerprint(self) -> str:
        """Hash of the hold-out."""
        return self._hash(self.split.holdout)

    @property
    def holdout_paths(self) -> tuple[Path, ...]:
        """The hold-out's files."""
        return tuple(self.dataset.pictures[index].path for index in self.split.holdout)

    @property
    def holdout_labels(self) -> tuple[int, ...]:
        """The hold-out's labels."""
        return tuple(self.dataset.pictures[index].label for index in self.split.holdout)

    @property
    def train_labels(self) -> tuple[int, ...]:
        """The training part's labels."""
        return tuple(self.dataset.pictures[index].label for index in self.split.train)

    def _hash(self, indices: range | tuple[int, ...]) -> str:
        pictures = self.dataset.pictures
        return sha256_json([(pictures[index].sha256, pictures[index].label) for index in indices])


@dataclass(frozen=True)
class Context:
    """The parts of one search.

    Attributes:
        request: the question.
        pictures: the user's pictures, or None.
        cache: results of stages.
        machine: the host's cores.
        heavy: children that import TensorFlow.
        light: children that do not.
        notify: told of each stage.
    """

    request: Request
    pictures: Pictures | None
    cache: ArtifactCache
    machine: Machine
    heavy: ChildPool
    light: ChildPool
    notify: Notify

    @property
    def training(self) -> str:
        """Name of the training recipe: ``head`` with pictures, ``none`` without."""
        return "head" if self.pictures else "none"


def view_of(card: Card) -> View:
    """How pictures become this card's input."""
    return View(card.input_size, card.preprocessing)


def card_hash(card: Card) -> str:
    """Return the hash of everything that the catalogue says of the card."""
    return sha256_json(json.loads(json.dumps(asdict(card), default=str)))


def versions(*packages: str) -> dict[str, str]:
    """Installed versions, read without importing anything."""
    return {package: version(package) for package in packages}

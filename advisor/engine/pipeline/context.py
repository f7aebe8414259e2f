"""What every stage of one search shares: the question, the pictures, the parts and where results are kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

from advisor.catalog.cards import Card
from advisor.core.training import HEAD_SUBSET
from advisor.datasets.dataset import Dataset
from advisor.datasets.images import InputSpec
from advisor.datasets.split import Split
from advisor.engine.execution.machine import Machine
from advisor.engine.execution.protocol import OnDevice, call_locally
from advisor.engine.pipeline.cost import CAPTURED_IMAGES, SUBSET_IMAGES
from advisor.engine.question import Question
from advisor.isolation import ChildPool, Children
from advisor.measurement.host import Host, describe
from advisor.store import ArtifactCache
from advisor.store.hashing import sha256_json

CALIBRATION_IMAGES = 100
LARGE = 5000
"""Of sets larger than this, some pictures are looked at first."""


class Purpose(StrEnum):
    """What a trained model is made for.

    ``COMPARE``: fitted to the training part alone, so that the validation part tells candidates apart. ``SHIP``: the
    same recipe fitted to everything but the hold-out, which is what goes to the phone.
    """

    COMPARE = "compare"
    SHIP = "ship"


Notify = Callable[[str, str, str, str], None]
"""Called with (stage, card name, what is being done, and ``started`` | ``waits for process 123`` | ``epoch 3 of 12`` |
``done`` | ``cached``)."""


@dataclass(frozen=True)
class Part:
    """Some of the user's pictures.

    Attributes:
        indices: their places in the dataset, sorted.
        paths: their files.
        labels: their classes.
        fingerprint: hash of the pictures in their order and with their labels.
        stamps: size and time of change of each file when it was read.
        hashes: SHA-256 of each file, in hexadecimal.
    """

    indices: tuple[int, ...]
    paths: tuple[Path, ...]
    labels: tuple[int, ...]
    fingerprint: str
    stamps: tuple[tuple[int, int], ...] = ()
    hashes: tuple[str, ...] = ()

    def between(self, start: int, end: int) -> Part:
        """Return the pictures from one place to before another."""
        return Part(
            indices=self.indices[start:end],
            paths=self.paths[start:end],
            labels=self.labels[start:end],
            fingerprint=f"{self.fingerprint}[{start}:{end}]",
            stamps=self.stamps[start:end],
            hashes=self.hashes[start:end],
        )


@dataclass(frozen=True)
class Images:
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
    def classes(self) -> tuple[str, ...]:
        """Names of the classes in label order."""
        return self.dataset.classes

    @cached_property
    def train(self) -> Part:
        """What is learnt from while candidates are compared."""
        return self._part(self.split.train)

    @cached_property
    def validation(self) -> Part:
        """What candidates are compared on."""
        return self._part(self.split.validation)

    @cached_property
    def learnt(self) -> Part:
        """Everything but the hold-out: what the model that ships has learnt from."""
        return self._part(self.split.learnt)

    @cached_property
    def holdout(self) -> Part:
        """What only finalists are judged on."""
        return self._part(self.split.holdout)

    @property
    def large(self) -> bool:
        """True where a first look at some of the pictures saves more than it costs."""
        return len(self.split.learnt) > LARGE

    @cached_property
    def subset(self) -> Part:
        """Some of the training part, :data:`SUBSET_IMAGES` at most, evenly drawn from each class."""
        return self._part(self._evenly(self.split.train, SUBSET_IMAGES))

    @cached_property
    def captured(self) -> Part:
        """What of the hold-out finalists are judged on as phones take pictures: :data:`CAPTURED_IMAGES` at most."""
        return self._part(self._evenly(self.split.holdout, CAPTURED_IMAGES))

    def _evenly(self, indices: tuple[int, ...], count: int) -> tuple[int, ...]:
        """Return ``count`` of the pictures at most, in proportion to the classes, drawn by the pictures' hashes."""
        images = self.dataset.images
        ordered = sorted(indices, key=lambda index: (images[index].label, images[index].sha256))
        wanted = min(len(ordered), count)
        first = {images[index].label: index for index in reversed(ordered)}  # every class has one, however small
        return tuple(sorted({*first.values(), *(ordered[place * len(ordered) // wanted] for place in range(wanted))}))

    def _part(self, indices: tuple[int, ...]) -> Part:
        images = [self.dataset.images[index] for index in indices]
        return Part(
            indices=indices,
            paths=tuple(image.path for image in images),
            labels=tuple(image.label for image in images),
            fingerprint=sha256_json([(image.sha256, image.label) for image in images]),
            stamps=tuple(image.stamp for image in images),
            hashes=tuple(image.sha256 for image in images),
        )


@dataclass(frozen=True)
class Context:
    """The parts of one search.

    Attributes:
        question: what is asked.
        images: the user's pictures, or None.
        cache: results of stages.
        machine: the host's cores.
        heavy: children that import TensorFlow.
        light: children that do not.
        notify: told of each stage.
        effort: how long each artefact is timed.
        remeasure: measure again what an earlier run measured.
        trainers: children that import TensorFlow and may be paused for a measurement.
        on_device: calls a measurement where its device is attached.
        host: the machine that measures the device ``host``.
    """

    question: Question
    images: Images | None
    cache: ArtifactCache
    machine: Machine
    heavy: Children
    light: Children
    notify: Notify
    effort: str = "search"
    remeasure: bool = False
    trainers: Children = field(default_factory=ChildPool)
    on_device: OnDevice = call_locally
    host: Host = field(default_factory=describe)


def trainings_of(question: Question, images: Images | None) -> tuple[str, ...]:
    """Return the rungs of a search, the lightest first: a large set gets a first look at some of it."""
    return (HEAD_SUBSET, *question.trainings) if images is not None and images.large else question.trainings


def view_of(card: Card) -> InputSpec:
    """How pictures become this card's input."""
    return InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)


def card_hash(card: Card) -> str:
    """Return the hash of everything that the catalogue says of the card."""
    return sha256_json(json.loads(json.dumps(asdict(card), default=str)))


def versions(*packages: str) -> dict[str, str]:
    """Installed versions, read without importing anything."""
    return {package: version(package) for package in packages}

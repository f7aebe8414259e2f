"""Materials that the stages of a search share, and the models that they make."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Any

from advisor.catalog.cards import Card
from advisor.core.training import recipe_of
from advisor.datasets.images import InputSpec
from advisor.devices.profiles import DeviceTarget
from advisor.downloads.files import WeightsFile
from advisor.engine.pipeline.images import Images, Part, Role
from advisor.engine.question import Question
from advisor.measurement.host import Host
from advisor.store import ArtifactCache
from advisor.store.files import sha256_file

Variant = tuple[str, str]
"""A training recipe and a compression recipe: of one card, one artefact."""

MODEL, RESULT = "model.tflite", "result.json"

DAMAGED = (OSError, ValueError, KeyError, TypeError, EOFError, RecursionError)
"""Errors of a stage that reads a result whose files are missing or damaged."""


class Purpose(StrEnum):
    """The purpose of a trained model.

    ``COMPARE``: fitted to the training part alone, so that the validation part tells candidates apart. ``SHIP``: the
    same recipe fitted to everything but the hold-out, which is what goes to the phone.
    """

    COMPARE = "compare"
    SHIP = "ship"


@dataclass(frozen=True)
class LocalTarget:
    """A target besides LiteRT whose files run on this machine: another runtime, or a microcontroller's interpreter.

    Attributes:
        device: name of the device in its profile.
        target: its target.
    """

    device: str
    target: DeviceTarget


@dataclass(frozen=True)
class Workload:
    """The work for each card.

    Attributes:
        trainings: training recipes, the lightest first.
        recipes: names of compression recipes.
        images: number of images by role; empty without images.
        question: the question: its task, its trials, whether it asks for capture conditions.
        own_holdout: the user's own split names the hold-out.
        local_targets: further targets whose files run on this machine.
    """

    trainings: tuple[str, ...]
    recipes: tuple[str, ...]
    images: Mapping[Role, int] = field(default_factory=dict)
    question: Question = field(default_factory=Question)
    own_holdout: bool = False
    local_targets: tuple[LocalTarget, ...] = ()

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Every training with every compression."""
        return tuple((training, recipe) for training in self.trainings for recipe in self.recipes_of(training))

    def recipes_of(self, training: str) -> tuple[str, ...]:
        """Return the compression recipes of a training; a first look takes float32 alone."""
        return ("float32",) if recipe_of(training).first_look else self.recipes

    def variants_of(self, card: Card) -> tuple[Variant, ...]:
        """Return the variants of a card: all, or of a finished file the only one."""
        if not card.form:
            return self.variants
        return ((next((each for each in self.trainings if recipe_of(each).base), self.trainings[0]), card.form),)

    def judged(self, training: str) -> bool:
        """Return whether a model of this training may be a finalist; a first look is none."""
        return bool(self.images.get(Role.HOLDOUT)) and not recipe_of(training).first_look

    def trained_twice(self, training: str) -> bool:
        """Return whether the model that ships is another than the one that is compared."""
        return bool(self.images) and recipe_of(training).trained_twice


@dataclass(frozen=True)
class Materials:
    """Inputs that the stages of a search share.

    Attributes:
        cache: results of earlier stages.
        images: the user's images, or None.
        weights: weights file of each card by name; None for fixed-seed random weights.
        host: the machine that measures.
        question: the question: its thread counts, its seed, the points that a compressed file may lose.
        effort: name of the effort of a timing, see :mod:`advisor.measurement.latency.timing`.
        training_left_s: returns the seconds that are left for fine-tuning the card of this name; None for no limit.
    """

    cache: ArtifactCache
    images: Images | None
    weights: Mapping[str, WeightsFile | None]
    host: Host
    question: Question = field(default_factory=Question)
    effort: str = "search"
    training_left_s: Callable[[str], float | None] = lambda _: None

    def require_images(self) -> Images:
        """Return the images; stages that need them are in no graph without."""
        assert self.images is not None, "the graph asks for images only where there are some"
        return self.images

    def part(self, role: Role) -> Part:
        """Return the images with a role; stages that need them are in no graph without."""
        return self.require_images().part(role)

    def weights_source(self, card: Card) -> str:
        """Return where the card's weights came from, empty where it has fixed-seed random ones."""
        weights = self.weights[card.name]
        return weights.source if weights else ""


@dataclass(frozen=True)
class FloatModel:
    """A float ``.tflite`` of a card with its hash, the origin of its artefacts."""

    path: Path
    sha256: str

    @classmethod
    def within(cls, folder: Path) -> FloatModel:
        """Return the file that a stage left in its folder."""
        return cls(folder / MODEL, sha256_file(folder / MODEL))


@dataclass(frozen=True)
class Artefact:
    """One ``.tflite`` that could ship.

    Attributes:
        figures: ``arena_bytes``, ``download_bytes`` (deflated) and ``download_zstd_bytes``.
        notes: what the recipe did and found, where it says more than its name.
    """

    path: Path
    sha256: str
    size_bytes: int
    figures: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def at(cls, path: Path, sha256: str) -> Artefact:
        """Return a file that a run keeps."""
        return cls(path, sha256, path.stat().st_size)


def read_result(folder: Path) -> Any:
    """Return what the job of a stage returned, None where it returned nothing."""
    file = folder / RESULT
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def input_spec(card: Card) -> InputSpec:
    """Return how images become this card's input."""
    return InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)


def versions(*packages: str) -> dict[str, str]:
    """Return the installed versions, read without importing anything."""
    return {package: version(package) for package in packages}

"""Hold what the stages of a search share, and the files that they make.

``Resolved.materials`` makes the :class:`Materials` of a search: cache, images, weights, host and
question. Every stage reads its inputs from them. :class:`Workload` says which variants there are,
before any stage runs. :class:`FloatModel` and :class:`Artefact` are the files of the stages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from advisor.catalog import Card
from advisor.core import WeightsFile, recipe_of
from advisor.datasets import InputSpec
from advisor.devices import DeviceTarget, find_version
from advisor.engine._pipeline.images import Images, Part, Role
from advisor.engine._pipeline.stage import MODEL, RESULT, Scope
from advisor.engine._question.values import Question
from advisor.measurement import Host
from advisor.store import ArtifactCache, RunFolder, read_cached_sha256
from advisor.training import Reserve

DAMAGED = (OSError, ValueError, KeyError, TypeError, EOFError, RecursionError)
"""Errors of a stage that reads a result whose files are missing or damaged."""

HEAD = "head.npz"
"""The weights of a head that was trained on maps, in the folder of its result."""

IMPORTS_S = 10.0
NEXT_IMPORTS_S = 4.0
NEXT_START_S = 10.0
"""Seconds by the clock of a training before its time counts; of the one that follows it in the
same process; and of this one before its first step. An AMD EPYC took 7, 2 and 6 for
EfficientNet-Lite0.
"""

# A training recipe and a compression recipe: of one card, one artefact.
RecipePair = tuple[str, str]


class Purpose(StrEnum):
    """The purpose of a trained model.

    ``COMPARE``: fitted to the training part, so that validation compares candidates. ``SHIP``: to
    all but the hold-out. ``ALL``: to all images, so that no image can judge it.
    """

    COMPARE = "compare"
    SHIP = "ship"
    ALL = "all"

    @property
    def learns(self) -> Role:
        """The images that a model with this purpose is fitted to."""
        roles = {Purpose.COMPARE: Role.TRAIN, Purpose.SHIP: Role.LEARNT, Purpose.ALL: Role.ALL}
        return roles[self]


@dataclass(frozen=True)
class LocalTarget:
    """A target besides LiteRT whose files run on this machine:
    another runtime, or a microcontroller's interpreter.
    """

    device: str
    target: DeviceTarget


@dataclass(frozen=True)
class Workload:
    """The work for each card: its recipes, the lightest training first, the images by role,
    and the classes.
    """

    trainings: tuple[str, ...]
    recipes: tuple[str, ...]
    images: Mapping[Role, int] = field(default_factory=dict)
    question: Question = field(default_factory=Question)
    own_holdout: bool = False
    local_targets: tuple[LocalTarget, ...] = ()
    classes: int = 2

    @property
    def variants(self) -> tuple[RecipePair, ...]:
        """Every training with every compression."""
        variants = []
        for training in self.trainings:
            for recipe in self.recipes_of(training):
                variants.append((training, recipe))
        return tuple(variants)

    def recipes_of(self, training: str) -> tuple[str, ...]:
        """Return the compression recipes of a training; a quick head takes float32 alone."""
        return ("float32",) if recipe_of(training).quick_head else self.recipes

    def variants_of(self, card: Card) -> tuple[RecipePair, ...]:
        """Return the variants of a card: all; of one that is never trained, those of the lightest
        training, and of a file that keeps its form, this form alone.
        """
        if not card.is_finished:
            return self.variants
        bases = [training for training in self.trainings if recipe_of(training).base]
        base = bases[0] if bases else self.trainings[0]
        if card.form:
            return ((base, card.form),)
        return tuple(variant for variant in self.variants if variant[0] == base)

    def judged(self, training: str) -> bool:
        """Return whether a model of this training may be a finalist; a quick head is none."""
        return bool(self.images.get(Role.HOLDOUT)) and not recipe_of(training).quick_head

    def trained_twice(self, training: str) -> bool:
        """Return whether the model that ships is another than the one that is compared."""
        return bool(self.images) and recipe_of(training).trained_twice


@dataclass(frozen=True)
class TrainingBudget:
    """The time that a limit leaves for the trainings of a recipe on a card.

    Attributes:
        seconds: seconds by the clock that are left for them.
        share: the same over the seconds that all of them take, at most 1.
        reserve: what is kept for the work after them, if that is known.
    """

    seconds: float
    share: float = 1.0
    reserve: Reserve | None = None

    @property
    def alone_s(self) -> float:
        """The time limit in seconds of a training after which none follows."""
        return max(0.0, self.seconds - IMPORTS_S)


@dataclass(frozen=True)
class Materials:
    """Inputs that the stages of a search share."""

    cache: ArtifactCache
    images: Images | None
    # Weights file of each card by name; None for fixed-seed random weights.
    weights: Mapping[str, WeightsFile | None]
    host: Host  # The machine that measures
    question: Question = field(default_factory=Question)
    # Name of the effort of a timing, see :mod:`advisor.measurement._latency.timing`.
    effort: str = "search"
    # Returns the time that a limit leaves for a training recipe (second argument) of the card of
    # this name (first); None for no limit.
    budget_training: Callable[[str, str], TrainingBudget | None] = lambda *_: None

    def require_images(self) -> Images:
        """Return the images; stages that need them are in no graph without."""
        assert self.images is not None, "the graph asks for images only where there are some"
        return self.images

    def part(self, role: Role) -> Part:
        """Return the images with a role; stages that need them are in no graph without."""
        return self.require_images().part(role)

    def limit_s(self, scope: Scope, to_come: float | None) -> float | None:
        """Return the time limit of one training in seconds by the clock; None for none.

        The time that is left is shared with the trainings that follow it on the same card, and
        each of these needs time to start. ``to_come``: the epochs of these over those of this
        training; None for a training after the search, which ends it in time itself.
        """
        budget = None if to_come is None else self.budget_training(scope.card, scope.training)
        if budget is None or to_come is None:
            return None
        starts_s = IMPORTS_S + NEXT_START_S if to_come else NEXT_IMPORTS_S
        return max(0.0, (budget.seconds - starts_s) / (1 + to_come))

    def find_earlier_head(self, card: Card) -> Path | None:
        """Return the head of the same network in the run of ``--start``; None if there is none."""
        run = self.question.start
        return RunFolder.open(run).heads.get(card.name) if run else None

    def hash_earlier_head(self, card: Card) -> str:
        """Return the SHA-256 of :meth:`find_earlier_head`; empty if there is none."""
        head = self.find_earlier_head(card)
        return read_cached_sha256(head) if head else ""

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
        return cls(folder / MODEL, read_cached_sha256(folder / MODEL))

    @property
    def head(self) -> Path:
        """The weights of its head, which a training on maps leaves beside the file."""
        return self.path.with_name(HEAD)

    @property
    def notes(self) -> Any:
        """The facts that its training returned, None if there are none."""
        return read_result(self.path.parent)


@dataclass(frozen=True)
class Artefact:
    """One ``.tflite`` that could ship, its sizes by name, and what the recipe did and found,
    if that is more than its name.
    """

    path: Path
    sha256: str
    size_bytes: int
    figures: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def within(cls, folder: Path) -> Artefact:
        """Return the file that a stage left in its folder, with its figures and notes."""
        figures = dict(read_result(folder))
        notes = figures.pop("notes", {})
        path = folder / MODEL
        return cls(path, read_cached_sha256(path), path.stat().st_size, figures, notes)

    @classmethod
    def at(cls, path: Path, sha256: str) -> Artefact:
        """Return a file that a run keeps."""
        return cls(path, sha256, path.stat().st_size)


def read_result(folder: Path) -> Any:
    """Return what the job of a stage returned, None where it returned nothing."""
    file = folder / RESULT
    if file.exists():
        return json.loads(file.read_text(encoding="utf-8"))
    return None


def input_spec(card: Card) -> InputSpec:
    """Return how images become this card's input."""
    return InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)


def list_versions(*packages: str) -> dict[str, str]:
    """Return the installed versions, read without importing anything;
    empty for a package that is not installed.
    """
    return {package: find_version(package) for package in packages}

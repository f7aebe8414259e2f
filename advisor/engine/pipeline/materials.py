"""Materials that the stages of a search share, and the models that they make."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Any

from advisor.catalog.cards import Card, WeightsFile
from advisor.core.costs import Costs
from advisor.core.metrics import TOP1
from advisor.core.promises import Promises
from advisor.core.tasks import IMAGE_CLASSIFICATION, TASKS, Task
from advisor.core.training import recipe_of
from advisor.datasets.images import InputSpec
from advisor.devices.profiles import DeviceTarget
from advisor.engine.pipeline.images import CAPTURED_IMAGES, SUBSET_IMAGES, Images, Part, Role
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
        robust: candidates are compared under capture conditions too.
        trials: trials of the hyperparameters of each fine-tuning; 0 for none.
        own_holdout: the user's own split names the hold-out.
        task: name of the task, see :data:`advisor.core.tasks.TASKS`.
        local_targets: further targets whose files run on this machine.
    """

    trainings: tuple[str, ...]
    recipes: tuple[str, ...]
    images: Mapping[Role, int] = field(default_factory=dict)
    robust: bool = False
    trials: int = 0
    own_holdout: bool = False
    task: str = IMAGE_CLASSIFICATION
    local_targets: tuple[LocalTarget, ...] = ()

    @property
    def of_task(self) -> Task:
        """The facts of the task."""
        return TASKS[self.task]

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Every training with every compression."""
        return tuple((training, recipe) for training in self.trainings for recipe in self.recipes_of(training))

    def recipes_of(self, training: str) -> tuple[str, ...]:
        """Return the compression recipes of a training; a first look takes float32 alone."""
        return ("float32",) if recipe_of(training).first_look else self.recipes

    def variants_of(self, card: Card) -> tuple[Variant, ...]:
        """Return the variants of a card: all, or of a file of fixed form the only one."""
        if not card.form:
            return self.variants
        return ((next((each for each in self.trainings if recipe_of(each).base), self.trainings[0]), card.form),)

    def judged(self, training: str) -> bool:
        """Return whether a model of this training may be a finalist; a first look is none."""
        return bool(self.images.get(Role.HOLDOUT)) and not recipe_of(training).first_look

    def trained_twice(self, training: str) -> bool:
        """Return whether the model that ships is another than the one that is compared."""
        return bool(self.images) and recipe_of(training).trained_twice


def image_counts(learnt: int, validation: int, holdout: int, subset: int = SUBSET_IMAGES) -> dict[Role, int]:
    """Return the number of images by role; none without images to learn from.

    Args:
        learnt: images to learn from, validation included.
        validation: images to compare candidates on.
        holdout: images to judge finalists on.
        subset: images of a first look, at most.
    """
    if not learnt:
        return {}
    return {
        Role.TRAIN: learnt - validation,
        Role.VALIDATION: validation,
        Role.LEARNT: learnt,
        Role.SUBSET: min(subset, learnt - validation),
        Role.HOLDOUT: holdout,
        Role.CAPTURED: min(holdout, CAPTURED_IMAGES),
    }


@dataclass(frozen=True)
class Materials:
    """Inputs that the stages of a search share.

    Attributes:
        cache: results of earlier stages.
        images: the user's images, or None.
        weights: weights file of each card by name; None for fixed-seed random weights.
        host: the machine that measures.
        thread_counts: CPU thread counts to measure.
        seed: of training, calibration and hyperparameter trials.
        max_drop_points: points that a compressed file may lose.
        robust: candidates are compared under capture conditions.
        promises: what the user asked of thresholds.
        metric: what accuracy is: one of :data:`advisor.core.metrics.METRICS`, for classifiers.
        costs: the cost of each answer of a classifier; None for none.
        effort: name of the effort of a timing, see :mod:`advisor.measurement.latency.timing`.
        training_ends: seconds of the monotonic clock at which fine-tuning ends with its best epoch; None for no limit.
    """

    cache: ArtifactCache
    images: Images | None
    weights: Mapping[str, WeightsFile | None]
    host: Host
    thread_counts: tuple[int, ...] = (1,)
    seed: int = 0
    max_drop_points: float | None = None
    robust: bool = False
    promises: Promises = field(default_factory=Promises)
    metric: str = TOP1
    costs: Costs | None = None
    effort: str = "search"
    training_ends: float | None = None

    def require_images(self) -> Images:
        """Return the images; stages that need them are in no graph without."""
        assert self.images is not None, "the graph asks for images only where there are some"
        return self.images

    def part(self, role: Role) -> Part:
        """Return the images with a role; stages that need them are in no graph without."""
        return self.require_images().part(role)

    def training_left_s(self) -> float | None:
        """Return the seconds that are left for fine-tuning; None for no limit."""
        return None if self.training_ends is None else max(0.0, self.training_ends - time.monotonic())

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

"""Define what a task is: its facts, and one method for each thing that a room below asks of it.

Search, check, catalogue and export look a task up by its name (``core/_task_registry.py``)
and call these methods. Packages of others may register tasks (``docs/extend.md``), so methods
keep their names and arguments. Bases, from little to much: :class:`Task`,
:class:`FunctionTask`, :class:`OnMaps`, :class:`HeadOnMaps`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from advisor.core import TrainingName, UsageError, list_choosable, recipe_of
from advisor.engine import SearchTask

if TYPE_CHECKING:
    from advisor.catalog import Card, OwnFiles
    from advisor.datasets import InputSpec, Progress
    from advisor.engine import (
        DataCheck,
        FloatModel,
        Folders,
        Images,
        Job,
        Judge,
        LabelChecker,
        Materials,
        Part,
        Purpose,
        Question,
        Role,
        Say,
        Scope,
        Source,
        Stage,
        Workload,
    )
    from advisor.reporting import Shipping
    from advisor.training import HeadKind, Labels, TrainingStart

USUAL_TRAININGS = (TrainingName.HEAD, TrainingName.FINETUNE_CACHED)
"""Recipes of a search with images whose user chose none."""


@dataclass(frozen=True)
class Task(SearchTask):
    """One task: facts that the rooms below read, and one method for each thing that they ask.

    A subclass implements the abstract methods. Its module imports nothing heavy:
    methods import what they need.
    """

    def own_files(self) -> OwnFiles:
        """Return what is done with users' own files,
        of a task that has :attr:`.TaskFacts.own_cards`.
        """
        raise NotImplementedError(self.name)

    def shipping(self) -> Shipping:
        """Return the content of a bundle; a UsageError if there is none for the task."""
        raise UsageError(
            f"there is no bundle for {self.name}",
            "take the .tflite file from the run's folder artifacts",
        )


class TaskFunctions(NamedTuple):
    """The functions behind the methods of a task: their modules import more than its facts do."""

    read: Callable[[Question, Say], Images]
    check: Callable[[Path, Say], DataCheck]  # no network judges the labels
    # Job, see :func:`.over_images`; whether under capture conditions comes first.
    answer: Callable[..., None]
    answers: str  # name of the file that the job writes
    judge: Callable[[Question], Judge]
    shipping: Shipping


class FunctionTask(Task):
    """A task whose images, answers and bundle are those of its :class:`TaskFunctions`."""

    @property
    @abstractmethod
    def functions(self) -> TaskFunctions:
        """The functions of the methods below."""

    def read(self, question: Question, say: Say) -> Images:
        """Return the images of a question, checked and split."""
        return self.functions.read(question, say)

    def check(self, data: Path, checker: LabelChecker | None, say: Say) -> DataCheck:
        """Return the faults in a set of images; no network judges the labels."""
        return self.functions.check(data, say)

    def judge(self, question: Question) -> Judge:
        """Return what turns the answers of a file into figures."""
        return self.functions.judge(question)

    def shipping(self) -> Shipping:
        """Return the content of a bundle."""
        return self.functions.shipping

    def score(
        self,
        scope: Scope,
        spec: InputSpec,
        source: Source,
        role: Role,
        cost_s: float,
    ) -> Stage[Path]:
        """Return the stage that writes these answers."""
        from advisor.tasks._on_maps import answer_images

        return answer_images(self.functions, scope, spec, source, role, cost_s)

    def capture(
        self,
        scope: Scope,
        spec: InputSpec,
        source: Source,
        role: Role,
        cost_s: float,
    ) -> Stage[Path]:
        """Return the stage that writes these answers under capture conditions without motion."""
        from advisor.tasks._on_maps import answer_images

        return answer_images(self.functions, scope, spec, source, role, cost_s, captured=True)


class OnMaps(FunctionTask):
    """A task whose networks learn from the maps of a card's backbone, in one stage."""

    learnt = "boxes"  # what they learn, in words
    version = "8"  # of their training; raised when equal images and weights give another network
    goes_on = False  # the network that ships goes on from the compared one, with more images

    @abstractmethod
    def seconds(self, card: Card, images: int, layers: float) -> float:
        """Return the rough seconds of learning from so many images, or of fine-tuning a share of
        the layers too.
        """

    @abstractmethod
    def job(
        self,
        card: Card,
        materials: Materials,
        part: Part,
        to: Folders,
        start: TrainingStart,
    ) -> Job:
        """Return the training that writes the float file; ``start`` is
        as of :func:`._on_maps.train.train`.
        """

    def model(
        self,
        card: Card,
        training: str,
        purpose: Purpose,
        workload: Workload,
    ) -> Stage[FloatModel]:
        """Return the stage that learns from the maps of the card's backbone."""
        from advisor.tasks._on_maps import train_on_maps

        return train_on_maps(card, training, purpose, workload)


class HeadOnMaps(OnMaps):
    """A task whose networks are a head on these maps, as those that find objects."""

    goes_on = True

    @property
    def trainings(self) -> tuple[str, ...]:
        """Training recipes that train heads on maps."""
        return tuple(name for name in list_choosable() if recipe_of(name).detects)

    @property
    @abstractmethod
    def head(self) -> HeadKind:
        """The kind of head that is trained."""

    def head_of(self, card: Card) -> HeadKind:
        """Return the kind of head that is trained on a card."""
        return self.head

    @abstractmethod
    def labels(self, objects: Any, card: Card) -> Labels:
        """Return what the head learns of an image, from what its part has
        of it (:attr:`.Part.objects`).
        """

    def seconds(self, card: Card, images: int, layers: float) -> float:
        """Return the rough seconds of training a head on so many images, or of fine-tuning it
        and the backbone.
        """
        from advisor.engine import cost

        return cost.detector_s(card, images, layers)

    def learns_from(
        self, images: Sequence[tuple[Path, Any]], seed: int
    ) -> Sequence[tuple[Path, Any]]:
        """Return the images that are learnt from, each with what its part has of it: all."""
        return images

    def job(
        self,
        card: Card,
        materials: Materials,
        part: Part,
        to: Folders,
        start: TrainingStart,
    ) -> Job:
        """Return the training of the head, or of head and backbone."""
        from advisor.tasks._on_maps import train

        images = tuple(zip(part.paths, part.objects, strict=True))
        classes = len(materials.require_images().classes)
        weights = materials.weights[card.name]
        seed = materials.question.seed
        return partial(
            train, card, weights, images, classes, self.name, seed, to.model, to.checkpoints, start
        )


def report_progress(say: Say) -> Progress:
    """Return a function that says how many images were listed, and then read."""

    def count(done: int, total: int) -> None:
        if not total:
            say(f"listing images: {done:,}")
        # A line for each image would cost more than reading a small one.
        elif done % 100 == 0 or done == total:
            say(f"reading images: {done:,} of {total:,}")

    return count

"""Define what a task is: its facts, and what is done for it in each room."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from advisor.core import Gain, UsageError, choosable, recipe_of

if TYPE_CHECKING:
    from advisor.catalog import Card, OwnFiles
    from advisor.datasets import InputSpec
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
    from advisor.exporting import Shipping
    from advisor.training import HeadKind, Labels, TrainingStart


@dataclass(frozen=True)
class OwnCards:
    """The cards of users' own files."""

    architecture: str  # on the card of a float file that every form can be made of
    finished: str  # on the card of a file that keeps its form
    trained: bool = False  # a float file is trained on the user's images if it can be; otherwise it is judged as it is


@dataclass(frozen=True)
class Task(ABC):
    """One task: facts that the rooms below read, and one method for each thing that is done for it.

    A subclass implements the abstract methods. Its module imports nothing heavy: methods import what they need.
    """

    name: str  # as users write it
    model_kind: str  # what a model of the task is, as its description begins
    metric: str  # the figure that decides, which the code calls accuracy
    by_class: str  # the figure of a single class
    by_class_is: str  # what that figure is, in words
    default: tuple[str, ...]  # training recipes of a search whose user chose none
    needs: str = ""  # the images that it needs, in words; empty for images of classes
    right_if: str = ""  # when a found object counts as right, as a sentence; empty where none is found
    published: bool = False  # cards have published figures of the metric, so a search needs no images
    conditions: bool = False  # models are also judged under capture conditions
    robust: bool = False  # models may be chosen by that accuracy
    other_conditions: str = ""  # what another visit or camera cost networks of the task where it was measured, in words
    labelled: bool = False  # images have one class each, which mixed_int8 needs
    retrains: bool = False  # compression recipes may train the weights of its files, as qat_int8 does
    probabilities: bool = False  # models answer with the probability of each class, which is calibrated
    guarantees: tuple[str, ...] = ()  # options that ask for what a threshold guarantees
    tunable: bool = False  # fine-tuning has hyperparameters that ``--tune-training`` varies
    gain: Gain | None = None  # what fine-tuning gains where that was measured; None: what the recipe gains
    side: int = 0  # side of the input in pixels; 0 for that of each card
    judging_s: float = 0.0005  # rough seconds of turning the answers to one image of the hold-out into figures
    cards: int = 12  # number of cards that a search tries if the user names none: the most promising ones with weights
    own_cards: OwnCards | None = None  # cards of users' own files; None if there are none

    @property
    def trainings(self) -> tuple[str, ...]:
        """Training recipes that a user may choose, the lightest first."""
        return choosable()

    @property
    def heading(self) -> str:
        """The metric as a heading begins."""
        return self.metric[:1].upper() + self.metric[1:] if self.metric.split()[0].islower() else self.metric

    def own_files(self) -> OwnFiles:
        """Return what is done with users' own files, of a task that has :attr:`own_cards`."""
        raise NotImplementedError(self.name)

    def recognized(self, data: Path) -> str:
        """Return what in a folder belongs to the task, in words, for users who named another task; empty for none."""
        return ""

    @abstractmethod
    def read(self, question: Question, say: Say) -> Images:
        """Return the images of a question, checked and split."""

    def check(self, data: Path, checker: LabelChecker | None, say: Say) -> DataCheck:
        """Return the faults in a set of images.

        ``data`` is a folder or a file. ``checker`` finds wrong labels and crops by a network's features; None to look
        for neither. ``say`` is called with a line about each step. UsageError: the path cannot be read as images of the
        task, or there are no checks for it.
        """
        raise UsageError(f"--task: there are no checks for {self.name}", "search reports images that it cannot read")

    @abstractmethod
    def model(self, card: Card, training: str, purpose: Purpose, workload: Workload) -> Stage[FloatModel]:
        """Return the stage that makes a card's float file, after the stages that train it."""

    @abstractmethod
    def score(self, scope: Scope, spec: InputSpec, source: Source, role: Role, cost_s: float) -> Stage[Path]:
        """Return the stage that runs a file over images and writes its answers."""

    def capture(self, scope: Scope, spec: InputSpec, source: Source, role: Role, cost_s: float) -> Stage[Path]:
        """Return the stage that runs a file over images under capture conditions, of a task that has them."""
        raise NotImplementedError(self.name)

    @abstractmethod
    def judge(self, question: Question) -> Judge:
        """Return what turns these answers into figures."""

    def shipping(self) -> Shipping:
        """Return the content of a bundle; a UsageError if there is none for the task."""
        raise UsageError(f"there is no bundle for {self.name}", "take the .tflite file from the run's folder artifacts")


class TaskFunctions(NamedTuple):
    """What the methods of a task do, in modules that import more than its facts need."""

    read: Callable[[Question, Say], Images]
    check: Callable[[Path, Say], DataCheck]  # no network judges the labels
    answer: Callable[..., None]  # job, see :func:`.over_images`; whether under capture conditions comes first
    answers: str  # name of the file that the job writes
    judge: Callable[[Question], Judge]
    shipping: Shipping


class OnMaps(Task):
    """A task whose networks learn from the maps of a card's backbone, in one stage."""

    learnt = "boxes"  # what they learn, in words
    version = "8"  # of their training; raised when equal images and weights give another network
    goes_on = False  # the network that ships goes on from the compared one, with more images

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

    def score(self, scope: Scope, spec: InputSpec, source: Source, role: Role, cost_s: float) -> Stage[Path]:
        """Return the stage that writes these answers."""
        from advisor.tasks._on_maps import answer_images

        return answer_images(self.functions, scope, spec, source, role, cost_s)

    def capture(self, scope: Scope, spec: InputSpec, source: Source, role: Role, cost_s: float) -> Stage[Path]:
        """Return the stage that writes these answers under the capture conditions that move nothing."""
        from advisor.tasks._on_maps import answer_images

        return answer_images(self.functions, scope, spec, source, role, cost_s, captured=True)

    @abstractmethod
    def seconds(self, card: Card, images: int, layers: float) -> float:
        """Return the rough seconds of learning from so many images, or of fine-tuning a share of the layers too."""

    @abstractmethod
    def job(self, card: Card, materials: Materials, part: Part, to: Folders, start: TrainingStart) -> Job:
        """Return the training that writes the float file; ``start`` is as of :func:`.on_maps.train`."""

    def model(self, card: Card, training: str, purpose: Purpose, workload: Workload) -> Stage[FloatModel]:
        """Return the stage that learns from the maps of the card's backbone."""
        from advisor.tasks._on_maps import train_on_maps

        return train_on_maps(card, training, purpose, workload)


class HeadOnMaps(OnMaps):
    """A task whose networks are a head on these maps, as those that find objects."""

    goes_on = True

    @property
    def trainings(self) -> tuple[str, ...]:
        """Training recipes that train heads on maps."""
        return tuple(name for name in choosable() if recipe_of(name).detects)

    @property
    @abstractmethod
    def head(self) -> HeadKind:
        """The kind of head that is trained."""

    @abstractmethod
    def labels(self, own: Any, card: Card) -> Labels:
        """Return what the head learns of an image, from what its part has of it (:attr:`.Part.objects`)."""

    def seconds(self, card: Card, images: int, layers: float) -> float:
        """Return the rough seconds of training a head on so many images, or of fine-tuning it and the backbone."""
        from advisor.engine import cost

        return cost.detector_s(card, images, layers)

    def learns_from(self, images: Sequence[tuple[Path, Any]], seed: int) -> Sequence[tuple[Path, Any]]:
        """Return the images that are learnt from, each with what its part has of it: all."""
        return images

    def job(self, card: Card, materials: Materials, part: Part, to: Folders, start: TrainingStart) -> Job:
        """Return the training of the head, or of head and backbone."""
        from advisor.tasks._on_maps import train

        images = tuple(zip(part.paths, part.objects, strict=True))
        classes = len(materials.require_images().classes)
        weights = materials.weights[card.name]
        seed = materials.question.seed
        return partial(train, card, weights, images, classes, self.name, seed, to.model, to.checkpoints, start)

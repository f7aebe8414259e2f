"""The facts of a task, which every room may read.

A task is one object of :class:`advisor.tasks.Task`, whose fields these are. Rooms below ``tasks``
ask the facts in place of the task's name, so that a new task needs no change there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from advisor.core._training import Gain, list_choosable


@dataclass(frozen=True)
class OwnCards:
    """The cards of users' own files."""

    architecture: str  # on the card of a float file that every form can be made of
    finished: str  # on the card of a file that keeps its form
    # A float file is trained on the user's images if it can be; otherwise it is judged as it is.
    trained: bool = False


@dataclass(frozen=True)
class TaskFacts:
    """The facts of a task, which every room may read.
    Its methods are in :class:`advisor.tasks.Task`.
    """

    name: str  # as users write it
    model_kind: str  # what a model of the task is, as its description begins
    metric: str  # the figure that decides, which the code calls accuracy
    by_class: str  # the figure of a single class
    by_class_is: str  # what that figure is, in words
    default: tuple[str, ...]  # training recipes of a search whose user chose none
    needs: str = ""  # the images that it needs, in words; empty for images of classes
    # When a found object counts as right, as a sentence; empty where none is found.
    right_if: str = ""
    metrics: tuple[str, ...] = ()  # names of the metrics that a question may ask for
    # Cards have published figures of the metric, so a search needs no images.
    published: bool = False
    conditions: bool = False  # models are also judged under capture conditions
    robust: bool = False  # models may be chosen by that accuracy
    # What another visit or camera cost networks of the task where it was measured, in words.
    other_conditions: str = ""
    labelled: bool = False  # images have one class each, which mixed_int8 needs
    # Files end in a linear head, which is fitted again to the features of a file of 8 bits.
    linear: bool = False
    # Compression recipes may train the weights of its files, as qat_int8 does.
    retrains: bool = False
    # Models answer with the probability of each class, which is calibrated.
    probabilities: bool = False
    guarantees: tuple[str, ...] = ()  # options that ask for what a threshold guarantees
    own_thresholds: bool = False  # each class has a threshold of its own, which keeps one share
    tunable: bool = False  # fine-tuning has hyperparameters that ``--tune-training`` varies
    # What fine-tuning gains where that was measured; None: what the recipe gains.
    gain: Gain | None = None
    side: int = 0  # side of the input in pixels; 0 for that of each card
    # % of the metric that random scores reach; 0 where that depends on the images.
    guess: float = 0.0
    # Name of the further figure of an answer that says what random scores reach on its images.
    guess_figure: str = ""
    # Rough seconds of turning the answers to one image of the hold-out into figures.
    judging_s: float = 0.0005
    # Number of cards that a search tries if the user names none:
    # the most promising ones with weights.
    cards: int = 12
    own_cards: OwnCards | None = None  # cards of users' own files; None if there are none
    # Architecture of cards of networks that learnt the whole task on other images.
    whole_networks: str = ""

    @property
    def trainings(self) -> tuple[str, ...]:
        """Training recipes that a user may choose, the lightest first."""
        return list_choosable()

    @property
    def heading(self) -> str:
        """The metric as a heading begins."""
        # A name such as mAP keeps its letters.
        if not self.metric.split()[0].islower():
            return self.metric
        return self.metric[:1].upper() + self.metric[1:]

    def recognize(self, data: Path) -> str:
        """Return what in a folder belongs to the task, in words, for users who named another task;
        empty for none.
        """
        return ""

"""Define the images, the stages and the figures that a search asks a task for.

Each task of ``advisor.tasks`` derives a class from ``SearchTask``, and a search calls the object
of its question. The methods are the contract between both: what they take and return must stay.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from advisor.core import TaskFacts, UsageError

if TYPE_CHECKING:
    from advisor.catalog import Card
    from advisor.datasets import InputSpec
    from advisor.engine._data_check import DataCheck
    from advisor.engine._growth import Growth
    from advisor.engine._label_faults import LabelChecker
    from advisor.engine._pipeline.evaluation.judge import Judge
    from advisor.engine._pipeline.images import Images, Role
    from advisor.engine._pipeline.materials import FloatModel, Purpose, Workload
    from advisor.engine._pipeline.stage import Scope, Source, Stage
    from advisor.engine._question import Question
    from advisor.engine._space.question_images import Say


@dataclass(frozen=True)
class SearchTask(TaskFacts, ABC):
    """The images, the stages and the figures of a task, for a search.

    Its module imports nothing heavy: methods import what they need.
    """

    @abstractmethod
    def read(self, question: Question, say: Say) -> Images:
        """Return the images of a question, checked and split."""

    def check(self, data: Path, checker: LabelChecker | None, say: Say) -> DataCheck:
        """Return the faults in a set of images.

        ``data`` is a folder or a file. ``checker`` finds wrong labels and crops by a network's
        features; None to look for neither. ``say`` is called with a line about each step.
        UsageError: the path cannot be read as images of the task, or there are no checks for it.
        """
        # Not abstract: a task without checks is complete,
        # and a search reports unreadable images anyway.
        raise UsageError(
            f"--task: there are no checks for {self.name}",
            "search reports images that it cannot read",
        )

    @abstractmethod
    def model(
        self,
        card: Card,
        training: str,
        purpose: Purpose,
        workload: Workload,
    ) -> Stage[FloatModel]:
        """Return the stage that makes a card's float file, after the stages that train it."""

    @abstractmethod
    def score(
        self,
        scope: Scope,
        spec: InputSpec,
        source: Source,
        role: Role,
        cost_s: float,
    ) -> Stage[Path]:
        """Return the stage that runs a file over images and writes its answers."""

    def capture(
        self,
        scope: Scope,
        spec: InputSpec,
        source: Source,
        role: Role,
        cost_s: float,
    ) -> Stage[Path]:
        """Return the stage that runs a file over images under capture conditions,
        of a task that has them.
        """
        raise NotImplementedError(self.name)

    @abstractmethod
    def judge(self, question: Question) -> Judge:
        """Return what turns these answers into figures."""

    def growth(self) -> Growth | None:
        """Return how its models learn from more images; None if ``advisor update`` refuses."""
        return None


def find_task(name: str) -> SearchTask:
    """Return the task of a name; KeyError if there is none.

    The registry below knows facts alone: tasks are above this room, and each is a
    :class:`SearchTask`. It is imported late, because it imports the tasks, whose base class is
    here.
    """
    from advisor.core import TASKS

    return cast("SearchTask", TASKS[name])

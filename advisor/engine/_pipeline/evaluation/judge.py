"""Declare what a search asks of the judge of a task, which turns answers of files into figures.

Each task has one (``SearchTask.judge``). The evaluator asks it about the validation part, the
scorer about the hold-out. A new task implements :class:`Judge` and nothing else of this folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from advisor.core import Evaluation
from advisor.engine._pipeline.evaluation.accuracy import AccuracyVerdict, Captured
from advisor.engine._pipeline.images import Images, Role

AnswersByFile = Mapping[str, Sequence[float]]
"""A value to keep for each image, by the path of the file in the run."""

HeldOut = tuple[Evaluation, AnswersByFile]
"""An evaluation with its hold-out figures, and what is to be kept for each image."""


class Scored(NamedTuple):
    """Answers on the validation part: of the file, and of the float32 file of the same card.

    ``folds`` are those of the float head on the training part, each image by a head of other
    folds; None if the file's head was not cross-validated. ``trained`` is False for a user's own
    file that is not trained here. ``notes`` are what the training of the float file that ships
    returned. ``made_here`` is False for a finished file.
    """

    answers: Path
    float_answers: Path
    folds: Path | None = None
    trained: bool = True
    notes: Any = None
    made_here: bool = True


class Judge(Protocol):
    """Turns answers of files into figures."""

    def verdict(
        self, scored: Scored, images: Images, file: str
    ) -> tuple[AccuracyVerdict, AnswersByFile]:
        """Return the accuracy on the validation part with the loss against float32,
        and the answers to keep for comparisons.

        ``file`` is the path of the answers in the run.
        """

    def held_out(
        self,
        evaluation: Evaluation,
        answers_path: Path,
        images: Images,
        file: str = "",
    ) -> HeldOut:
        """Return an evaluation with the accuracy of its file on the hold-out,
        and the answers to keep.

        ``answers_path`` holds what the file answered;
        ``file`` is the path of the answers in the run, if they are kept.
        """

    def captured(self, answers: Path, images: Images, role: Role) -> Captured:
        """Return what a file answered under capture conditions, of a task that has them."""

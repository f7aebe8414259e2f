"""Anomaly detection: whether an image shows something unusual, and where, learnt from good images alone."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.training import HEAD
from advisor.tasks.task import Answers, OnMaps

if TYPE_CHECKING:
    from advisor.catalog.cards import Card
    from advisor.engine.data_check import DataCheck, LabelChecker
    from advisor.engine.pipeline.evaluation.scorer import Judge
    from advisor.engine.pipeline.materials import Images, Materials, Part
    from advisor.engine.pipeline.stage import Job
    from advisor.engine.question import Question
    from advisor.engine.space.resolved import Say
    from advisor.exporting.shipping import Shipping


class Anomaly(OnMaps):
    """See :class:`advisor.tasks.task.Task`."""

    learnt, version = "distances", "8"

    @property
    def trainings(self) -> tuple[str, ...]:
        """The only training recipe: what is usual is learnt from the maps of a frozen backbone."""
        return (HEAD,)

    def read(self, question: Question, say: Say) -> Images:
        """Return good images to learn from, and faulty ones that judge."""
        from advisor.tasks.anomaly.images import read

        return read(question, say)

    def check(self, data: Path, checker: LabelChecker | None, say: Say) -> DataCheck:
        """Return copies, good images unlike the others, and image quality."""
        from advisor.tasks.anomaly.images import check_faults

        return check_faults(data, say)

    def seconds(self, card: Card, images: int, tuning: bool) -> float:
        """Return the seconds of the maps and of two conversions."""
        from advisor.engine.pipeline import cost

        return cost.CONVERT_S * 3 + cost.reading_s(card, images)

    def job(self, card: Card, materials: Materials, part: Part, path: Path, start: object) -> Job:
        """Return the job that learns what is usual in the good images of a part."""
        from advisor.tasks.anomaly.network import learn

        good = [row for row, label in enumerate(part.labels) if not label]
        groups = [part.groups[row] for row in good] if part.groups else good
        weights, seed = materials.weights[card.name], materials.question.seed
        return partial(learn, card, weights, [part.paths[row] for row in good], groups, seed, path)

    @property
    def answers(self) -> Answers:
        """The job that writes how unusual each place is."""
        from advisor.tasks.anomaly.files import mark

        return Answers(mark, "heats.npz")

    def judge(self, question: Question) -> Judge:
        """Return the judge by AUROC."""
        from advisor.tasks.anomaly.files import ByAuroc

        return ByAuroc(self.metric)

    def shipping(self) -> Shipping:
        """Return a bundle with maps."""
        from advisor.tasks.anomaly.files import SHIPPING

        return SHIPPING


ANOMALY = Anomaly(
    "anomaly", "Anomaly detector", "AUROC", "Found", "share of the images of a kind of fault that are found", (HEAD,),
    "images of good things", cards=4,
)  # fmt: skip

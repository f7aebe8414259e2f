"""The class behind ``CLASSIFICATION``: images, training, judge and bundle of a classifier.

Search, check and export call these methods through :class:`advisor.tasks.Task`. A classifier
learns from features in stages of the engine, so it has more methods of its own than tasks that
learn from maps (:class:`.OnMaps`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core import recipe_of
from advisor.tasks._task import Task

if TYPE_CHECKING:
    from advisor.catalog import Card, OwnFiles
    from advisor.datasets import InputSpec
    from advisor.engine import (
        DataCheck,
        FloatModel,
        Images,
        Judge,
        LabelChecker,
        Purpose,
        Question,
        Role,
        Say,
        Scope,
        Source,
        Stage,
        Workload,
        growth,
    )
    from advisor.reporting import Shipping


class Classification(Task):
    """See :class:`advisor.tasks.Task`."""

    def own_files(self) -> OwnFiles:
        """Return what is done with classifiers."""
        from advisor.tasks.classification._own import OwnClassifiers

        return OwnClassifiers()

    def read(self, question: Question, say: Say) -> Images:
        """Return the images of the classes, divided,
        with those of other things if the question names some.
        """
        from advisor.tasks.classification._images import read

        return read(question, say)

    def check(self, data: Path, checker: LabelChecker | None, say: Say) -> DataCheck:
        """Return faults of labels, copies and image quality."""
        from advisor.tasks.classification._images import check_images

        return check_images(data, checker, say)

    def model(
        self,
        card: Card,
        training: str,
        purpose: Purpose,
        workload: Workload,
    ) -> Stage[FloatModel]:
        """Return the stage that makes the card's float classifier:
        of ImageNet, or of the user's classes.
        """
        from advisor.engine import cut_stage, finetune_card, join_trained_head

        if not workload.images:
            return cut_stage(card)
        make_model = finetune_card if recipe_of(training).tunes_backbone else join_trained_head
        return make_model(card, training, purpose, workload)

    def score(
        self,
        scope: Scope,
        spec: InputSpec,
        source: Source,
        role: Role,
        cost_s: float,
    ) -> Stage[Path]:
        """Return the stage that writes the probabilities of the classes."""
        from advisor.engine import score_stage

        return score_stage(scope, spec, source, role, cost_s)

    def capture(
        self,
        scope: Scope,
        spec: InputSpec,
        source: Source,
        role: Role,
        cost_s: float,
    ) -> Stage[Path]:
        """Return the stage that writes the classes under each capture condition."""
        from advisor.engine import capture_stage

        return capture_stage(scope, spec, source, role, cost_s)

    def judge(self, question: Question) -> Judge:
        """Return the judge by the metric of the question."""
        from advisor.tasks.classification._judging import Classified

        return Classified(question)

    def growth(self) -> growth.Growth:
        """Return how classifiers learn from more images."""
        from advisor.tasks.classification._growth import ClassifierGrowth

        return ClassifierGrowth()

    def shipping(self) -> Shipping:
        """Return a bundle with probabilities, also for browsers and Core ML."""
        from advisor.tasks.classification._shipping import SHIPPING

        return SHIPPING

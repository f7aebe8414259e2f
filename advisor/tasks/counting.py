"""Object counting: a centre and a class for each object in an image. Images, checks and stages are detection's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.core.training import HEAD
from advisor.tasks.detection import Detection
from advisor.tasks.task import HeadOnMaps

if TYPE_CHECKING:
    from pathlib import Path

    from advisor.catalog.cards import Card
    from advisor.engine.pipeline.evaluation.scorer import Judge
    from advisor.engine.pipeline.materials import FloatModel, Purpose, Workload
    from advisor.engine.pipeline.stage import Stage
    from advisor.engine.question import Question
    from advisor.exporting.shipping import Shipping
    from advisor.tasks.detection.files import Criterion
    from advisor.training.on_maps.train import HeadKind


class Counting(Detection):
    """See :class:`advisor.tasks.task.Task`."""

    @property
    def head(self) -> HeadKind:
        """The kind of head that is trained."""
        from advisor.training.detection.boxes import centre_detector_head
        from advisor.training.on_maps.fit import Hyperparameters
        from advisor.training.on_maps.train import HeadKind

        return HeadKind(16, centre_detector_head, Hyperparameters(30))

    def recognized(self, data: Path) -> str:
        """Return nothing: detection is suggested for images with boxes."""
        return ""

    def model(self, card: Card, training: str, purpose: Purpose, workload: Workload) -> Stage[FloatModel]:
        """Return the stage that trains the head; the training itself moves the scores."""
        return HeadOnMaps.model(self, card, training, purpose, workload)

    @property
    def criterion(self) -> Criterion:
        """The rule by which an object counts as found: a centre inside its box."""
        from advisor.tasks.detection.files import ByCentres

        return ByCentres()

    def judge(self, question: Question) -> Judge:
        """Return the judge by centres inside boxes."""
        from advisor.tasks.detection.files import Detected

        return Detected(self.metric, self.criterion)

    def shipping(self) -> Shipping:
        """Return a bundle with a map of scores."""
        from advisor.tasks.detection.files import COUNTER

        return COUNTER


COUNTING = Counting(
    "object-counting", "Object detector", "F1", "F1", "F1 of a class's centres", (HEAD,), "images with boxes",
    "A centre is right if it is inside the true box of an object of its class that no surer one has taken.",
    side=320, cards=4, conditions=True, robust=True,
)  # fmt: skip

"""Object counting: a centre and a class for each object in an image. Images, checks and stages are detection's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.core import HEAD
from advisor.tasks._task import HeadOnMaps, TaskFunctions
from advisor.tasks.detection import Detection

if TYPE_CHECKING:
    from pathlib import Path

    from advisor.catalog import Card
    from advisor.engine import FloatModel, Purpose, Stage, Workload
    from advisor.training import HeadKind


class Counting(Detection):
    """See :class:`advisor.tasks.Task`."""

    version = "10"

    @property
    def head(self) -> HeadKind:
        """The kind of head that is trained."""
        from advisor.training import HeadKind, Hyperparameters, centre_detector_head

        return HeadKind(16, centre_detector_head, Hyperparameters(30))

    def recognized(self, data: Path) -> str:
        """Return nothing: detection is suggested for images with boxes."""
        return ""

    def model(self, card: Card, training: str, purpose: Purpose, workload: Workload) -> Stage[FloatModel]:
        """Return the stage that trains the head; the training itself moves the scores."""
        return HeadOnMaps.model(self, card, training, purpose, workload)

    @property
    def functions(self) -> TaskFunctions:
        """The functions of detection, but judged by centres inside boxes, and with a map of scores to ship."""
        from advisor.tasks.detection._files import COUNTER, ByCentres, Detected

        judge = Detected(self.metric, ByCentres())
        return super().functions._replace(judge=lambda _question: judge, shipping=COUNTER)


COUNTING = Counting(
    "object-counting",
    "Object detector",
    "F1",
    "F1",
    "F1 of a class's centres",
    (HEAD,),
    "images with boxes",
    "A centre is right if it is inside the true box of an object of its class that no surer one has taken.",
    side=320,
    cards=4,
    conditions=True,
    robust=True,
    retrains=True,
    other_conditions="on playing cards, another camera cost up to 6 points",
    judging_s=0.005,
)

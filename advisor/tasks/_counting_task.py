"""The class behind ``COUNTING``: detection whose head marks the centres of objects.

An answer is right if its centre is inside the box of an object. ``version`` is a part of the key
of trained networks in the cache: raise it when equal images and weights give another network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.tasks._task import HeadOnMaps, TaskFunctions
from advisor.tasks.detection._task import Detection

if TYPE_CHECKING:
    from pathlib import Path

    from advisor.catalog import Card
    from advisor.engine import FloatModel, Purpose, Stage, Workload, growth
    from advisor.training import HeadKind


class Counting(Detection):
    """See :class:`advisor.tasks.Task`."""

    version = "10"

    @property
    def head(self) -> HeadKind:
        """The kind of head that is trained."""
        from advisor.training import HeadKind, Hyperparameters, centre_detector_head

        return HeadKind(16, centre_detector_head, Hyperparameters(30))

    def recognize(self, data: Path) -> str:
        """Return nothing: detection is suggested for images with boxes."""
        return ""

    def growth(self) -> growth.Growth | None:
        """Return nothing: two counters are not compared by the mAP."""
        return None

    def model(
        self,
        card: Card,
        training: str,
        purpose: Purpose,
        workload: Workload,
    ) -> Stage[FloatModel]:
        """Return the stage that trains the head; the training itself moves the scores."""
        return HeadOnMaps.model(self, card, training, purpose, workload)

    @property
    def functions(self) -> TaskFunctions:
        """The functions of detection, but judged by centres inside boxes,
        and with a map of scores to ship.
        """
        from advisor.tasks.detection._judging import ByCentres, Detected
        from advisor.tasks.detection._shipping import COUNTER

        judge = Detected(self.metric, ByCentres())
        return super().functions._replace(judge=lambda _question: judge, shipping=COUNTER)

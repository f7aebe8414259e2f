"""Object counting: a centre and a class for each object in an image. Images, checks and stages are detection's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from advisor.core.training import HEAD
from advisor.tasks.detection import Detection

if TYPE_CHECKING:
    from pathlib import Path

    from advisor.engine.pipeline.evaluation.scorer import Judge
    from advisor.engine.question import Question
    from advisor.exporting.shipping import Found, ShippedModel, Shipping
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

    def judge(self, question: Question) -> Judge:
        """Return the judge by centres inside boxes."""
        from advisor.tasks.detection.files import ByCentres, Detected

        return Detected(ByCentres(self.metric))

    def shipping(self) -> Shipping:
        """Return a bundle with a map of scores."""
        from advisor.tasks.detection.files import COUNTER

        return COUNTER

    def found(self, outputs: Sequence[Any], model: ShippedModel) -> tuple[Found, ...]:
        """Return the centres that the app shows."""
        from advisor.tasks.detection.files import counted

        return counted(outputs, model)


COUNTING = Counting(
    "object-counting", "Object detector", "F1", "F1", "F1 of a class's centres", (HEAD,), "images with boxes",
    "A centre is right if it is inside the true box of an object of its class that no surer one has taken.",
    side=320, cards=4,
)  # fmt: skip

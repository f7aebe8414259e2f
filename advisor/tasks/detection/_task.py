"""The class behind ``DETECTION``: which images, training, judge and bundle a detector has.

Search, check and export call these methods through :class:`advisor.tasks.Task`. ``version`` is a
part of the key of trained networks in the cache: raise it when equal images and weights give
another network. ``detections.npz`` is a file in the cache. ``Counting`` inherits this class.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core import METRICS
from advisor.tasks._task import HeadOnMaps, TaskFunctions

if TYPE_CHECKING:
    from advisor.catalog import Card, OwnFiles
    from advisor.engine import FloatModel, Purpose, Question, Stage, Workload, growth
    from advisor.training import HeadKind, Labels


class Detection(HeadOnMaps):
    """See :class:`advisor.tasks.Task`."""

    version = "12"

    def own_files(self) -> OwnFiles:
        """Return what is done with detectors."""
        from advisor.tasks.detection._own import OwnDetectors

        return OwnDetectors()

    @property
    def head(self) -> HeadKind:
        """The kind of head that is trained on a backbone."""
        from advisor.training import detector_head

        return detector_head(whole=False)

    def head_of(self, card: Card) -> HeadKind:
        """Return the kind of head that is trained on a card."""
        from advisor.training import detector_head

        return detector_head(whole=True) if card.whole else self.head

    def labels(self, own: Any, card: Card) -> Labels:
        """Return the objects in an image."""
        from advisor.training import objects_of

        return objects_of(own)

    def recognize(self, data: Path) -> str:
        """Return the formats of boxes in a folder."""
        from advisor.datasets import formats_of

        formats = formats_of(data) if data.is_dir() else {}
        return f"boxes, {' and '.join(formats)}" if formats else ""

    def growth(self) -> growth.Growth | None:
        """Return how detectors learn from more images."""
        from advisor.tasks.detection._growth import DetectorGrowth

        return DetectorGrowth()

    def model(
        self,
        card: Card,
        training: str,
        purpose: Purpose,
        workload: Workload,
    ) -> Stage[FloatModel]:
        """Return the stage that trains the head on the card's backbone,
        or takes a user's own detector as it is.

        The scores of the file that ships are calibrated.
        """
        from advisor.engine import Purpose
        from advisor.tasks._own_file import take_own_file
        from advisor.tasks.detection._stages import calibrate_detector
        from advisor.tflite import with_named_outputs

        if card.is_finished:
            return take_own_file(card, with_named_outputs)
        made = super().model(card, training, purpose, workload)
        return (
            calibrate_detector(card, training, workload, made) if purpose is Purpose.SHIP else made
        )

    @property
    def functions(self) -> TaskFunctions:
        """The functions for images in which boxes have classes, judged by boxes that overlap."""
        from advisor.tasks.detection import _images as images, _judging as judging
        from advisor.tasks.detection._jobs import detect
        from advisor.tasks.detection._shipping import SHIPPING

        def judge(question: Question) -> judging.Detected:
            name = question.metric if question.metric in self.metrics else ""
            label = METRICS[name].label if name else self.metric
            drops = tuple(dict(question.limits.max_metric_drops))
            return judging.Detected(label, judging.ByBoxes(name), question.guarantees, drops)

        return TaskFunctions(
            read=images.read,
            check=images.check_detection,
            answer=detect,
            answers="detections.npz",
            judge=judge,
            shipping=SHIPPING,
        )

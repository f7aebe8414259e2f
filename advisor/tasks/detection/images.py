"""Read images in which boxes have classes."""

from __future__ import annotations

from dataclasses import replace

from advisor.datasets.boxes.reading import survey_boxes
from advisor.datasets.division import divide_boxes
from advisor.engine.pipeline.images import Boxes, Images
from advisor.engine.question import Question
from advisor.engine.space.images import Say, divided
from advisor.measurement.average_precision import require_coco


def read(question: Question, say: Say) -> Images:
    """Return images in which boxes have classes.

    Raises:
        UsageError: the images cannot be used, or the package that computes average precision is not installed.
    """
    require_coco()
    read = survey_boxes(question.require_data())
    division, _, notes = divide_boxes(read, question.seed)
    images = divided(read.images.dataset, division, notes, say)
    return replace(images, boxes=Boxes(read.classes, read.objects, read.sizes))

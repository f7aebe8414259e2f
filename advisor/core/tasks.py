"""The tasks of a search, as facts: what a model of the task is judged by, and which recipes train it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from advisor.core.training import DEFAULT, HEAD, choosable, recipe_of

IMAGE_CLASSIFICATION, OBJECT_DETECTION = "image-classification", "object-detection"
OBJECT_COUNTING = "object-counting"


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: as users write it.
        metric: the figure that decides, which the code calls accuracy.
        by_class: the figure of a single class.
        by_class_is: what that figure is, in words.
        right_if: when a found object counts as right, as a sentence; empty where none is found.
        default: training recipes of a search whose user chose none.
        published: cards have published figures of the metric, so a search needs no images.
        conditions: models are also judged under capture conditions and for new conditions.
        labelled: recipes may learn from labelled images and score them, as mixed_int8 and qat_int8 do.
        probabilities: models answer with the probability of each class, which is calibrated.
        tunable: fine-tuning has hyperparameters that ``--tune-training`` varies.
        side: side of the input in pixels; 0 for that of each card.
        cards: number of cards that a search tries if the user names none: the most promising ones with weights. A
            detector trains for minutes, a head of a classifier for seconds.
    """

    name: str
    metric: str
    by_class: str
    by_class_is: str
    default: tuple[str, ...]
    right_if: str = ""
    published: bool = True
    conditions: bool = True
    labelled: bool = True
    probabilities: bool = True
    tunable: bool = True
    side: int = 0
    cards: int = 12

    @property
    def trainings(self) -> tuple[str, ...]:
        """Training recipes that a user may choose: of a task that finds objects, those that train detectors."""
        return tuple(name for name in choosable() if recipe_of(name).detects or not self.right_if)

    @property
    def heading(self) -> str:
        """The metric as a heading begins."""
        return self.metric[:1].upper() + self.metric[1:] if self.metric.split()[0].islower() else self.metric


CLASSIFICATION = Task(
    IMAGE_CLASSIFICATION, "top-1", "Recall", "share of a class's images that were recognised", DEFAULT
)
DETECTION = Task(
    OBJECT_DETECTION, "mAP@0.5", "AP@0.5", "average precision of a class's boxes at an overlap of 0.5",
    (HEAD,), "A box is right if it overlaps a true one of its class by half.",
    published=False, conditions=False, labelled=False, probabilities=False, tunable=False, side=320, cards=4,
)  # fmt: skip
COUNTING = replace(
    DETECTION, name=OBJECT_COUNTING, metric="F1", by_class="F1", by_class_is="F1 of a class's centres",
    right_if="A centre is right if it is inside the true box of an object of its class that no surer one has taken.",
)  # fmt: skip

TASKS: Mapping[str, Task] = MappingProxyType({task.name: task for task in (CLASSIFICATION, DETECTION, COUNTING)})
"""Every task by its name. On the validation part of BCCD, MobileNetV2 reaches an mAP@0.5 of 88.8 % at 320 pixels and of
84.4 % at 224, where the smallest objects have 14 pixels."""

"""The user's images in numbers, from the documents of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from advisor.datasets.split import PARTS, VALIDATION


@dataclass(frozen=True)
class DatasetSummary:
    """The user's images in numbers.

    Attributes:
        folder: where they were read from.
        images_per_class: class name to its number of usable images, in label order.
        train: images that candidates were trained on for the comparison.
        validation: images that candidates were compared on.
        holdout: images that finalists were tested on.
        rejected: ``path`` and ``reason`` of each file that is not used.
        own_split: the parts that the user's own split names.
        leaks: images and groups that this split puts into several parts.
        validated_per_class: class name to its number of validation images, 0 where it has none; empty if not known.
        groups_per_class: class name to its number of groups of images; empty if the images do not come in groups.
        notes: sentences about the split that a reader may not expect.
        boxes_per_class: class name to its number of boxes, in label order; empty where images themselves have classes.
    """

    folder: str
    images_per_class: Mapping[str, int]
    train: int
    validation: int
    holdout: int
    rejected: tuple[Mapping[str, str], ...] = ()
    own_split: tuple[str, ...] = ()
    leaks: int = 0
    validated_per_class: Mapping[str, int] = field(default_factory=dict)
    groups_per_class: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    boxes_per_class: Mapping[str, int] = field(default_factory=dict)

    @property
    def per_class(self) -> Mapping[str, int]:
        """Class name to its number of boxes, or of images where there are no boxes."""
        return self.boxes_per_class or self.images_per_class

    @property
    def counted(self) -> str:
        """The images, and the boxes if there are any, in numbers."""
        boxes = f", {sum(self.boxes_per_class.values()):,} boxes" if self.boxes_per_class else ""
        return f"{self.images}{boxes}"

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in label order."""
        return tuple(self.per_class)

    @property
    def images(self) -> int:
        """Number of usable images."""
        return sum(self.images_per_class.values())

    @property
    def leaking(self) -> str:
        """A warning about a split that leaks, empty where it does not."""
        if not self.leaks:
            return ""
        what = "1 image or group is" if self.leaks == 1 else f"{self.leaks} images or groups are"
        return f"{what} in several parts of your own split, so the accuracies are too high: see dataset.json."


def summary_of(document: Mapping[str, Any], split: Mapping[str, Any]) -> DatasetSummary | None:
    """Return the images of a run in numbers; None if it has none, or if ``dataset.json`` is damaged.

    Args:
        document: content of the run's ``dataset.json``.
        split: content of its ``split.json``.
    """
    try:
        return DatasetSummary(
            folder=document["folder"],
            images_per_class=document["pictures_per_class"],
            train=document["train"],
            validation=document["validation"],
            holdout=document["holdout"],
            rejected=tuple({"path": row["path"], "reason": row["reason"]} for row in document["rejected"]),
            own_split=tuple(document["own_split"]),
            leaks=len(document["leaks"]),
            validated_per_class=_validated(split, document["pictures_per_class"]),
            groups_per_class=_groups(split),
            notes=tuple(map(str, document.get("notes") or ())),
            boxes_per_class=dict(document.get("boxes_per_class") or {}),
        )
    except (KeyError, TypeError):
        return None


def _validated(split: Mapping[str, Any], classes: Iterable[str]) -> dict[str, int]:
    """Return the validation images of each class; nothing where the split is missing or damaged."""
    try:
        counts = Counter(str(row["class"]) for row in split[VALIDATION])
    except (KeyError, TypeError):
        return {}
    return {name: counts[name] for name in classes}


def _groups(split: Mapping[str, Any]) -> dict[str, int]:
    """Return the groups of each class; nothing where the images have none, or the split is missing or damaged."""
    try:
        rows = {(str(row["class"]), row["group"]) for part in PARTS for row in split[part]}
        return Counter(name for name, _ in rows)
    except (KeyError, TypeError):
        return {}

"""Tasks of another package: masks and boxes of small images in few steps, so that a whole search takes seconds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from advisor.tasks.detection import DETECTION, Detection
from advisor.tasks.segmentation import SEGMENTATION, Segmentation

if TYPE_CHECKING:
    from advisor.training import HeadKind


class SmallMasks(Segmentation):
    @property
    def head(self) -> HeadKind:
        kind = super().head
        return replace(kind, hyperparameters=replace(kind.hyperparameters, epochs=1, averaging=0.9, least_steps=8))


SMALL_MASKS = SmallMasks(**{**vars(SEGMENTATION), "name": "small-masks", "side": 64})


class SmallBoxes(Detection):
    @property
    def head(self) -> HeadKind:
        kind = super().head
        few_steps = replace(kind.hyperparameters, epochs=6, batch=8, learning_rate=2e-2, averaging=0.9)
        return replace(kind, hyperparameters=few_steps)


SMALL_BOXES = SmallBoxes(**{**vars(DETECTION), "name": "small-boxes", "side": 96})

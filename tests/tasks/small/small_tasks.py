"""A task of another package: segmentation of small images in few steps, so that a whole search takes seconds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from advisor.tasks.segmentation import SEGMENTATION, Segmentation

if TYPE_CHECKING:
    from advisor.training import HeadKind


class SmallMasks(Segmentation):
    @property
    def head(self) -> HeadKind:
        kind = super().head
        return replace(kind, hyperparameters=replace(kind.hyperparameters, epochs=1, averaging=0.9, least_steps=8))


SMALL_MASKS = SmallMasks(**{**vars(SEGMENTATION), "name": "small-masks", "side": 64})

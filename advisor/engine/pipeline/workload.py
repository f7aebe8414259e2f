"""Say how much work a search asks for: enough to build its stage graph and to price it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.core.training import FINETUNED, HEAD_SUBSET
from advisor.engine.pipeline.images import CAPTURED_IMAGES, SUBSET_IMAGES, Role

Variant = tuple[str, str]
"""A training recipe and a compression recipe: of one card, one artefact."""


@dataclass(frozen=True)
class Workload:
    """What is done for each card.

    Attributes:
        trainings: training recipes, the lightest first.
        recipes: names of compression recipes.
        images: number of images by role; empty without images.
        robust: candidates are compared under capture conditions too.
        trials: trials of the hyperparameters of each fine-tuning; 0 for none.
    """

    trainings: tuple[str, ...]
    recipes: tuple[str, ...]
    images: Mapping[Role, int] = field(default_factory=dict)
    robust: bool = False
    trials: int = 0

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Every training with every compression."""
        return tuple((training, recipe) for training in self.trainings for recipe in self.recipes_of(training))

    def recipes_of(self, training: str) -> tuple[str, ...]:
        """Return the compression recipes of a training; a first look takes float32 alone."""
        return ("float32",) if training == HEAD_SUBSET else self.recipes

    def judged(self, training: str) -> bool:
        """Return whether a model of this training may be a finalist; a first look is none."""
        return bool(self.images.get(Role.HOLDOUT)) and training != HEAD_SUBSET

    def trained_twice(self, training: str) -> bool:
        """Return whether the model that ships is another than the one that is compared."""
        return bool(self.images) and (training == "head" or training in FINETUNED)


def image_counts(learnt: int, validation: int, holdout: int, subset: int = SUBSET_IMAGES) -> dict[Role, int]:
    """Return the number of images by role; none without images to learn from.

    Args:
        learnt: images to learn from, validation included.
        validation: images to compare candidates on.
        holdout: images to judge finalists on.
        subset: images of a first look, at most.
    """
    if not learnt:
        return {}
    return {
        Role.TRAIN: learnt - validation,
        Role.VALIDATION: validation,
        Role.LEARNT: learnt,
        Role.SUBSET: min(subset, learnt - validation),
        Role.HOLDOUT: holdout,
        Role.CAPTURED: min(holdout, CAPTURED_IMAGES),
    }

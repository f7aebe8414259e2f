"""The stages from a card to an artefact, each done once a search and kept for the next one.

Every stage is a function of its inputs, and the hash of ALL of them is its key in the artifact cache: weights,
pictures, recipe and its version, tool versions. A search costs the sum of its stages, never the product of choices.
"""

from __future__ import annotations

from collections.abc import Mapping

from advisor.catalog.cards import Card
from advisor.catalog.weights.file import WeightsFile
from advisor.compression.recipes import recipe as find_recipe
from advisor.compression.recipes.base import Rung
from advisor.core.training import FINETUNED, HEAD_SUBSET
from advisor.engine.pipeline.context import Purpose
from advisor.engine.pipeline.cost import Variant
from advisor.engine.pipeline.stages.backbone import Backbones
from advisor.engine.pipeline.stages.compress import Artefact, Compression
from advisor.engine.pipeline.stages.finetune import Tuning
from advisor.engine.pipeline.stages.head import Heads
from advisor.engine.pipeline.stages.runner import WORK_LIMITS, Form, StageRunner
from advisor.engine.pipeline.stages.score import Scores
from advisor.tflite.metadata import Metadata

__all__ = ["WORK_LIMITS", "Artefact", "Form", "StageRunner", "Stages"]


class Stages:
    """The stages of one search.

    Args:
        keeper: runs them.
        weights: weights file of each card by name; None for fixed-seed random weights.
    """

    def __init__(self, keeper: StageRunner, weights: Mapping[str, WeightsFile | None]) -> None:
        self._keeper = keeper
        self.backbones = Backbones(keeper, weights)
        self.heads = Heads(keeper, self.backbones)
        self.tuning = Tuning(keeper, self.backbones)
        self.compression = Compression(keeper)
        self.scores = Scores(keeper)

    @property
    def spent(self) -> Mapping[str, float]:
        """Seconds of core time by stage, without what came from the cache."""
        return self._keeper.spent

    async def float_form(self, card: Card, training: str, purpose: Purpose) -> Form:
        """The card's float classifier: of ImageNet, or of the user's classes, trained on their pictures."""
        images = self._keeper.context.images
        if images is None:
            return await self.backbones.classifier(card)
        if training == HEAD_SUBSET:
            return await self.heads.first_look(card, images)
        if training in FINETUNED:
            return await self.tuning.tuned(card, training, images, purpose)
        return await self.heads.joined(card, images, purpose)

    async def artefact(
        self, card: Card, variant: Variant, recipe_version: int | str, metadata: Metadata, purpose: Purpose
    ) -> Artefact:
        """Compress the card's float classifier and write labels and normalisation into the file."""
        training, recipe = variant
        form = await self.float_form(card, training, purpose)
        stands_in = self._keeper.context.images is None and not self.backbones.weights_of(card)
        decided = None
        if purpose is Purpose.SHIP and self._keeper.context.images and find_recipe(recipe).rung is Rung.SCORED:
            decided = (await self.artefact(card, variant, recipe_version, metadata, Purpose.COMPARE)).notes
        return await self.compression.artefact(
            card, form, recipe, recipe_version, metadata, stands_in, purpose, decided
        )

"""A variant of a card, one training and one compression: its file, and how accurate that is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from advisor.catalog.cards import Card
from advisor.catalog.labels import published_labels
from advisor.compression.recipes import Recipe
from advisor.core.evaluation_facts import CardFacts, Normalisation
from advisor.core.training import HEAD, HEAD_SUBSET
from advisor.engine.pipeline import accuracy
from advisor.engine.pipeline.accuracy import Captured, Verdict
from advisor.engine.pipeline.context import Context, Images, Part, Purpose
from advisor.engine.pipeline.cost import Variant
from advisor.engine.pipeline.stages import Artefact, Stages
from advisor.store import RunFolder
from advisor.tflite.metadata import Metadata


class Variants:
    """The variants of the cards of a search.

    Args:
        context: the search.
        stages: from card to artefact, and its answers.
        recipes: compression recipes by name.
        run: takes the answers.
    """

    def __init__(self, context: Context, stages: Stages, recipes: Mapping[str, Recipe], run: RunFolder) -> None:
        self._context, self._stages, self._recipes, self._run = context, stages, recipes, run

    async def artefact(self, card: Card, variant: Variant, purpose: Purpose) -> Artefact:
        """Return its file, fitted for the purpose."""
        metadata = metadata_of(card, self._context.images, variant[0])
        return await self._stages.artefact(card, variant, self._recipes[variant[1]].version, metadata, purpose)

    async def verdict(self, card: Card, variant: Variant, artefact: Artefact) -> Verdict:
        """Return how accurate it is: measured on the validation part, without pictures what was published of it."""
        images, (training, recipe) = self._context.images, variant
        if images is None:
            reference = await self.artefact(card, (training, "float32"), Purpose.SHIP)
            return await self._published(card, recipe, artefact, reference)
        validation, name = images.validation, f"{card.name}-{training}-{recipe}"
        own, floats = await asyncio.gather(
            self._answers(card, variant, validation), self._answers(card, (training, "float32"), validation)
        )
        verdict = accuracy.measured(own, floats, validation.labels, images.classes)
        if not self._context.question.robust:
            return replace(verdict, answers=replace(verdict.answers, file=self._run.keep_answers(name, own)))
        labels, float_labels = await asyncio.gather(
            self._captured(card, variant), self._captured(card, (training, "float32"))
        )
        chosen = accuracy.robust(labels, float_labels, validation.labels)
        kept = replace(verdict.answers, file=self._run.keep_answers(name, labels))
        return replace(chosen, answers=kept, capture=replace(chosen.capture, plain=verdict.accuracy))

    async def _published(self, card: Card, recipe: str, artefact: Artefact, reference: Artefact) -> Verdict:
        if not self._stages.backbones.weights_of(card):
            return accuracy.quoted(card, recipe)
        scores = self._stages.scores
        own, floats = await asyncio.gather(scores.answers(card, artefact), scores.answers(card, reference))
        return accuracy.published(card, recipe, own, floats)

    async def _answers(self, card: Card, variant: Variant, part: Part) -> tuple[int, ...]:
        """Return what a variant answers on pictures that it has not learnt from."""
        artefact = await self.artefact(card, variant, Purpose.COMPARE)
        return accuracy.read_answers(await self._stages.scores.probabilities(card, artefact, part))

    async def _captured(self, card: Card, variant: Variant) -> Captured:
        """Return what a variant answers on the validation part under each capture condition."""
        images = self._context.images
        assert images is not None, "this is asked for with pictures only"
        artefact = await self.artefact(card, variant, Purpose.COMPARE)
        return accuracy.read_labels(await self._stages.scores.captured(card, artefact, images.validation))


def metadata_of(card: Card, images: Images | None, training: str) -> Metadata:
    """Return what is written into each file of the card: labels, normalisation, licence."""
    labels = images.classes if images else published_labels(card)
    data = "ImageNet"
    if images:
        learnt = {HEAD: images.learnt, HEAD_SUBSET: images.subset}.get(training, images.train)
        data = f"retrained ({training}) on {len(learnt.paths)} pictures of {len(labels)} classes"
    return Metadata(
        name=card.name,
        description=f"Image classifier {card.name}, {data}; made by advisor",
        labels=labels,
        mean=card.preprocessing.mean,
        std=card.preprocessing.std,
        licence=card.licence,
    )


def card_facts(card: Card, weights: str) -> CardFacts:
    """Return what an evaluation keeps of its card.

    Args:
        card: the model card.
        weights: source of the weights, empty where there are none.
    """
    normalisation = Normalisation(card.preprocessing.mean, card.preprocessing.std)
    return CardFacts(card.params, card.macs, card.licence, card.input_size, normalisation, weights)

"""What earlier searches have done already, found by asking for every stage without doing any."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from advisor.catalog.cards import Card
from advisor.catalog.weights import WeightsFile
from advisor.compression.recipes import Recipe
from advisor.core.errors import UnsupportedRecipe
from advisor.core.quantity import Quantity
from advisor.core.training import FINETUNED, HEAD_SUBSET
from advisor.engine.execution.machine import Machine
from advisor.engine.pipeline.context import Context, Images, Purpose, trainings_of
from advisor.engine.pipeline.cost import HELD_OUT, PHONES, Stage, Variant
from advisor.engine.pipeline.stages import Artefact, StageRunner, Stages
from advisor.engine.pipeline.timing import Timer, effort_for
from advisor.engine.pipeline.variants import metadata_of
from advisor.engine.question import Question
from advisor.isolation import ChildPool
from advisor.isolation.coroutine import run_coroutine
from advisor.store import ArtifactCache


@dataclass
class Known:
    """What is known of one card.

    Attributes:
        done: stages whose results are kept.
        latency_p90: 90th percentile, measured on this machine, by recipe and thread count.
        latency: median, likewise.
        size_bytes: size of the artefact by recipe.
    """

    done: set[Stage] = field(default_factory=set)
    latency_p90: dict[tuple[str, int], Quantity] = field(default_factory=dict)
    latency: dict[tuple[str, int], Quantity] = field(default_factory=dict)
    size_bytes: dict[str, int] = field(default_factory=dict)


def what_is_known(
    question: Question,
    cards: Mapping[str, Card],
    weights: Mapping[str, WeightsFile],
    recipes: Mapping[str, Recipe],
    images: Images | None,
    remeasure: bool,
) -> dict[str, Known]:
    """Look every stage of the cards up in the artifact cache; nothing is done, and nothing is written.

    Args:
        question: the question.
        cards: the cards by name.
        weights: weights that are on this machine, by card; of other cards nothing is known.
        recipes: compression recipes by name.
        images: the user's pictures, or None.
        remeasure: timings will be measured again, so they count as not done.
    """
    effort = effort_for(len(cards) * len(recipes) * len(question.thread_counts))
    context = Context(question, images, ArtifactCache(), Machine(1), ChildPool(), ChildPool(), lambda *_: None, effort)
    found = {name: Known() for name in cards}

    async def look() -> None:
        lookup = Stages(_Finder(context, dict.fromkeys(weights, 0)), weights)
        for name in weights:
            await _Look(context, lookup, cards[name], found[name]).at(recipes)

    if weights:
        run_coroutine(look())
    if remeasure:
        for known in found.values():
            known.done = {stage for stage in known.done if stage[0] != "timing"}
    return found


class _NotDone(Exception):
    """A stage whose result is not kept."""


class _Finder(StageRunner):
    """Finds results and makes none."""

    def has(self, stage: str, inputs: Mapping[str, Any]) -> bool:
        """Return True: what is not kept ends the question.

        Raises:
            _NotDone: it is not there.
        """
        if not super().has(stage, inputs):
            raise _NotDone
        return True


class _LookupTimer(Timer):
    """A timer that finds timings and takes none."""

    def _run(self, artefact: Artefact) -> dict[str, Any]:
        raise _NotDone


@dataclass(frozen=True)
class _Look:
    """Asks for every stage of one card."""

    context: Context
    stages: Stages
    card: Card
    known: Known

    async def at(self, recipes: Mapping[str, Recipe]) -> None:
        """Note what is kept."""
        card, images, backbones = self.card, self.context.images, self.stages.backbones
        shared: list[tuple[str, Callable[[], Awaitable[Any]]]] = [("convert", lambda: backbones.master(card))]
        if images is None:
            shared.append(("cut", lambda: backbones.classifier(card)))
        else:
            shared.append(("cut", lambda: backbones.backbone(card)))
            shared.append(("features", lambda: backbones.features(card, images.learnt)))
        if not await self._all("", shared):
            return
        for training in trainings_of(self.context.question, self.context.images):
            if await self._all(training, self._training(training)):
                for recipe in recipes.values():
                    if training != HEAD_SUBSET or recipe.name == "float32":
                        await self._recipe(training, recipe)

    async def _all(self, training: str, stages: Iterable[tuple[str, Callable[[], Awaitable[Any]]]]) -> bool:
        """Note the stages that are kept, up to the first that is not; True where all are."""
        for stage, ask in stages:
            if not await _found(ask()):
                return False
            self.known.done.add((stage, training, ""))
        return True

    def _training(self, training: str) -> list[tuple[str, Callable[[], Awaitable[Any]]]]:
        card, images, heads = self.card, self.context.images, self.stages.heads
        if images is None:
            return []
        if training in FINETUNED:
            tuning = self.stages.tuning
            both = [partial(tuning.tuned, card, training, images, purpose) for purpose in Purpose]
            return [(training, lambda: asyncio.gather(*(ask() for ask in both)))]
        if training == HEAD_SUBSET:
            return [(training, lambda: heads.first_look(card, images))]
        return [
            ("head", lambda: heads.head(card, images, Purpose.COMPARE)),
            ("refit", lambda: heads.head(card, images, Purpose.SHIP)),
            ("join", lambda: asyncio.gather(*(heads.joined(card, images, purpose) for purpose in Purpose))),
        ]

    async def _recipe(self, training: str, recipe: Recipe) -> None:
        card, images, scores = self.card, self.context.images, self.stages.scores
        variant, metadata = (training, recipe.name), metadata_of(card, images, training)
        try:
            artefact, compared = await asyncio.gather(
                self.stages.artefact(card, variant, recipe.version, metadata, Purpose.SHIP),
                self.stages.artefact(card, variant, recipe.version, metadata, Purpose.COMPARE),
            )
        except _NotDone:
            return
        self.known.done.add(("compress", *variant))
        self.known.size_bytes.setdefault(recipe.name, artefact.size_bytes)
        if images is None:
            stage, scored = "answers", _found(scores.answers(card, artefact))
        else:
            stage, scored = "score", _found(scores.probabilities(card, compared, images.validation))
        if await scored:
            self.known.done.add((stage, *variant))
            # The search that scored it has judged its finalists, which nearly all forms are.
            self.known.done |= {(HELD_OUT, *variant), (PHONES, training, "")}
        await self._timing(variant, artefact)

    async def _timing(self, variant: Variant, artefact: Artefact) -> None:
        timer, known, recipe = _LookupTimer(self.context, self.context.effort), self.known, variant[1]
        try:
            for threads in self.context.question.thread_counts:
                timing = await timer.measure(artefact, threads, 0, self.card.name, recipe)
                if timing.latency is not None and timing.latency_p90 is not None:
                    known.latency.setdefault((recipe, threads), timing.latency)
                    known.latency_p90.setdefault((recipe, threads), timing.latency_p90)
        except _NotDone:
            return
        known.done.add(("timing", *variant))


async def _found(result: Awaitable[Any]) -> bool:
    try:
        await result
    except (_NotDone, UnsupportedRecipe):
        return False
    return True

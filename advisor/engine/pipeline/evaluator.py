"""From a configuration to its evaluation: the way that every candidate goes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from advisor.catalog.cards import Card
from advisor.compression.recipes import Recipe
from advisor.compression.recipes.escalation import Escalation, Outcome
from advisor.core.details_json import file_from_json
from advisor.core.errors import AdvisorError
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.core.quantity import Provenance, Quantity
from advisor.core.training import FINETUNED
from advisor.core.units import show_ms
from advisor.engine.pipeline.context import Context, Purpose
from advisor.engine.pipeline.cost import Variant
from advisor.engine.pipeline.errors import StageAborted, at
from advisor.engine.pipeline.holdout import Judge
from advisor.engine.pipeline.stages import Artefact, Stages
from advisor.engine.pipeline.timing import ThreadTiming, Timer
from advisor.engine.pipeline.variants import Variants, card_facts
from advisor.store import RunFolder

SCREEN_MARGIN = 6.0
"""Largest ratio of the float backbone's time (every core at work) to the budget at which a card is trained: int8 was
measured up to 2.3 times faster than float with LiteRT 2.3 on x86 (MobileNetV2), so this lets nothing good go."""


class Evaluator:
    """Evaluates configurations; what they share is done once.

    Args:
        context: the search.
        stages: from card to artefact.
        cards: by name.
        recipes: compression recipes by name.
        run: takes the artefacts.
        order: card name to its place in the queue for cores.
    """

    def __init__(
        self,
        context: Context,
        stages: Stages,
        cards: Mapping[str, Card],
        recipes: Mapping[str, Recipe],
        run: RunFolder,
        order: Mapping[str, int],
    ) -> None:
        self._context, self._stages, self._timer = context, stages, Timer(context, context.effort)
        self._thorough = Timer(context)
        self._cards, self._recipes, self._run, self._order = cards, recipes, run, order
        self._variants = Variants(context, stages, recipes, run)
        self.screening = True
        self.judge = Judge(context, stages, cards, run)
        self.timing = True

    @property
    def spent(self) -> dict[str, float]:
        """Seconds of core or machine time by stage, without what came from the cache."""
        timing = sum(timer.spent.get("timing", 0.0) for timer in (self._timer, self._thorough))
        return {**self._stages.spent, **({"timing": timing} if timing else {})}

    async def evaluate(self, configuration: Configuration) -> Evaluation:
        """Return the evaluation; whatever goes wrong with this candidate is in it, never raised."""
        card = self._cards[configuration.card]
        try:
            return await self._evaluate(configuration, card)
        except StageAborted as end:
            return Evaluation(configuration, end.status, card.family, end.reason, end.stage)

    async def _evaluate(self, configuration: Configuration, card: Card) -> Evaluation:
        await self._screen(card)
        variant = (configuration.training, configuration.compression)
        if configuration.training in FINETUNED:
            await at("train", self._stages.float_form(card, configuration.training, Purpose.SHIP))
        await self._climb(card, variant)
        threads, recipe = configuration.target.threads, configuration.compression
        artefact = await at("compress", self._variants.artefact(card, variant, Purpose.SHIP), recipe)
        verdict = await at("score", self._variants.verdict(card, variant, artefact), recipe)
        place = self._order[card.name]
        measuring = self._timer.measure(artefact, threads, place, card.name, recipe) if self.timing else _untimed()
        timing = await at("measure", measuring, recipe)
        kept = self._run.keep_artefact(
            artefact.path, f"{card.name}-{configuration.training}-{configuration.compression}.tflite"
        )
        return Evaluation(
            configuration=configuration,
            status=Status.OK,
            family=card.family,
            accuracy=verdict.accuracy,
            latency=timing.latency,
            latency_p90=timing.latency_p90,
            size=Quantity(float(artefact.size_bytes), "bytes", Provenance.MEASURED, source="size of the file"),
            memory=timing.memory,
            drop=verdict.drop,
            contended=timing.contended,
            artefact=str(kept.relative_to(self._run.path)),
            artefact_sha256=artefact.sha256,
            card_facts=card_facts(card, self._stages.backbones.weights_of(card)),
            file_facts=replace(file_from_json(artefact.figures), recipe_notes=artefact.notes),
            timing=timing.facts,
            answers=verdict.answers,
            agreement=verdict.agreement,
            capture=verdict.capture,
        )

    async def _screen(self, card: Card) -> None:
        """End the evaluation where the card cannot meet the latency budget: seconds here, minutes of training saved."""
        if not self.screening or not self.timing or self._context.images is None:
            return
        limit = self._context.question.limits.latency_ms
        if limit is None:
            return
        least_ms = await at("convert", self._stages.backbones.screen(card))
        best = least_ms / max(self._context.question.thread_counts)
        if best > SCREEN_MARGIN * limit:
            reason = (
                f"its float backbone takes {show_ms(least_ms)} of CPU time an image, over {SCREEN_MARGIN:.0f} times "
                f"the budget {show_ms(limit)} with every thread at work: not trained"
            )
            raise StageAborted(Status.SKIPPED, "screen", reason)

    async def _climb(self, card: Card, variant: Variant) -> None:
        """End the evaluation where lighter recipes leave nothing to gain on the card."""
        question, (training, recipe) = self._context.question, variant
        ladder = Escalation(self._recipes, question.limits.max_drop_points, frozenset(question.compressions))
        waited = ladder.waits_for(recipe)
        outcomes = await asyncio.gather(*(self._outcome(card, (training, before)) for before in waited))
        if objection := ladder.objection(recipe, dict(zip(waited, outcomes, strict=True))):
            raise StageAborted(Status.SKIPPED, "compress", objection)

    async def _outcome(self, card: Card, variant: Variant) -> Outcome:
        try:
            await self._climb(card, variant)
            artefact = await self._variants.artefact(card, variant, Purpose.SHIP)
            verdict = await self._variants.verdict(card, variant, artefact)
        except (AdvisorError, StageAborted):
            return Outcome(None, ok=False)
        return Outcome(verdict.drop.value if verdict.drop else None)

    async def time_again(self, evaluation: Evaluation) -> Evaluation:
        """Return a finalist that was timed briefly with a timing as long as the answer needs.

        Raises:
            AdvisorError: it cannot be timed now.
        """
        configuration, path = evaluation.configuration, self._run.path / evaluation.artefact
        artefact = Artefact(path, evaluation.artefact_sha256, path.stat().st_size, {})
        threads, recipe = configuration.target.threads, configuration.compression
        timing = await self._thorough.measure(artefact, threads, 0.0, configuration.card, recipe)
        return replace(
            evaluation,
            latency=timing.latency,
            latency_p90=timing.latency_p90,
            memory=timing.memory,
            contended=timing.contended,
            timing=timing.facts,
        )


async def _untimed() -> ThreadTiming:
    """What is known of a latency on this machine where nobody asked for it."""
    return ThreadTiming(None, None, None, False, None)

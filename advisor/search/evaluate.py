"""From a configuration to its evaluation: the way that every candidate goes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import asdict, replace
from typing import Any, TypeVar

from advisor.catalog.cards import Card
from advisor.catalog.labels import published_labels
from advisor.compression.ladder import Ladder, Outcome
from advisor.compression.recipes import Recipe
from advisor.core.errors import AdvisorError, RuntimeRefusal, UnsupportedRecipe
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.core.quantity import Provenance, Quantity
from advisor.core.training import FINETUNED, HEAD, HEAD_SUBSET
from advisor.core.units import show_ms
from advisor.search import accuracy
from advisor.search.accuracy import Captured, Verdict
from advisor.search.context import Context, Part, Pictures, Purpose
from advisor.search.judging import Judge
from advisor.search.prices import Variant
from advisor.search.request import ROBUST
from advisor.search.stages import Artefact, Stages
from advisor.search.timing import ThreadTiming, Timer
from advisor.store import RunFolder
from advisor.tflite.metadata import Metadata

SCREEN_MARGIN = 6.0
"""How many times over the budget a card's float trunk may be, with every core at work, and still be trained: int8 was
measured up to 2.3 times faster than float with LiteRT 2.3 on x86 (MobileNetV2), so this lets nothing good go."""

Value = TypeVar("Value")


class _Ended(Exception):
    """A stage that ended an evaluation before its end."""

    def __init__(self, status: Status, stage: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.stage, self.reason = status, stage, reason


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
        except _Ended as end:
            return Evaluation(configuration, end.status, card.family, end.reason, end.stage)

    async def _evaluate(self, configuration: Configuration, card: Card) -> Evaluation:
        await self._screen(card)
        variant = (configuration.training, configuration.compression)
        if configuration.training in FINETUNED:
            await _at("train", self._stages.float_form(card, configuration.training, Purpose.SHIP))
        await self._climb(card, variant)
        threads, recipe = configuration.target.threads, configuration.compression
        artefact = await _at("compress", self._artefact(card, variant, Purpose.SHIP), recipe)
        verdict = await _at("score", self._verdict(card, variant, artefact), recipe)
        place = self._order[card.name]
        measuring = self._timer.measure(artefact, threads, place, card.name, recipe) if self.timing else _untimed()
        timing = await _at("measure", measuring, recipe)
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
            details={
                **timing.details,
                **verdict.details,
                **artefact.figures,
                **({"compression": dict(artefact.notes)} if artefact.notes else {}),
                **_card_details(card),
                "weights": self._stages.trunks.weights_of(card),
            },
        )

    async def _screen(self, card: Card) -> None:
        """End the evaluation where the card cannot meet the latency budget: seconds here, minutes of training saved."""
        if not self.screening or not self.timing or self._context.pictures is None:
            return
        limit = self._context.request.limits.latency_ms
        if limit is None:
            return
        least_ms = await _at("convert", self._stages.trunks.screen(card))
        best = least_ms / max(self._context.request.thread_counts)
        if best > SCREEN_MARGIN * limit:
            reason = (
                f"its float trunk takes {show_ms(least_ms)} of CPU time a picture, more than {SCREEN_MARGIN:.0f} times "
                f"the budget {show_ms(limit)} with every thread at work: not trained"
            )
            raise _Ended(Status.SKIPPED, "screen", reason)

    async def _climb(self, card: Card, variant: Variant) -> None:
        """End the evaluation where lighter recipes leave nothing to gain on the card."""
        request, (training, recipe) = self._context.request, variant
        ladder = Ladder(self._recipes, request.limits.max_drop_points, frozenset(request.compressions))
        waited = ladder.waits_for(recipe)
        outcomes = await asyncio.gather(*(self._outcome(card, (training, before)) for before in waited))
        if objection := ladder.objection(recipe, dict(zip(waited, outcomes, strict=True))):
            raise _Ended(Status.SKIPPED, "compress", objection)

    async def _outcome(self, card: Card, variant: Variant) -> Outcome:
        try:
            await self._climb(card, variant)
            verdict = await self._verdict(card, variant, await self._artefact(card, variant, Purpose.SHIP))
        except (AdvisorError, _Ended):
            return Outcome(None, ok=False)
        return Outcome(verdict.drop.value if verdict.drop else None)

    async def _artefact(self, card: Card, variant: Variant, purpose: Purpose) -> Artefact:
        metadata = metadata_of(card, self._context.pictures, variant[0])
        return await self._stages.artefact(card, variant, self._recipes[variant[1]].version, metadata, purpose)

    async def _verdict(self, card: Card, variant: Variant, artefact: Artefact) -> Verdict:
        pictures, (training, recipe) = self._context.pictures, variant
        if pictures is None:
            reference = await self._artefact(card, (training, "float32"), Purpose.SHIP)
            return await self._published(card, recipe, artefact, reference)
        validation, name = pictures.validation, f"{card.name}-{training}-{recipe}"
        own, floats = await asyncio.gather(
            self._answers(card, variant, validation), self._answers(card, (training, "float32"), validation)
        )
        verdict = accuracy.measured(own, floats, validation.labels, pictures.classes)
        if self._context.request.objective != ROBUST:
            return replace(verdict, details={**verdict.details, "answers": self._run.keep_answers(name, own)})
        labels, float_labels = await asyncio.gather(
            self._captured(card, variant), self._captured(card, (training, "float32"))
        )
        chosen = accuracy.robust(labels, float_labels, validation.labels)
        plain = {"plain_accuracy": verdict.accuracy.to_json() if verdict.accuracy else None}
        kept = {"answers": self._run.keep_answers(name, labels)}
        return replace(chosen, details={**verdict.details, **chosen.details, **plain, **kept})

    async def _published(self, card: Card, recipe: str, artefact: Artefact, reference: Artefact) -> Verdict:
        if not self._stages.trunks.weights_of(card):
            return accuracy.quoted(card, recipe)
        scores = self._stages.scores
        own, floats = await asyncio.gather(scores.answers(card, artefact), scores.answers(card, reference))
        return accuracy.published(card, recipe, own, floats)

    async def _answers(self, card: Card, variant: Variant, part: Part) -> tuple[int, ...]:
        """Return what a variant answers on pictures that it has not learnt from."""
        artefact = await self._artefact(card, variant, Purpose.COMPARE)
        return accuracy.read_answers(await self._stages.scores.probabilities(card, artefact, part))

    async def _captured(self, card: Card, variant: Variant) -> Captured:
        """Return what a variant answers on the validation part under each capture condition."""
        pictures = self._context.pictures
        assert pictures is not None, "this is asked for with pictures only"
        artefact = await self._artefact(card, variant, Purpose.COMPARE)
        return accuracy.read_labels(await self._stages.scores.captured(card, artefact, pictures.validation))

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
            details={**evaluation.details, **timing.details},
        )


def metadata_of(card: Card, pictures: Pictures | None, training: str) -> Metadata:
    """Return what is written into each file of the card: labels, normalisation, licence."""
    labels = pictures.classes if pictures else published_labels(card)
    data = "ImageNet"
    if pictures:
        learnt = {HEAD: pictures.learnt, HEAD_SUBSET: pictures.subset}.get(training, pictures.train)
        data = f"retrained ({training}) on {len(learnt.paths)} pictures of {len(labels)} classes"
    return Metadata(
        name=card.name,
        description=f"Image classifier {card.name}, {data}; made by advisor",
        labels=labels,
        mean=card.preprocessing.mean,
        std=card.preprocessing.std,
        licence=card.licence,
    )


def _card_details(card: Card) -> dict[str, Any]:
    return {
        "params": card.params,
        "macs": card.macs,
        "licence": card.licence,
        "input_size": card.input_size,
        "preprocessing": asdict(card.preprocessing),
    }


async def _untimed() -> ThreadTiming:
    """What is known of a latency on this machine where nobody asked for it."""
    return ThreadTiming(None, None, None, False, {})


async def _at(stage: str, work: Awaitable[Value], recipe: str = "") -> Value:
    """Await a stage; its failure ends the evaluation with the stage's name and the reason.

    Args:
        stage: its name.
        work: the stage.
        recipe: what made the file that the stage runs, if any: a form that the runtime cannot run is left out, as one
            that does not apply is.
    """
    try:
        return await work
    except UnsupportedRecipe as error:
        raise _Ended(Status.SKIPPED, stage, error.message) from None
    except RuntimeRefusal as error:
        if recipe in ("", "float32"):
            raise _Ended(Status.FAILED, stage, error.message) from None
        raise _Ended(Status.SKIPPED, stage, f"this runtime cannot run {recipe}: {error.message}") from None
    except AdvisorError as error:
        raise _Ended(Status.FAILED, stage, error.message) from None
    except OSError as error:
        raise _Ended(Status.FAILED, stage, f"{error.strerror or error}: {error.filename or ''}") from None

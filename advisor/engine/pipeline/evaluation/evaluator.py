"""Evaluation of a configuration: run the stages of its variant and combine their figures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

from advisor.catalog.cards import Card
from advisor.compression.recipes import Recipe
from advisor.compression.recipes.escalation import Escalation
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.core.evaluation_facts import CardFacts, FileFacts, Normalisation
from advisor.core.evaluation_json import facts_from_json
from advisor.core.expectation import with_new_conditions
from advisor.core.forms import most_speedup
from advisor.core.quantity import Provenance, Quantity
from advisor.core.relaxation import LOOSER
from advisor.core.training import recipe_of
from advisor.core.units import show_ms
from advisor.engine.pipeline.evaluation import accuracy
from advisor.engine.pipeline.evaluation.accuracy import AccuracyVerdict, Captured
from advisor.engine.pipeline.evaluation.judging import Scored, judge_of
from advisor.engine.pipeline.evaluation.scorer import artefact_of, scope_of
from advisor.engine.pipeline.events import StageAborted
from advisor.engine.pipeline.graph import FLOAT, VariantStages, float_model
from advisor.engine.pipeline.images import Role
from advisor.engine.pipeline.materials import Purpose, Workload
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stages.backbone import screen
from advisor.engine.pipeline.stages.figures import THOROUGH, ThreadTiming, timing
from advisor.engine.pipeline.walker import Walker
from advisor.store import RunFolder

Outclassed = Callable[[Evaluation, Configuration], str]
"""Returns why a form cannot reach the front, by the evaluation of its float32 file; empty if it can."""

SCREEN_MARGIN = 6.0
"""Largest ratio of the float backbone's time (with all cores) to the budget at which a card is trained. int8 was
measured up to 2.3 times faster than float with LiteRT 2.3 on x86 (MobileNetV2), so no good card is lost."""


class Evaluator:
    """Evaluates configurations; shared stages run once.

    Args:
        walker: runs the stages.
        workload: the work for each card; recipes that its question names are tried even if lighter ones lose little.
        cards: by name.
        recipes: compression recipes by name.
        run: stores the artefacts and the answers.
        timed: time files on this machine, because it is a device of the question.

    Attributes:
        screening: leave out cards that cannot meet the latency budget.
        outclassed: asked before a form is made; None makes every form. Forms that the user named are always made.
    """

    def __init__(
        self,
        walker: Walker,
        workload: Workload,
        cards: Mapping[str, Card],
        recipes: Mapping[str, Recipe],
        run: RunFolder,
        timed: bool = True,
    ) -> None:
        self._walker, self._workload, self._run, question = walker, workload, run, workload.question
        self._judge, limits, named = judge_of(question), question.limits, frozenset(question.compressions)
        self._cards, self._limits, self._timed = cards, limits, timed
        self._escalation, self._named = Escalation(recipes, limits.max_drop_points, named), named
        self._floats: dict[Configuration, asyncio.Task[Evaluation]] = {}
        self.screening, self.outclassed = True, cast("Outclassed | None", None)

    @property
    def walker(self) -> Walker:
        """What runs the stages."""
        return self._walker

    def stages_of(self, evaluation: Evaluation) -> VariantStages:
        """Return the stages of the variant of an evaluation."""
        own = evaluation.configuration
        return VariantStages(self._cards[own.card], own.training, own.compression, self._workload)

    async def evaluate(self, configuration: Configuration) -> Evaluation:
        """Return the evaluation; an error of this candidate becomes its status and is never raised."""
        card = self._cards[configuration.card]
        try:
            return await self._evaluate(configuration, card)
        except StageAborted as end:
            return Evaluation(configuration, end.status, card.family, end.reason, end.stage)

    async def time_again(self, evaluation: Evaluation) -> Evaluation:
        """Return a briefly timed finalist with a full timing.

        Raises:
            StageAborted: it cannot be timed now.
        """
        configuration = evaluation.configuration
        stage = timing(scope_of(evaluation), artefact_of(self._run, evaluation), THOROUGH)
        timings = await self._walker.run(stage)
        return replace(evaluation, **vars(timings[configuration.target.threads]))

    async def _evaluate(self, configuration: Configuration, card: Card) -> Evaluation:
        training, compression = configuration.training, configuration.compression
        stages = VariantStages(card, training, compression, self._workload)
        await self._screen(card)
        if recipe_of(training).tunes_backbone:
            await self._walker.run(float_model(card, training, Purpose.SHIP, self._workload))
        await self._require_chance(configuration)
        await self._escalate(stages)
        artefact = await self._walker.run(stages.made)
        await self._require_in_time(stages)
        verdict = await self._verdict(stages)
        head = (await self._walker.run(stages.head)).facts if stages.head else None
        expectation = None
        if stages.expected:
            expectation = await self._walker.run(stages.expected)
        timed = ThreadTiming()
        if self._timed:
            timed = (await self._walker.run(stages.timed))[configuration.target.threads]
        if stages.ships != stages.made:
            artefact = await self._walker.run(stages.ships)
        path = self._run.keep_artefact(artefact.path, f"{card.name}-{training}-{compression}.tflite")
        normalisation = Normalisation(card.preprocessing.mean, card.preprocessing.std)
        weights = self._walker.materials.weights_source(card)
        evaluation = Evaluation(
            configuration=configuration,
            status=Status.OK,
            family=card.family,
            size=Quantity(float(artefact.size_bytes), "bytes", Provenance.MEASURED, source="size of the file"),
            artefact=str(path.relative_to(self._run.path)),
            artefact_sha256=artefact.sha256,
            card_facts=CardFacts(
                card.params, card.macs, card.licence, card.input_size, normalisation, weights, bool(card.form)
            ),
            file_facts=replace(facts_from_json(FileFacts, artefact.figures), recipe_notes=artefact.notes),
            expectation=expectation,
            head=head,
        )
        return with_new_conditions(replace(evaluation, **vars(verdict), **vars(timed)))

    async def _screen(self, card: Card) -> None:
        """End the evaluation if the card cannot meet the latency budget; seconds here save minutes of training."""
        limit, materials = self._limits.latency_ms, self._walker.materials
        if not self.screening or not self._timed or materials.images is None or limit is None or card.as_it_is:
            return
        least_ms = await self._walker.run(screen(card))
        if least_ms / max(materials.question.thread_counts) > SCREEN_MARGIN * limit:
            reason = (
                f"its float backbone takes {show_ms(least_ms)} of CPU time an image, over {SCREEN_MARGIN:.0f} times "
                f"the budget {show_ms(limit)} with every thread at work: not trained"
            )
            raise StageAborted(Status.SKIPPED, StageName.SCREEN, reason)

    async def _require_chance(self, configuration: Configuration) -> None:
        """End the evaluation of a form that cannot meet the latency budget or reach the front, by its float32 file."""
        form = configuration.compression
        if self.outclassed is None or self._is_always_made(self._cards[configuration.card], form):
            return
        reference = replace(configuration, compression=FLOAT)
        if reference not in self._floats:
            self._floats[reference] = asyncio.ensure_future(self.evaluate(reference))
        floats = await asyncio.shield(self._floats[reference])
        if floats.status is not Status.OK or floats.latency is None:
            return
        least_ms, limit = floats.latency.value / most_speedup(form), self._limits.latency_ms
        if limit is not None and least_ms > limit:
            reason = f"its float32 file takes {show_ms(floats.latency.value)}, so {form} cannot meet {show_ms(limit)}"
            raise StageAborted(Status.SKIPPED, StageName.SCREEN, reason)
        if reason := self.outclassed(floats, configuration):
            raise StageAborted(Status.SKIPPED, StageName.PROMOTION, reason)

    async def _require_in_time(self, stages: VariantStages) -> None:
        """End the evaluation of a form that is far over the latency budget, before it is scored."""
        limit = self._limits.latency_ms
        if limit is None or self.outclassed is None or not self._timed:
            return
        if self._is_always_made(stages.card, stages.compression):
            return
        timings = (await self._walker.run(stages.timed)).values()
        latencies = [each.latency.value for each in timings if each.latency is not None and not each.contended]
        if len(latencies) == len(timings) and min(latencies) > (1 + LOOSER) * limit:
            reason = (
                f"its median is {show_ms(min(latencies))} at best, over {1 + LOOSER:g} times the budget "
                f"{show_ms(limit)}: not scored"
            )
            raise StageAborted(Status.SKIPPED, StageName.TIMING, reason)

    def _is_always_made(self, card: Card, form: str) -> bool:
        """Return whether a form is made and scored whatever its figures may be."""
        return not self.screening or bool(card.form) or form in {FLOAT, *self._named}

    async def _escalate(self, stages: VariantStages) -> None:
        """End the evaluation if lighter recipes leave nothing to gain on the card."""
        if stages.card.form:
            return
        waited = self._escalation.waits_for(stages.compression)
        lighter = [replace(stages, compression=recipe) for recipe in waited]
        verdicts = await asyncio.gather(*(self._outcome(each) for each in lighter))
        drops = {name: verdict.drop for name, verdict in zip(waited, verdicts, strict=True) if verdict}
        points = {name: drop.value if drop else None for name, drop in drops.items()}
        objection = self._escalation.objection(stages.compression, points)
        if objection:
            raise StageAborted(Status.SKIPPED, StageName.COMPRESS, objection)

    async def _outcome(self, stages: VariantStages) -> AccuracyVerdict | None:
        """Return the verdict on the file of a lighter recipe; None if there is no file."""
        try:
            await self._escalate(stages)
            await self._walker.run(stages.made)
            return await self._verdict(stages)
        except StageAborted:
            return None

    async def _verdict(self, stages: VariantStages) -> AccuracyVerdict:
        """Return a variant's accuracy: measured on the validation part; the published one if there are no images."""
        images = self._walker.materials.images
        if images is None:
            return await self._published(stages)
        name = f"{stages.card.name}-{stages.training}-{stages.compression}"
        own, floats = await asyncio.gather(*(self._walker.run(each.scored) for each in (stages, stages.reference)))
        trained = None if recipe_of(stages.training).first_look else stages.head
        folds = (await self._walker.run(trained)).answers if trained else None
        scored = Scored(own, floats, folds)
        verdict = await asyncio.to_thread(self._judge.verdict, scored, images, self._run, name)
        if stages.card.form:  # its probabilities are not calibrated, and no threshold is written into it
            verdict = replace(verdict, answers=replace(verdict.answers, confidence=None))
        if not self._workload.question.robust:
            return verdict
        validation = images.part(Role.VALIDATION)
        labels, float_labels = await asyncio.gather(self._captured(stages), self._captured(stages.reference))
        chosen = accuracy.robust(labels, float_labels, validation.labels)
        by_class = replace(verdict.answers, file=self._run.keep_answers(name, labels))
        return replace(chosen, answers=by_class, capture=replace(chosen.capture, plain=verdict.accuracy))

    async def _published(self, stages: VariantStages) -> AccuracyVerdict:
        if stages.card.form or not self._walker.materials.weights_source(stages.card):
            return accuracy.quoted(stages.card, stages.compression)
        own, floats = await asyncio.gather(
            self._walker.run(stages.answered), self._walker.run(stages.reference.answered)
        )
        return accuracy.published(stages.card, stages.compression, own, floats)

    async def _captured(self, stages: VariantStages) -> Captured:
        """Return a variant's answers on the validation part under each capture condition."""
        return accuracy.read_labels(await self._walker.run(stages.captured))

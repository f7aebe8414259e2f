"""Evaluation of a configuration: run the stages of its variant and combine their figures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from advisor.catalog.cards import Card
from advisor.compression.recipes import Recipe
from advisor.compression.recipes.escalation import Escalation
from advisor.core.budget import Budget
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.core.evaluation_facts import CardFacts, FileFacts, Normalisation
from advisor.core.evaluation_json import facts_from_json
from advisor.core.expectation import with_new_conditions
from advisor.core.forms import most_speedup
from advisor.core.quantity import Provenance, Quantity
from advisor.core.relaxation import LOOSER
from advisor.core.training import FINETUNED, HEAD
from advisor.core.units import show_ms
from advisor.datasets.split import HOLDOUT
from advisor.engine.pipeline import cost
from advisor.engine.pipeline.evaluation import accuracy, unknown
from advisor.engine.pipeline.evaluation.accuracy import Captured, Verdict
from advisor.engine.pipeline.evaluation.judging import judge_of
from advisor.engine.pipeline.events import StageAborted
from advisor.engine.pipeline.graph import FLOAT, SCORES, VariantStages, float_model
from advisor.engine.pipeline.images import Role
from advisor.engine.pipeline.materials import Artefact, Purpose, Workload, input_spec
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stage import Scope
from advisor.engine.pipeline.stages.backbone import screen
from advisor.engine.pipeline.stages.figures import THOROUGH, ThreadTiming, capture, score, timing
from advisor.engine.pipeline.walker import Walker
from advisor.store import RunFolder, answers_file

Outclassed = Callable[[Evaluation, Configuration], str]
"""Returns why a form cannot reach the front, by the evaluation of its float32 file; empty if it can."""

SCREEN_MARGIN = 6.0
"""Largest ratio of the float backbone's time (with all cores) to the budget at which a card is trained. int8 was
measured up to 2.3 times faster than float with LiteRT 2.3 on x86 (MobileNetV2), so no good card is lost."""


class Evaluator:
    """Evaluates configurations; shared stages run once.

    Args:
        walker: runs the stages.
        workload: the work for each card.
        cards: by name.
        recipes: compression recipes by name.
        limits: the budget.
        named: compression recipes that the user named; they are tried even if lighter recipes lose little.
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
        limits: Budget,
        named: frozenset[str],
        run: RunFolder,
        timed: bool = True,
    ) -> None:
        self._walker, self._workload, self._run, self._task = walker, workload, run, workload.task
        self._cards, self._limits, self._timed = cards, limits, timed
        self._escalation, self._named = Escalation(recipes, limits.max_drop_points, named), named
        given = walker.materials
        self._judge = judge_of(self._task, given.metric, given.costs, given.promises)
        self._floats: dict[Configuration, asyncio.Task[Evaluation]] = {}
        self.screening, self.outclassed = True, cast("Outclassed | None", None)

    @property
    def captures(self) -> bool:
        """Whether finalists run under capture conditions."""
        return self._workload.of_task.conditions

    @property
    def holdout_images(self) -> int:
        """Number of images of the hold-out."""
        return self._workload.images.get(Role.HOLDOUT, 0)

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
        stage = timing(scope_of(evaluation), self._artefact(evaluation), THOROUGH)
        timings = await self._walker.run(stage)
        return replace(evaluation, **vars(timings[configuration.target.threads]))

    async def hold_out(self, evaluation: Evaluation) -> Evaluation:
        """Return a finalist with the accuracy of its file on the hold-out.

        Raises:
            StageAborted: the file cannot be run.
        """
        images, artefact = self._walker.materials.require_images(), self._artefact(evaluation)
        part = images.part(Role.HOLDOUT)
        card, scope = self._cards[evaluation.configuration.card], scope_of(evaluation)
        seconds = cost.scoring_s(card, scope.compression, len(part.paths))
        answers = await self._walker.run(SCORES[self._task](scope, input_spec(card), artefact, Role.HOLDOUT, seconds))
        name = f"{HOLDOUT}-{artefact.path.stem}"
        judged, kept = await asyncio.to_thread(self._judge.held_out, evaluation, answers, images, answers_file(name))
        for file, values in kept.items():
            self._run.keep_answers(Path(file).stem, values)
        return with_new_conditions(judged, images.own_holdout)

    def tells_unknown(self, in_time: bool) -> bool:
        """Return whether a finalist gets a class for unknown things.

        Its probabilities and the user's images allow it. Without images of other things, there must be time, too.
        """
        images = self._walker.materials.images
        asked = images is not None and bool(images.others)
        return self._workload.of_task.probabilities and bool(self.holdout_images) and (asked or in_time)

    async def tell_unknown(self, evaluation: Evaluation) -> Evaluation:
        """Return a finalist with what its file answers to images of things that are none of its classes.

        Raises:
            StageAborted: the file cannot have a class for them, or cannot be run.
        """
        images, own = self._walker.materials.require_images(), evaluation.configuration
        card, scope = self._cards[own.card], scope_of(evaluation)
        if card.form:
            raise StageAborted(Status.SKIPPED, StageName.SCORE, "a file of fixed form gets no further class")
        made = await self._walker.run(VariantStages(card, own.training, own.compression, self._workload).with_unknown)
        name = f"{Path(evaluation.artefact).stem}-unknown.tflite"
        path, answers = self._run.keep_artefact(made.artefact.path, name), dict[Role, Path]()
        for role in (Role.HOLDOUT, Role.OTHERS):
            if count := len(images.part(role).paths):
                seconds = cost.scoring_s(card, own.compression, count)
                answers[role] = await self._walker.run(score(scope, input_spec(card), made.artefact, role, seconds))
        labels, others = images.part(Role.HOLDOUT).labels, answers.get(Role.OTHERS)
        facts = await asyncio.to_thread(unknown.with_answers, made.facts, answers[Role.HOLDOUT], labels, others)
        file = str(path.relative_to(self._run.path))
        return replace(evaluation, unknown=replace(facts, file=file, sha256=made.artefact.sha256))

    async def capture(self, evaluation: Evaluation) -> Evaluation:
        """Return a finalist with the accuracy of its file on the hold-out under capture conditions.

        Raises:
            StageAborted: the file cannot be run.
        """
        part = self._walker.materials.part(Role.CAPTURED)
        card, scope = self._cards[evaluation.configuration.card], scope_of(evaluation)
        seconds = cost.judging_s(card, len(part.paths))
        stage = capture(scope, input_spec(card), self._artefact(evaluation), Role.CAPTURED, seconds)
        labels = accuracy.read_labels(await self._walker.run(stage))
        verdict = accuracy.robust(labels, labels, part.labels, accuracy.CAPTURED_HOLDOUT)
        found = replace(verdict.capture, holdout=verdict.accuracy, plain=evaluation.capture.plain)
        return replace(evaluation, capture=found)

    def _artefact(self, evaluation: Evaluation) -> Artefact:
        return Artefact.at(self._run.path / evaluation.artefact, evaluation.artefact_sha256)

    async def _evaluate(self, configuration: Configuration, card: Card) -> Evaluation:
        training, compression = configuration.training, configuration.compression
        stages = VariantStages(card, training, compression, self._workload)
        await self._screen(card)
        if training in FINETUNED:
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
        if least_ms / max(materials.thread_counts) > SCREEN_MARGIN * limit:
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

    async def _outcome(self, stages: VariantStages) -> Verdict | None:
        """Return the verdict on the file of a lighter recipe; None if there is no file."""
        try:
            await self._escalate(stages)
            await self._walker.run(stages.made)
            return await self._verdict(stages)
        except StageAborted:
            return None

    async def _verdict(self, stages: VariantStages) -> Verdict:
        """Return a variant's accuracy: measured on the validation part; the published one if there are no images."""
        images = self._walker.materials.images
        if images is None:
            return await self._published(stages)
        name = f"{stages.card.name}-{stages.training}-{stages.compression}"
        own, floats = await asyncio.gather(*(self._walker.run(each.scored) for each in (stages, stages.reference)))
        trained = stages.head if stages.training == HEAD else None
        folds = (await self._walker.run(trained)).answers if trained else None
        verdict = await asyncio.to_thread(self._judge.verdict, own, floats, images, self._run, name, folds)
        if stages.card.form:  # its probabilities are not calibrated, and no threshold is written into it
            verdict = replace(verdict, answers=replace(verdict.answers, confidence=None))
        if not self._workload.robust:
            return verdict
        validation = images.part(Role.VALIDATION)
        labels, float_labels = await asyncio.gather(self._captured(stages), self._captured(stages.reference))
        chosen = accuracy.robust(labels, float_labels, validation.labels)
        by_class = replace(verdict.answers, file=self._run.keep_answers(name, labels))
        return replace(chosen, answers=by_class, capture=replace(chosen.capture, plain=verdict.accuracy))

    async def _published(self, stages: VariantStages) -> Verdict:
        if stages.card.form or not self._walker.materials.weights_source(stages.card):
            return accuracy.quoted(stages.card, stages.compression)
        own, floats = await asyncio.gather(
            self._walker.run(stages.answered), self._walker.run(stages.reference.answered)
        )
        return accuracy.published(stages.card, stages.compression, own, floats)

    async def _captured(self, stages: VariantStages) -> Captured:
        """Return a variant's answers on the validation part under each capture condition."""
        return accuracy.read_labels(await self._walker.run(stages.captured))


def scope_of(evaluation: Evaluation) -> Scope:
    """Return the scope of the stages of an evaluation's file."""
    configuration = evaluation.configuration
    return Scope(configuration.card, configuration.training, configuration.compression)

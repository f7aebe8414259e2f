"""Evaluation of a configuration: run the stages of its variant and combine their figures."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from advisor.catalog import Card
from advisor.compression import Recipe
from advisor.core import (
    FLOAT,
    CardFacts,
    Configuration,
    Evaluation,
    FileFacts,
    NewConditions,
    Normalisation,
    Provenance,
    Quantity,
    Status,
    TuningFacts,
    facts_from_json,
    recipe_of,
    with_new_conditions,
)
from advisor.engine._execution import call_in_own_thread
from advisor.engine._pipeline.evaluation import accuracy
from advisor.engine._pipeline.evaluation.accuracy import AccuracyVerdict
from advisor.engine._pipeline.evaluation.judge import Scored
from advisor.engine._pipeline.evaluation.scorer import artefact_of, scope_of
from advisor.engine._pipeline.graph import ALWAYS, VariantStages
from advisor.engine._pipeline.images import Role
from advisor.engine._pipeline.materials import Purpose, Workload
from advisor.engine._pipeline.resources import Pool
from advisor.engine._pipeline.rule import RuleNeeds, Rules
from advisor.engine._pipeline.stage import StageAborted, StageName
from advisor.engine._pipeline.stages.backbone import screen
from advisor.engine._pipeline.stages.figures import THOROUGH, ThreadTiming, timing
from advisor.engine._pipeline.stages.finetuning import was_shortened
from advisor.engine._pipeline.walker import Walker
from advisor.store import RunFolder


class Evaluator:
    """Evaluates configurations; shared stages run once.

    Recipes that the workload's question names are tried even if lighter ones lose little. Files
    are ``timed`` here if this machine is a device of the question.
    """

    def __init__(
        self,
        walker: Walker,
        workload: Workload,
        cards: Mapping[str, Card],
        recipes: Mapping[str, Recipe],
        rules: Rules,
        run: RunFolder,
        timed: bool = True,
    ) -> None:
        self.walker = walker
        self._workload = workload
        self._run = run
        question = workload.question
        self._judge = question.of_task.judge(question)
        self._named = frozenset(question.compressions)
        self._cards = cards
        self._recipes = recipes
        self._rules = rules
        self._timed = timed
        self.screening = True  # leave out what cannot meet the latency budget or reach the front

    def stages_of(self, configuration: Configuration) -> VariantStages:
        """Return the stages of the variant of a configuration."""
        card = self._cards[configuration.card]
        return VariantStages(
            card, configuration.training, configuration.compression, self._workload
        )

    async def evaluate(self, configuration: Configuration) -> Evaluation:
        """Return the evaluation; an error of this candidate becomes its status
        and is never raised.
        """
        try:
            return await self._evaluate(configuration)
        except StageAborted as end:
            family = self._cards[configuration.card].family
            return Evaluation(configuration, end.status, family, end.reason, end.stage)

    async def drop(self) -> None:
        """End all evaluations that are not done, with their processes: nobody needs them any
        more.
        """
        await self.walker.drop()

    async def time_again(self, evaluation: Evaluation) -> Evaluation:
        """Return a briefly timed finalist with a full timing;
        StageAborted if it cannot be timed now.
        """
        timings = await self.walker.run(
            timing(scope_of(evaluation), artefact_of(self._run, evaluation), THOROUGH)
        )
        return timings[evaluation.configuration.target.threads].apply_to(evaluation)

    async def _evaluate(self, configuration: Configuration) -> Evaluation:
        """Run the stages of a variant, and put their results together;
        StageAborted if one fails or is ruled out.
        """
        training = configuration.training
        compression = configuration.compression
        stages = self.stages_of(configuration)
        card = stages.card
        await self._screen(configuration, card)
        tuning = None
        if stages.made_here and self._workload.images:
            ships = self._workload.question.of_task.model(
                card, training, Purpose.SHIP, self._workload
            )
            # The scores calibrate the file's probabilities, so that stage waits for them:
            # the model is its first input.
            if ships.name is StageName.CONFIDENCE:
                ships = ships.after[0]
            # It takes long; beside it, the compared file is scored.
            if ships.resources.pool is Pool.TRAINERS:
                beside = stages if compression in ALWAYS else stages.reference
                model, _ = await asyncio.gather(
                    self.walker.run(ships), self.walker.run(beside.scored)
                )
                if recipe_of(training).tunes_backbone:
                    tuning = TuningFacts(was_shortened(model))
        await self._ask_lighter_rules(configuration)
        # What new conditions cost follows from the features alone,
        # so it takes the core that the head leaves.
        artefact, expectation = await asyncio.gather(
            self.walker.run(stages.made), self._expect_conditions(stages)
        )
        verdict = await self._verdict(stages)
        head = (await self.walker.run(stages.head)).facts if stages.head else None
        threads = configuration.target.threads
        timed = (await self.walker.run(stages.timed))[threads] if self._timed else ThreadTiming()
        if stages.ships != stages.made:
            artefact = await self.walker.run(stages.ships)
        path = self._run.keep_artefact(
            artefact.path, f"{card.name}-{training}-{compression}.tflite"
        )
        normalisation = Normalisation(card.preprocessing.mean, card.preprocessing.std)
        weights = self.walker.materials.weights_source(card)
        evaluation = Evaluation(
            configuration=configuration,
            status=Status.OK,
            family=card.family,
            size=Quantity(
                float(artefact.size_bytes), "bytes", Provenance.MEASURED, source="size of the file"
            ),
            artefact=str(path.relative_to(self._run.path)),
            artefact_sha256=artefact.sha256,
            card_facts=CardFacts(
                card.params,
                card.macs,
                card.licence,
                card.input_size,
                normalisation,
                weights,
                not stages.made_here,
            ),
            file_facts=replace(
                facts_from_json(FileFacts, artefact.figures), recipe_notes=artefact.notes
            ),
            expectation=expectation,
            head=head,
            tuning=tuning,
        )
        return with_new_conditions(timed.apply_to(verdict.apply_to(evaluation)))

    async def _expect_conditions(self, stages: VariantStages) -> NewConditions | None:
        """Return what is expected of images in new conditions; None where nothing is judged."""
        if stages.expected is None:
            return None
        conditions: NewConditions = await self.walker.run(stages.expected)
        return conditions

    async def _screen(self, configuration: Configuration, card: Card) -> None:
        """Ask the rules about predictions and the float backbone;
        seconds here save minutes of training.
        """
        if not self.screening:
            return
        self._rules.require_none(RuleNeeds.PREDICTION, configuration)
        if self._rules.that_need(RuleNeeds.BACKBONE) and not (card.is_finished or card.whole):
            backbone_ms = await self.walker.run(screen(card))
            self._rules.require_none(RuleNeeds.BACKBONE, configuration, backbone_ms=backbone_ms)

    async def _ask_lighter_rules(self, configuration: Configuration) -> None:
        """Ask the rules about the lighter recipes of a form, before it is made."""
        waited = self.stages_of(configuration).lighter(self._recipes, self._named)
        verdicts = await asyncio.gather(
            *(self._outcome(replace(configuration, compression=recipe)) for recipe in waited)
        )
        scored = []
        for name, verdict in zip(waited, verdicts, strict=True):
            if verdict:
                scored.append((name, verdict))
        drops = {name: self._read_drop(verdict) for name, verdict in scored}
        self._rules.require_none(RuleNeeds.LIGHTER, configuration, lighter=waited, drops=drops)

    def _read_drop(self, verdict: AccuracyVerdict) -> float | None:
        """Return the points that a form lost;
        None if they are unknown, or if it lost too much by another metric.
        """
        for name, most in self._rules.limits.max_metric_drops:
            lost = verdict.answers.metric_drops.get(name)
            if lost is None or lost.value > most:
                return None
        return verdict.drop.value if verdict.drop else None

    async def _outcome(self, configuration: Configuration) -> AccuracyVerdict | None:
        """Return the verdict on the file of a lighter recipe; None if there is no file."""
        stages = self.stages_of(configuration)
        try:
            await self._ask_lighter_rules(configuration)
            await self.walker.run(stages.made)
            return await self._verdict(stages)
        except StageAborted:
            return None

    async def _verdict(self, stages: VariantStages) -> AccuracyVerdict:
        """Return a variant's accuracy: measured on the validation part;
        the published one if there are no images.
        """
        images = self.walker.materials.images
        if images is None:
            return await self._published(stages)
        name = f"{stages.card.name}-{stages.training}-{stages.compression}"
        answers, floats = await asyncio.gather(
            *(self.walker.run(variant.scored) for variant in (stages, stages.reference))
        )
        trained = None if recipe_of(stages.training).quick_head else stages.head
        folds = (await self.walker.run(trained)).answers if trained else None
        learns = recipe_of(stages.training).learns
        question = self._workload.question
        task = question.of_task
        notes = None
        if learns and stages.made_here and task.own_thresholds and question.guarantees.options:
            shipped = task.model(stages.card, stages.training, Purpose.SHIP, self._workload)
            notes = (await self.walker.run(shipped)).notes
        scored = Scored(answers, floats, folds, learns, notes, stages.made_here)
        verdict = await call_in_own_thread(self._judge.verdict, scored, images, self._run, name)
        # Its probabilities are not calibrated, and no threshold is written into it.
        if not stages.made_here:
            verdict = replace(verdict, answers=replace(verdict.answers, confidence=None))
        if not question.robust:
            return verdict
        files = await asyncio.gather(
            *(self.walker.run(variant.captured) for variant in (stages, stages.reference))
        )
        captured = (
            asyncio.to_thread(self._judge.captured, file, images, Role.VALIDATION)
            for file in files
        )
        under, floats_under = await asyncio.gather(*captured)
        chosen = accuracy.robust(under, floats_under)
        by_class = replace(verdict.answers, file=self._run.keep_answers(name, under.answers))
        return replace(
            chosen, answers=by_class, capture=replace(chosen.capture, plain=verdict.accuracy)
        )

    async def _published(self, stages: VariantStages) -> AccuracyVerdict:
        if not stages.made_here:
            return accuracy.quote_top1(stages.card, FLOAT)
        if not self.walker.materials.weights_source(stages.card):
            return accuracy.quote_top1(stages.card, stages.compression)
        answers, floats = await asyncio.gather(
            self.walker.run(stages.answered), self.walker.run(stages.reference.answered)
        )
        return accuracy.find_published_top1(stages.card, stages.compression, answers, floats)

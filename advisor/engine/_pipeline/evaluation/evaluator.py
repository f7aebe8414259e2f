"""Evaluate a configuration: run the stages of its variant and combine their figures.

The search loop calls :meth:`Evaluator.evaluate` for each configuration that the scheduler chooses,
many at a time; the walker runs a stage that they share once. The order of the stages here is the
order in which a search learns things: a cheap rejection comes before an expensive training. Fields
of the evaluation are those of ``evaluations.jsonl``.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

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
from advisor.engine._pipeline.images import Images, Role
from advisor.engine._pipeline.materials import FloatModel, Purpose, Workload
from advisor.engine._pipeline.resources import Pool
from advisor.engine._pipeline.rule import RuleNeeds, Rules
from advisor.engine._pipeline.stage import StageAborted, StageName
from advisor.engine._pipeline.stages.backbone import screen_stage
from advisor.engine._pipeline.stages.figures import THOROUGH, ThreadTiming, timing_stage
from advisor.engine._pipeline.stages.finetuning import was_shortened
from advisor.engine._pipeline.walker import Walker
from advisor.store import RunFolder


class Evaluator:
    """Evaluates configurations; shared stages run once.

    Recipes that the workload's question names are tried even if lighter ones lose little. Files
    are ``timed`` here if this machine is a device of the question. While ``screening``, it leaves
    out what cannot meet the latency budget or reach the front.
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
        self.screening = True

    def stages_of(self, configuration: Configuration) -> VariantStages:
        """Return the stages of the variant of a configuration."""
        card = self._cards[configuration.card]
        return VariantStages(
            card, configuration.training, configuration.compression, self._workload
        )

    async def evaluate(self, configuration: Configuration) -> Evaluation:
        """Return the evaluation; an error of this candidate becomes its status, with the stage and
        the reason, and is never raised.
        """
        try:
            return await self._evaluate(configuration)
        except StageAborted as end:
            family = self._cards[configuration.card].family
            return Evaluation(configuration, end.status, family, end.reason, end.stage)

    async def drop(self, cards: Collection[str] | None = None) -> None:
        """End the evaluations of cards that are not done, with their processes: nobody needs them
        now. None for all cards.
        """
        await self.walker.drop(cards)

    async def time_again(self, evaluation: Evaluation) -> Evaluation:
        """Return a briefly timed finalist with a full timing;
        StageAborted if it cannot be timed now.
        """
        artefact = artefact_of(self._run, evaluation)
        timings = await self.walker.run(timing_stage(scope_of(evaluation), artefact, THOROUGH))
        return timings[evaluation.configuration.target.threads].apply_to(evaluation)

    async def _evaluate(self, configuration: Configuration) -> Evaluation:
        """Run the stages of a variant, and put their results together;
        StageAborted if one fails or is ruled out.
        """
        stages = self.stages_of(configuration)
        card = stages.card
        await self._screen(configuration, card)
        tuning = await self._train_shipped(stages)
        await self._ask_lighter_rules(configuration)
        # What new conditions cost follows from the features alone,
        # so it takes the core that the head leaves.
        artefact, expectation = await asyncio.gather(
            self.walker.run(stages.made), self._expect_conditions(stages)
        )
        verdict = await self._judge_accuracy(stages)
        head = (await self.walker.run(stages.head)).facts if stages.head else None
        timed = ThreadTiming()
        if self._timed:
            timings = await self.walker.run(stages.timed)
            timed = timings[configuration.target.threads]
        # Neither calibrated probabilities nor an adjusted head change the time of a file,
        # so it is timed before.
        if stages.ships != stages.made:
            artefact = await self.walker.run(stages.ships)
        path = self._run.keep_artefact(artefact.path, f"{_name_files(stages)}.tflite")
        size_bytes = float(artefact.size_bytes)
        evaluation = Evaluation(
            configuration=configuration,
            status=Status.OK,
            family=card.family,
            size=Quantity(size_bytes, "bytes", Provenance.MEASURED, source="size of the file"),
            artefact=str(path.relative_to(self._run.path)),
            artefact_sha256=artefact.sha256,
            card_facts=self._describe_card(stages),
            file_facts=replace(
                facts_from_json(FileFacts, artefact.figures), recipe_notes=artefact.notes
            ),
            expectation=expectation,
            head=head,
            tuning=tuning,
        )
        return with_new_conditions(timed.apply_to(verdict.apply_to(evaluation)))

    async def _train_shipped(self, stages: VariantStages) -> TuningFacts | None:
        """Train the model that ships where this takes long, and score the compared file beside it.

        Return what is known of the fine-tuning; None if there was none.
        """
        if not stages.made_here or not self._workload.images:
            return None
        model_stage = self._workload.question.of_task.model(
            stages.card, stages.training, Purpose.SHIP, self._workload
        )
        # The scores calibrate the file's probabilities, so that stage waits for them:
        # the model is its first input.
        if model_stage.name is StageName.CONFIDENCE:
            model_stage = model_stage.after[0]
        if model_stage.resources.pool is not Pool.TRAINERS:
            return None
        beside = stages if stages.compression in ALWAYS else stages.reference
        model, _ = await asyncio.gather(
            self.walker.run(model_stage), self.walker.run(beside.scored)
        )
        if not recipe_of(stages.training).tunes_backbone:
            # Only a training on maps leaves the weights of its head beside its file.
            if isinstance(model, FloatModel) and model.head.is_file():
                self._run.keep_head(model.head, stages.card.name)
            return None
        return TuningFacts(was_shortened(model))

    def _describe_card(self, stages: VariantStages) -> CardFacts:
        card = stages.card
        return CardFacts(
            card.params,
            card.macs,
            card.licence,
            card.input_size,
            Normalisation(card.preprocessing.mean, card.preprocessing.std),
            self.walker.materials.weights_source(card),
            not stages.made_here,
        )

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
            backbone_ms = await self.walker.run(screen_stage(card))
            self._rules.require_none(RuleNeeds.BACKBONE, configuration, backbone_ms=backbone_ms)

    async def _ask_lighter_rules(self, configuration: Configuration) -> None:
        """Ask the rules about the lighter recipes of a form, before it is made."""
        lighter = self.stages_of(configuration).list_lighter(self._recipes, self._named)
        others = [replace(configuration, compression=recipe) for recipe in lighter]
        verdicts = await asyncio.gather(*map(self._try_lighter, others))
        drops = {}
        for name, verdict in zip(lighter, verdicts, strict=True):
            if verdict is not None:
                drops[name] = self._read_drop(verdict)
        self._rules.require_none(RuleNeeds.LIGHTER, configuration, lighter=lighter, drops=drops)

    def _read_drop(self, verdict: AccuracyVerdict) -> float | None:
        """Return the points that a form lost;
        None if they are unknown, or if it lost too much by another metric.
        """
        for name, most in self._rules.limits.max_metric_drops:
            lost = verdict.answers.metric_drops.get(name)
            if lost is None or lost.value > most:
                return None
        return verdict.drop.value if verdict.drop else None

    async def _try_lighter(self, configuration: Configuration) -> AccuracyVerdict | None:
        """Return the verdict on the file of a lighter recipe; None if there is no file."""
        stages = self.stages_of(configuration)
        try:
            await self._ask_lighter_rules(configuration)
            await self.walker.run(stages.made)
            return await self._judge_accuracy(stages)
        except StageAborted:
            return None

    async def _judge_accuracy(self, stages: VariantStages) -> AccuracyVerdict:
        """Return a variant's accuracy: measured on the validation part;
        the published one if there are no images.
        """
        images = self.walker.materials.images
        if images is None:
            return await self._quote_published(stages)
        scored = await self._score(stages)
        verdict = await call_in_own_thread(
            self._judge_validation, scored, images, RunFolder.name_answers(_name_files(stages))
        )
        # Its probabilities are not calibrated, and no threshold is written into it.
        if not stages.made_here:
            verdict = replace(verdict, answers=replace(verdict.answers, confidence=None))
        if not self._workload.question.robust:
            return verdict
        return await self._judge_captures(stages, images, verdict)

    def _judge_validation(self, scored: Scored, images: Images, file: str) -> AccuracyVerdict:
        """Return the verdict on the validation part, and keep the answers in the run."""
        verdict, answers_by_file = self._judge.verdict(scored, images, file)
        for path, values in answers_by_file.items():
            self._run.keep_answers(Path(path).stem, values)
        return verdict

    async def _score(self, stages: VariantStages) -> Scored:
        """Return the answers of the file and of its float32 form, and what the judge needs
        besides.
        """
        answers, floats = await asyncio.gather(
            self.walker.run(stages.scored), self.walker.run(stages.reference.scored)
        )
        recipe = recipe_of(stages.training)
        folds = None
        if stages.head and not recipe.quick_head:
            folds = (await self.walker.run(stages.head)).answers
        question = self._workload.question
        task = question.of_task
        keeps_thresholds = task.own_thresholds and question.guarantees.options
        notes = None
        if recipe.learns and stages.made_here and keeps_thresholds:
            shipped = task.model(stages.card, stages.training, Purpose.SHIP, self._workload)
            notes = (await self.walker.run(shipped)).notes
        return Scored(answers, floats, folds, recipe.learns, notes, stages.made_here)

    async def _judge_captures(
        self, stages: VariantStages, images: Images, plain: AccuracyVerdict
    ) -> AccuracyVerdict:
        """Return the accuracy under capture conditions, beside that of the images as they are."""
        files = await asyncio.gather(
            self.walker.run(stages.captured), self.walker.run(stages.reference.captured)
        )
        captured, floats_captured = await asyncio.gather(
            *(
                asyncio.to_thread(self._judge.captured, file, images, Role.VALIDATION)
                for file in files
            )
        )
        verdict = accuracy.compare_captured(captured, floats_captured)
        answers_path = self._run.keep_answers(_name_files(stages), captured.answers)
        return replace(
            verdict,
            answers=replace(plain.answers, file=answers_path),
            capture=replace(verdict.capture, plain=plain.accuracy),
        )

    async def _quote_published(self, stages: VariantStages) -> AccuracyVerdict:
        if not stages.made_here:
            return accuracy.quote_top1(stages.card, FLOAT)
        if not self.walker.materials.weights_source(stages.card):
            return accuracy.quote_top1(stages.card, stages.compression)
        answers, floats = await asyncio.gather(
            self.walker.run(stages.answered), self.walker.run(stages.reference.answered)
        )
        return accuracy.find_published_top1(stages.card, stages.compression, answers, floats)


def _name_files(stages: VariantStages) -> str:
    """Return the name of the files of a variant in the run folder, without its ending."""
    return f"{stages.card.name}-{stages.training}-{stages.compression}"

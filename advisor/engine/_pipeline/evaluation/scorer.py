"""Judge finalists: run their files on the hold-out, under capture conditions, and on images of
other things.

The search loop (``_scheduling/finalists.py``) says which files are finalists and how long judging
may take. No image that a :class:`Scorer` uses chose a candidate, so its figures flatter nobody. It
writes the answers and files of finalists into the run folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.catalog import Card
from advisor.core import (
    Evaluation,
    HoldoutPart,
    Interval,
    OtherThings,
    Status,
    UnknownFacts,
    with_new_conditions,
)
from advisor.datasets import SplitPart
from advisor.engine._execution import call_in_own_thread
from advisor.engine._pipeline import cost
from advisor.engine._pipeline.evaluation.accuracy import (
    CAPTURED_HOLDOUT,
    compare_captured,
)
from advisor.engine._pipeline.evaluation.judge import HeldOut
from advisor.engine._pipeline.evaluation.judging import FEWEST_JUDGED, JudgingPace
from advisor.engine._pipeline.graph import VariantStages
from advisor.engine._pipeline.images import Images, Role
from advisor.engine._pipeline.lookup import Lookup
from advisor.engine._pipeline.materials import Artefact, Materials, Workload, input_spec
from advisor.engine._pipeline.stage import (
    Folders,
    Inputs,
    Job,
    Results,
    Scope,
    Stage,
    StageAborted,
    StageName,
)
from advisor.engine._pipeline.stages.figures import score_stage
from advisor.engine._pipeline.stages.unknown_score import compute_auroc
from advisor.engine._pipeline.walker import Walker
from advisor.store import Problem, RunFolder

Floats = NDArray[np.floating[Any]]


def describe_unknown(
    facts: UnknownFacts, holdout: Path, labels: Sequence[int], others: Path | None
) -> UnknownFacts:
    """Return the facts with those of the file's answers to the hold-out,
    and to images of other things if any.

    Both are ``.npy`` files of probabilities, float32 (N, C + 1);
    the last column is that of unknown.
    """
    known = np.load(holdout, allow_pickle=False)
    answers = known.argmax(axis=1)
    last = known.shape[1] - 1
    is_answered = answers != last
    answered = int(is_answered.sum())
    right = int((answers == np.asarray(labels)).sum())
    precision = Interval.wilson(right, answered) if answered else None
    facts = replace(facts, kept=Interval.wilson(answered, len(answers)), precision=precision)
    if others is None:
        return facts
    unknown = np.load(others, allow_pickle=False)
    rejected = int((unknown.argmax(axis=1) == last).sum())
    share: Interval = Interval.wilson(rejected, len(unknown))
    auroc = compute_auroc(_compute_margins(known), _compute_margins(unknown))
    return replace(facts, others=OtherThings(share, auroc, len(unknown)))


def _compute_margins(probabilities: Floats) -> Floats:
    """Return by how much the logit of unknown exceeds the largest other one."""
    logits = np.log(np.maximum(probabilities, 1e-12))
    return np.asarray(logits[:, -1] - logits[:, :-1].max(axis=1))


class Scorer:
    """Runs the files of finalists over images that chose nothing.

    ``pace`` knows the seconds that this takes.
    """

    def __init__(
        self,
        walker: Walker,
        workload: Workload,
        cards: Mapping[str, Card],
        run: RunFolder,
        pace: JudgingPace | None = None,
    ) -> None:
        self.walker = walker
        self.workload = workload
        self.cards = cards
        self._run = run
        self._pace = pace or JudgingPace()
        self._judge = workload.question.of_task.judge(workload.question)

    @property
    def captures(self) -> bool:
        """True if finalists run under capture conditions."""
        return self.workload.question.of_task.conditions

    @property
    def holdout_images(self) -> int:
        """Number of images of the hold-out."""
        return self.workload.images.get(Role.HOLDOUT, 0)

    def affordable(self, evaluations: Sequence[Evaluation], seconds: float) -> int:
        """Return on how many images of the hold-out the files
        of some evaluations can be judged in so many seconds by the clock.

        There are at least :data:`.judging.FEWEST_JUDGED`, and at most all. A file that ran over
        all of them in an earlier search takes no time.
        """
        if seconds == float("inf"):
            return self.holdout_images
        # Two evaluations may have one file, which runs once.
        by_file = {}
        for evaluation in evaluations:
            by_file[evaluation.artefact_sha256] = evaluation
        files = []
        for evaluation in by_file.values():
            if not self._has_answers(evaluation):
                configuration = evaluation.configuration
                files.append((self.cards[configuration.card], configuration.compression))
        if not files:
            return self.holdout_images
        count = self._pace.images_in(seconds, files, self.walker.workers.machine.cores)
        return min(max(count, FEWEST_JUDGED), self.holdout_images)

    async def hold_out(self, evaluation: Evaluation, most: int | None = None) -> Evaluation:
        """Return a finalist with the accuracy of its file on the hold-out, or on ``most`` of its
        images; None for all.

        Raises:
            StageAborted: the file cannot be run.
        """
        images = self.walker.materials.require_images()
        whole = self.holdout_images
        part = None
        if most is not None and most < whole:
            images = images.held_out(most)
            part = HoldoutPart(most, whole)
        count = len(images.part(Role.HOLDOUT).paths)
        stage = self._make_stage(evaluation, count)
        judging = stage if part is None else replace_images(stage, images, part.shown)
        answers = await self.walker.run(judging)
        # Answers are kept for comparisons of files, which need those to all images.
        stem = Path(evaluation.artefact).stem
        name = RunFolder.name_answers(f"{SplitPart.HOLDOUT}-{stem}") if part is None else ""
        judge = partial(self._judge.held_out, evaluation, answers, images, name)
        (judged, answers_by_file), cpu_s = await call_in_own_thread(_time_judge, judge)
        self._pace.note_judged(count, cpu_s)
        for file, values in answers_by_file.items():
            self._run.keep_answers(Path(file).stem, values)
        return with_new_conditions(replace(judged, holdout_part=part), images.own_holdout)

    def _make_stage(self, evaluation: Evaluation, count: int) -> Stage[Path]:
        """Return the stage that runs a file over the ``count`` images of the hold-out."""
        artefact = artefact_of(self._run, evaluation)
        card = self.cards[evaluation.configuration.card]
        scope = scope_of(evaluation)
        seconds = cost.scoring_s(card, scope.compression, count)
        stage: Stage[Path] = self.workload.question.of_task.score(
            scope, input_spec(card), artefact, Role.HOLDOUT, seconds
        )
        return stage

    def _has_answers(self, evaluation: Evaluation) -> bool:
        """Return whether the cache has the answers of a file to the whole hold-out."""
        with contextlib.suppress(StageAborted):
            stage = self._make_stage(evaluation, self.holdout_images)
            return Lookup(self.walker.materials).find(stage) is not None
        return False

    def tells_unknown(self, in_time: bool) -> bool:
        """Return whether a finalist gets a class for unknown things.

        Its probabilities and the user's images allow it.
        Without images of other things, there must be time, too.
        """
        images = self.walker.materials.images
        if not self.workload.question.of_task.probabilities or not self.holdout_images:
            return False
        has_others = images is not None and bool(images.others)
        return has_others or in_time

    async def tell_unknown(self, evaluation: Evaluation) -> Evaluation:
        """Return a finalist with what its file answers to images
        of things that are none of its classes.

        It raises StageAborted if the file cannot have a class for them, or cannot be run.
        """
        images = self.walker.materials.require_images()
        configuration = evaluation.configuration
        card = self.cards[configuration.card]
        scope = scope_of(evaluation)
        variant = VariantStages(
            card, configuration.training, configuration.compression, self.workload
        )
        with_unknown = await self.walker.run(variant.with_unknown)
        name = f"{Path(evaluation.artefact).stem}-unknown.tflite"
        path = self._run.keep_artefact(with_unknown.artefact.path, name)
        answers = dict[Role, Path]()
        for role in (Role.HOLDOUT, Role.OTHERS):
            count = len(images.part(role).paths)
            if count:
                seconds = cost.scoring_s(card, configuration.compression, count)
                stage = score_stage(scope, input_spec(card), with_unknown.artefact, role, seconds)
                answers[role] = await self.walker.run(stage)
        labels = images.part(Role.HOLDOUT).labels
        others = answers.get(Role.OTHERS)
        facts = await asyncio.to_thread(
            describe_unknown, with_unknown.facts, answers[Role.HOLDOUT], labels, others
        )
        file = str(path.relative_to(self._run.path))
        return replace(
            evaluation, unknown=replace(facts, file=file, sha256=with_unknown.artefact.sha256)
        )

    async def capture(self, evaluation: Evaluation) -> Evaluation:
        """Return a finalist with the accuracy of its file on the hold-out under capture
        conditions; StageAborted if it fails.
        """
        part = self.walker.materials.part(Role.CAPTURED)
        card = self.cards[evaluation.configuration.card]
        scope = scope_of(evaluation)
        seconds = cost.judging_s(card, len(part.paths))
        images = self.walker.materials.require_images()
        artefact = artefact_of(self._run, evaluation)
        stage = self.workload.question.of_task.capture(
            scope, input_spec(card), artefact, Role.CAPTURED, seconds
        )
        answers = await self.walker.run(stage)
        captured = await asyncio.to_thread(self._judge.captured, answers, images, Role.CAPTURED)
        judged = compare_captured(captured, captured, CAPTURED_HOLDOUT)
        capture = replace(judged.capture, holdout=judged.accuracy, plain=evaluation.capture.plain)
        return replace(evaluation, capture=capture)


def replace_images(stage: Stage[Path], images: Images, detail: str) -> Stage[Path]:
    """Return a stage that runs a file over other images than those of the search;
    ``detail`` names them.
    """

    def change(materials: Materials) -> Materials:
        return replace(materials, images=images)

    def inputs(materials: Materials, results: Results) -> Inputs:
        return stage.inputs(change(materials), results)

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        return stage.job(change(materials), results, folders)

    reads = stage.reads
    return replace(
        stage,
        # Another detail makes it another stage, which runs beside that of all images.
        scope=replace(stage.scope, detail=f"{stage.scope.detail} {detail}"),
        inputs=inputs,
        job=job,
        reads=None if reads is None else lambda materials: reads(change(materials)),
    )


def _time_judge(judge: Callable[[], HeldOut]) -> tuple[HeldOut, float]:
    """Return what a judge returns, and the CPU seconds that it took."""
    began = time.thread_time()
    return judge(), time.thread_time() - began


def artefact_of(run: RunFolder, evaluation: Evaluation) -> Artefact:
    """Return the file of an evaluation that a run keeps; StageAborted if it has changed.

    The cache keeps figures by the hash of the file,
    so a changed one would give its figures to the file that was there.
    """
    problem = Problem.find_in_artefact(run, evaluation)
    if problem is not None:
        raise StageAborted(Status.FAILED, StageName.SCORE, str(problem))
    return Artefact.at(run.path / evaluation.artefact, evaluation.artefact_sha256)


def scope_of(evaluation: Evaluation) -> Scope:
    """Return the scope of the stages of an evaluation's file."""
    configuration = evaluation.configuration
    return Scope(configuration.card, configuration.training, configuration.compression)

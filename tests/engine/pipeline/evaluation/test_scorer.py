"""Figures of finalists."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.core import Evaluation, HoldoutPart, TrainingName
from advisor.engine import Machine, Question, Stage, StageName, Workload, accuracy
from advisor.engine._pipeline.evaluation.scorer import Scorer, artefact_of
from advisor.engine._pipeline.images import Role
from advisor.engine._pipeline.lookup import Lookup
from advisor.engine._pipeline.stage import StageAborted
from advisor.engine._pipeline.walker import Workers, run_coroutine
from advisor.store import RunFolder, sha256_file
from advisor.tasks._judge import HELD_OUT
from advisor.tasks.classification import CLASSIFICATION
from advisor.tasks.detection import DETECTION
from tests.builders import must_fail
from tests.engine.pipeline.boxed import two_classes
from tests.tables import with_cases

from .test_evaluator import CARD, NAMES, Detecting, Prepared, evaluated


@with_cases
def test_anomalies_are_not_judged_under_capture_conditions(tmp_path: Path, task: str, captures: bool) -> None:
    workload, run = (
        Workload((TrainingName.HEAD,), NAMES, two_classes().counts, Question(task)),
        RunFolder.create(tmp_path, "run"),
    )
    scorer = Scorer(Prepared(tmp_path, {}), workload, {}, run)
    assert scorer.captures is captures


def finalist_of(
    kind: type[Prepared], folder: Path, task: str = CLASSIFICATION.name
) -> tuple[Prepared, RunFolder, Evaluation]:
    """Return what answers, and an int8 file that it evaluated with the run that has it."""
    walker = kind(folder, {"float32": 4, "int8": 3})
    finalist = evaluated(walker, "int8", folder, task=task)
    run = RunFolder((folder / "runs" / "latest").resolve())
    return walker, run, replace(finalist, artefact_sha256=sha256_file(run.path / finalist.artefact))


@pytest.mark.parametrize(
    ("kind", "task", "source", "file"),
    [
        (Prepared, CLASSIFICATION.name, accuracy.HELD_OUT, f"answers/holdout-{CARD.name}-head-int8.npy"),
        (Detecting, DETECTION.name, f"mAP@0.5 {HELD_OUT}", ""),
    ],
)
def test_a_task_judges_its_finalists(tmp_path: Path, kind: type[Prepared], task: str, source: str, file: str) -> None:
    walker, run, finalist = finalist_of(kind, tmp_path, task)
    scorer = Scorer(walker, Workload((TrainingName.HEAD,), NAMES, question=Question(task)), {CARD.name: CARD}, run)
    judged = run_coroutine(scorer.hold_out(finalist))
    assert (judged.holdout_accuracy.source, judged.holdout_accuracy.n) == (source, 4)
    assert judged.holdout_answers.file == file
    assert [str(path.relative_to(run.path)) for path in run.path.glob("answers/holdout-*")] == ([file] if file else [])


class OfSomeImages(Prepared):
    """Gives the answers to as many images as a stage reads."""

    async def run(self, stage: Stage[Any]) -> Any:
        made = await super().run(stage)
        if stage.name is StageName.SCORE and stage.reads is not None:
            np.save(made, np.load(made)[: len(stage.reads(self.materials).paths)])
        return made


def test_a_finalist_can_be_judged_on_a_part_of_the_hold_out(tmp_path: Path) -> None:
    walker, run, finalist = finalist_of(OfSomeImages, tmp_path)
    workload = Workload((TrainingName.HEAD,), NAMES, two_classes().counts)
    judged = run_coroutine(Scorer(walker, workload, {CARD.name: CARD}, run).hold_out(finalist, 2))
    assert (judged.holdout_accuracy.n, judged.holdout_part) == (2, HoldoutPart(2, 4))
    assert not list(run.path.glob("answers/holdout-*"))  # those to all images are compared


def test_a_file_that_ran_over_the_hold_out_takes_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walker, run, finalist = finalist_of(Prepared, tmp_path)
    workload = Workload((TrainingName.HEAD,), NAMES, {**two_classes().counts, Role.HOLDOUT: 1000})
    walker.workers = Workers(Machine(1), {})
    scorer = Scorer(walker, workload, {CARD.name: CARD}, run)
    assert scorer.affordable([finalist], 0.0) < 1000
    monkeypatch.setattr(Lookup, "find", lambda _lookup, stage: stage.name is StageName.SCORE)
    assert scorer.affordable([finalist], 0.0) == 1000


def test_a_file_of_the_run_that_has_changed_is_not_judged(tmp_path: Path) -> None:
    _, run, finalist = finalist_of(Prepared, tmp_path)
    (run.path / finalist.artefact).unlink()
    (run.path / finalist.artefact).write_bytes(b"of somebody else")
    must_fail(StageAborted, "has changed since it was measured", artefact_of, run, finalist)

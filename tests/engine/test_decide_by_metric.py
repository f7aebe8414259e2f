"""Decisions by another metric than top-1: over the same answers, another model may be the pick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.core.budget import Budget
from advisor.core.decision import Decision
from advisor.core.evaluation import Evaluation
from advisor.core.metrics import BALANCED_ACCURACY, COST_SAVED, LOG_LOSS, MACRO_F1, TOP1, WORST_GROUP
from advisor.engine.decide import decide_run
from advisor.engine.pipeline.evaluation.judging import Scored
from advisor.engine.pipeline.images import Images
from advisor.engine.question import Question, resolve
from advisor.store import RunFolder
from tests.builders import evaluation, present
from tests.engine.space.test_metric_needs import EACH, images_of

LABELS = [0] * 50 + [1] * 10
GROUPS = ["roof"] * 30 + ["cellar"] * 30
COSTS = "class,a,b\na,0,1\nb,20,0\n"

COMMON = [0] * EACH
"""Answers of a model that knows the common class only: 83 % are right."""

FAIR = [1] * 12 + [0] * 38 + [1] * 10
"""Answers of a model that finds the rare class, at the price of the common one: 80 % are right."""


@pytest.fixture
def images() -> Images:
    return images_of("ab", GROUPS, LABELS)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path, "x")
    rows = [{"class": "ab"[label]} for label in LABELS]
    folder.write_json("split.json", {"classes": ["a", "b"], "validation": rows, "holdout": rows})
    return folder


def judged(run: RunFolder, images: Images, card: str, answers: Sequence[int], question: Question) -> Evaluation:
    """Return the evaluation of a model with these answers, by the metric of the question."""
    own = run.path / f"{card}.npy"
    np.save(own, np.where(np.eye(2)[list(answers)] > 0, 0.9, 0.1))
    judge = question.of_task.judge(question)
    verdict = judge.verdict(Scored(own, own), images, run, card)
    return replace(evaluation(card), **vars(verdict))


def decided(run: RunFolder, images: Images, **options: str) -> Decision:
    question = resolve({"data": "photos", "prefer": "accuracy", **options}).question
    rows = [judged(run, images, card, answers, question) for card, answers in (("common", COMMON), ("fair", FAIR))]
    return decide_run(run, rows, question).decision


@pytest.mark.parametrize(
    ("metric", "pick"),
    [
        (TOP1, "common"),
        (BALANCED_ACCURACY, "fair"),
        (MACRO_F1, "fair"),
        (COST_SAVED, "fair"),
        (LOG_LOSS, "common"),
        (WORST_GROUP, "common"),
    ],
)
def test_the_pick_is_the_best_by_the_metric_asked_for(run: RunFolder, images: Images, metric: str, pick: str) -> None:
    decision = decided(run, images, metric=metric, costs=COSTS)
    assert present(decision.pick).configuration.card == pick


def test_a_limit_of_another_metric_changes_the_pick(run: RunFolder, images: Images) -> None:
    decision = decided(run, images, min_accuracy="balanced-accuracy=70%")
    assert present(decision.pick).configuration.card == "fair"
    assert "the limit of 70.0 % balanced accuracy is met with" in decision.reason


def test_ties_follow_the_metric(run: RunFolder, images: Images) -> None:
    assert len(decided(run, images).ties) == 1
    assert decided(run, images, metric=BALANCED_ACCURACY).ties == ()


def test_the_drop_on_the_hold_out_follows_the_metric(run: RunFolder, images: Images) -> None:
    question = resolve({"data": "photos", "metric": BALANCED_ACCURACY, "max_drop": "1pt"}).question
    judge, rows = question.of_task.judge(question), []
    for form, answers in (("float32", FAIR), ("int8", COMMON)):
        configuration = evaluation("net", form).configuration
        own = replace(judged(run, images, f"net-{form}", answers, question), configuration=configuration)
        scored, kept = judge.held_out(own, run.path / f"net-{form}.npy", images, f"answers/holdout-{form}.npy")
        for file, values in kept.items():
            run.keep_answers(Path(file).stem, values)
        rows.append(scored)
    found = decide_run(run, rows, question).evaluations[1]
    assert present(found.holdout_drop).value == pytest.approx(38)  # 88 % against 50 %
    assert not Budget(max_drop_points=1).met_by(found)

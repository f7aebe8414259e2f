from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.core.budget import Budget
from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import CardFacts, DeviceFigures, ImageAnswers
from advisor.core.quantity import Provenance, Quantity
from advisor.engine.decide import decide_run
from advisor.engine.question import resolve
from advisor.store import RunFolder
from tests.builders import evaluation, present

QUESTION = resolve({"budget": "50ms"}).question
LABELS = ["a"] * 50 + ["b"] * 50


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path, "x")
    folder.write_request({})
    rows = [{"path": f"{i}.jpg", "class": name, "sha256": str(i)} for i, name in enumerate(LABELS)]
    parts = {"train": [], "validation": rows, "holdout": rows[:3]}
    folder.write_json("split.json", {"classes": ["a", "b"], **parts})
    return folder


def answered(run: RunFolder, card: str, wrong: range, latency: float) -> Evaluation:
    answers = np.array([int(name == "b") for name in LABELS])
    answers[list(wrong)] = 1 - answers[list(wrong)]
    kept = run.keep_answers(card, answers.tolist())
    made = evaluation(card, accuracy=100 - len(wrong), half_width=8, latency=latency)
    return replace(made, answers=ImageAnswers(file=kept))


def test_the_same_mistakes_and_a_few_more_are_told_apart_though_intervals_overlap(run: RunFolder) -> None:
    best, worse = answered(run, "best", range(10), 20), answered(run, "worse", range(18), 2)
    assert worse.accuracy is not None
    assert present(best.accuracy).overlaps(worse.accuracy)
    decision = decide_run(run, [best, worse], QUESTION).decision
    assert decision.pick == best
    assert decision.ties == ()


def test_other_mistakes_of_about_the_same_number_tie(run: RunFolder) -> None:
    first, second = answered(run, "first", range(10), 20), answered(run, "second", range(40, 51), 2)
    decision = decide_run(run, [first, second], QUESTION).decision
    assert decision.pick == second
    assert decision.ties == (first,)


def test_answers_under_capture_conditions_are_compared_image_by_image(run: RunFolder) -> None:
    best, worse = answered(run, "best", range(0), 20), answered(run, "worse", range(20), 2)
    truth = np.array([int(name == "b") for name in LABELS])
    some = np.tile(truth, (14, 1))
    some[:7, :40] = 1 - some[:7, :40]
    run.keep_answers("best", np.tile(truth, (14, 1)))
    run.keep_answers("worse", some)
    decision = decide_run(run, [best, worse], QUESTION).decision
    assert decision.pick == best
    assert decision.ties == ()


def test_answers_that_were_deleted_leave_the_intervals(run: RunFolder) -> None:
    first, second = answered(run, "first", range(10), 20), answered(run, "second", range(12), 2)
    (run.path / second.answers.file).unlink()
    assert decide_run(run, [first, second], QUESTION).decision.pick == second


def test_a_pick_measured_without_its_weights_says_so(run: RunFolder) -> None:
    untrained = replace(evaluation("no_weights"), card_facts=CardFacts(weights=""))
    assert (
        "get its weights first: advisor catalog show no_weights"
        in decide_run(run, [untrained], QUESTION).decision.reason
    )


def test_what_an_earlier_decision_noted_is_not_taken_for_a_figure(run: RunFolder) -> None:
    slow = {"phone": DeviceFigures(p90_ms=900)}
    stale = replace(evaluation("one"), required_figures=slow, device_figures=slow)
    (found,) = decide_run(run, [stale], QUESTION).evaluations
    assert found.required_figures is None
    assert found.device_figures == {}


def test_a_drop_is_held_against_the_hold_out_where_float32_ran_there_too(run: RunFolder) -> None:
    rows = [{"class": name} for name in LABELS]
    run.write_json("split.json", {"classes": ["a", "b"], "validation": rows, "holdout": rows})
    floats, form = answered(run, "net", range(10), 20), answered(run, "net-int8", range(13), 5)
    configuration = replace(floats.configuration, compression="int8")
    right = np.array([int(name == "b") for name in LABELS])
    judged = run.keep_answers("holdout-net", right.tolist())
    worse = run.keep_answers("holdout-net-int8", np.where(np.arange(len(right)) < 20, 1 - right, right).tolist())
    floats = replace(floats, holdout_answers=ImageAnswers(file=judged))
    drop = Quantity(3.0, "points", Provenance.MEASURED, -1.0, 7.0, 0.95, len(LABELS))
    form = replace(form, configuration=configuration, drop=drop, holdout_answers=ImageAnswers(file=worse))
    question = replace(QUESTION, limits=Budget(max_drop_points=2.0))
    assert question.limits.met_by(replace(form, holdout_answers=None))
    found = decide_run(run, [floats, form], question)
    assert present(found.evaluations[1].holdout_drop).value == 20
    assert [question.limits.met_by(each) for each in found.evaluations] == [True, False]
    assert present(found.decision.pick).configuration.compression == "float32"
    assert decide_run(run, [floats, form], QUESTION).evaluations[1].holdout_drop is None

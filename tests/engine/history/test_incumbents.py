"""What the user ships is compared with the pick; what a run of heads says of fine-tuning."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.core import Decision, Evaluation, ImageAnswers, Provenance, Quantity
from advisor.engine import LoadedRun, resolve
from advisor.engine._history.diagnoses import list_losing
from advisor.engine._history.expected_tuning import ExpectedTuning, expect_tuning_gain
from advisor.engine._history.incumbents import find_incumbents
from advisor.reporting import RunView, recommendation
from advisor.reporting._files import render_markdown
from advisor.store import RunFolder
from tests.builders import evaluation, present
from tests.engine.history.test_compare import answered, run
from tests.run_folders import images, write_run
from tests.tables import with_cases

__all__ = ["run"]

RIGHT = [0, 1, 1, 0]
CARD = "mobilenet_v2_1.0_224"
HEAD = evaluation(CARD, "int8", accuracy=80, latency=5)
TUNED = replace(HEAD, configuration=replace(HEAD.configuration, training="finetune_cached"))


def shipped(run: RunFolder, answers: list[int], holdout: list[int] | None = None) -> Evaluation:
    own = answered(run, "int8", answers, "shipped")
    own = replace(own, card_facts=replace(own.card_facts, as_it_is=True))
    return judged(run, own, holdout) if holdout else own


def judged(run: RunFolder, own: Evaluation, answers: list[int]) -> Evaluation:
    file = run.keep_answers(f"holdout-{own.configuration.card}", answers)
    return replace(own, holdout_answers=ImageAnswers(file=file))


@pytest.mark.parametrize("first", [1, 7])
def test_switching_gains_what_the_pick_has_more_and_answers_of_no_class_are_wrong(run: RunFolder, first: int) -> None:
    own, pick = shipped(run, [first, 1, 1, 0]), answered(run, "int8", RIGHT)
    (found,) = find_incumbents(run, [own, pick], pick)
    assert (found.evaluation, found.picked, found.part) == (own, False, "validation")
    points = present(found.points)
    assert (points.value, points.n, present(points.low) < 25.0) == (25.0, 4, True)
    (alone,) = find_incumbents(run, [own], own)
    assert (alone.picked, alone.points) == (True, None)
    assert find_incumbents(run, [pick], pick) == find_incumbents(run, [own], None) == ()


def test_the_hold_out_counts_where_both_ran_there(run: RunFolder) -> None:
    own = shipped(run, RIGHT, [1, 0, 1, 0])
    pick = judged(run, answered(run, "int8", RIGHT), RIGHT)
    (found,) = find_incumbents(run, [own, pick], pick)
    assert (found.part, found.points and found.points.value) == ("hold-out", 50.0)
    rival = replace(pick, holdout_accuracy=evaluation(accuracy=100).accuracy)
    (picked,) = find_incumbents(run, [own, rival], own)
    assert (picked.rival, present(picked.points).value) == (rival, -50.0), "validation may be what it has learnt"
    (robust,) = find_incumbents(run, [own, pick], pick, robust=True)
    assert robust.part == "validation"


@pytest.mark.parametrize("threads", [1, 4])
def test_the_row_with_the_threads_of_the_pick_is_compared(run: RunFolder, threads: int) -> None:
    def on(row: Evaluation, count: int) -> Evaluation:
        own = row.configuration
        return replace(row, configuration=replace(own, target=replace(own.target, threads=count)))

    own = shipped(run, RIGHT)
    rows, pick = [on(own, 1), on(own, 4)], on(answered(run, "int8", RIGHT), threads)
    (found,) = find_incumbents(run, [*rows, pick], pick)
    assert found.evaluation.configuration.target.threads == threads


def _form(card: str, compression: str, drop: float, low: float | None) -> Evaluation:
    lost = Quantity(drop, "points", Provenance.MEASURED, low, None if low is None else 2 * drop - low)
    return replace(evaluation(card, compression), drop=lost, artefact=f"artifacts/{card}-{compression}.tflite")


def _run(tmp_path: Path, rows: tuple[Evaluation, ...], **asked: Any) -> LoadedRun:
    request = resolve({"budget": "50ms", **asked}, None)
    decision = Decision(rows[0], True, "", None, "", (), (), (), rows[:1])
    return LoadedRun(RunFolder(tmp_path), request, {}, {}, rows, decision)


@with_cases
def test_a_clear_loss_of_a_card_on_the_front_is_looked_into(
    tmp_path: Path, forms: list[tuple[str, str, float, float | None]], limit: str, found: list[str]
) -> None:
    rows = (_form("a", "float32", 0.0, 0.0), *(_form(*form) for form in forms))
    asked = {"max_drop": limit, "data": str(tmp_path)} if limit else {}
    assert [row.configuration.compression for row in list_losing(_run(tmp_path, rows, **asked))] == found


def _expected(folder: Path, *rows: Evaluation, each: int = 900) -> ExpectedTuning | None:
    dataset = images({"glass": each, "paper": each})
    return expect_tuning_gain(LoadedRun.load(write_run(folder, rows, dataset=dataset).path))


def test_a_run_of_heads_names_the_gain_the_time_and_a_command_that_works_also_in_the_report(tmp_path: Path) -> None:
    run = LoadedRun.load(write_run(tmp_path, [HEAD], dataset=images({"glass": 900, "paper": 900})).path)
    found, view = present(expect_tuning_gain(run)), RunView.of_run(run)
    command = found.command(view.folder)
    assert command in render_markdown(view).replace("\\", "")
    assert recommendation(view)["fine_tuning"] == {**vars(found), "command": command}
    assert 0 < found.low < found.points < found.high
    assert found.seconds > 0
    options = found.command("runs/one").split()
    given = dict(zip(options[2::2], options[3::2], strict=True))
    assert given["--candidates"] == CARD
    asked = resolve({"data": "photos", "training": given["--training"].split(",")})
    assert asked.question.trainings == ("head", "finetune_cached")


def test_a_share_of_the_errors_that_the_head_leaves_is_stated(tmp_path: Path) -> None:
    found = present(_expected(tmp_path / "hard", HEAD))
    better = present(_expected(tmp_path / "easy", evaluation(CARD, "int8", accuracy=98, half_width=2, latency=5)))
    assert better.high < 2
    assert (better.points, better.high) == (pytest.approx(found.points / 10), pytest.approx(found.high / 10))


@pytest.mark.parametrize(
    "rows",
    [
        (HEAD, replace(TUNED, accuracy=replace(HEAD.accuracy, value=60.0, low=57.0))),  # type: ignore[type-var]
        (TUNED,),
        (replace(HEAD, accuracy=replace(HEAD.accuracy, value=99.0, high=100.0)),),  # type: ignore[type-var]
        (evaluation("a card of no catalogue", "int8", accuracy=80),),
        (),
    ],
)
def test_nothing_is_said_where_it_was_tried_or_cannot_be(tmp_path: Path, rows: tuple[Evaluation, ...]) -> None:
    assert _expected(tmp_path, *rows) is None
    assert _expected(tmp_path, HEAD, each=200) is None

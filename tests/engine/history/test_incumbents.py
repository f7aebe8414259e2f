"""What the user ships is compared with the pick on the same images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import ImageAnswers
from advisor.engine.history.incumbents import incumbents
from advisor.store import RunFolder
from tests.builders import evaluation, present
from tests.engine.history.test_disagreements import answered, run

__all__ = ["run"]

RIGHT = [0, 1, 1, 0]


def shipped(run: RunFolder, answers: list[int], holdout: list[int] | None = None) -> Evaluation:
    own = answered(run, "int8", answers, "shipped")
    own = replace(own, card_facts=replace(own.card_facts, as_it_is=True))
    return judged(run, own, holdout) if holdout else own


def judged(run: RunFolder, own: Evaluation, answers: list[int]) -> Evaluation:
    file = run.keep_answers(f"holdout-{own.configuration.card}", answers)
    return replace(own, holdout_answers=ImageAnswers(file=file))


def test_switching_gains_what_the_pick_has_more_on_the_same_images(run: RunFolder) -> None:
    own, pick = shipped(run, [1, 1, 1, 0]), answered(run, "int8", RIGHT)
    (found,) = incumbents(run, [own, pick], pick)
    assert (found.evaluation, found.picked, found.part) == (own, False, "validation")
    assert found.points is not None
    assert (found.points.value, found.points.n) == (25.0, 4)
    assert found.points.low is not None
    assert found.points.low < 25.0


def test_the_hold_out_counts_where_both_ran_there(run: RunFolder) -> None:
    own = shipped(run, RIGHT, [1, 0, 1, 0])
    pick = judged(run, answered(run, "int8", RIGHT), RIGHT)
    (found,) = incumbents(run, [own, pick], pick)
    assert (found.part, found.points and found.points.value) == ("hold-out", 50.0)
    (robust,) = incumbents(run, [own, pick], pick, robust=True)
    assert robust.part == "validation"


def test_an_answer_that_is_no_class_is_wrong(run: RunFolder) -> None:
    own, pick = shipped(run, [7, 1, 1, 0]), answered(run, "int8", RIGHT)
    (found,) = incumbents(run, [own, pick], pick)
    assert present(found.points).value == 25.0


def test_the_pick_itself_has_no_difference(run: RunFolder) -> None:
    own = shipped(run, RIGHT)
    (found,) = incumbents(run, [own], own)
    assert (found.picked, found.points) == (True, None)


@pytest.mark.parametrize("threads", [1, 4])
def test_the_row_with_the_threads_of_the_pick_is_compared(run: RunFolder, threads: int) -> None:
    def on(row: Evaluation, count: int) -> Evaluation:
        own = row.configuration
        return replace(row, configuration=replace(own, target=replace(own.target, threads=count)))

    own = shipped(run, RIGHT)
    rows, pick = [on(own, 1), on(own, 4)], on(answered(run, "int8", RIGHT), threads)
    (found,) = incumbents(run, [*rows, pick], pick)
    assert found.evaluation.configuration.target.threads == threads


def test_without_a_file_of_the_user_there_is_none(run: RunFolder, tmp_path: Path) -> None:
    pick = evaluation("a", "int8")
    assert incumbents(run, [pick], pick) == ()
    assert incumbents(run, [shipped(run, RIGHT)], None) == ()

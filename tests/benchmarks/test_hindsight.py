"""The way that knows everything: it keeps to the ladder, and is no longer than evaluating in the table's order."""

from __future__ import annotations

from advisor.core.training import FINETUNE_TOP
from benchmarks.cost_table import PROBLEMS, Problem, Row
from benchmarks.hindsight import in_hindsight


def test_it_evaluates_everything_once_and_each_card_from_rung_to_rung(rows: list[Row]) -> None:
    problem = Problem(PROBLEMS["rungs"], rows)
    order = list(in_hindsight(problem))
    assert {row for row in order if row.answers} == set(problem.answers)
    assert len(set(order)) == len(order)
    for card in {row.card for row in order}:
        climbed = [problem.trainings.index(row.training) for row in order if row.card == card]
        assert climbed == sorted(climbed)


def test_it_is_no_longer_than_any_order(rows: list[Row]) -> None:
    problem = Problem(PROBLEMS["rungs"], rows)
    shortest = problem.course(in_hindsight(problem)).until(0.9)
    assert shortest < problem.course(iter(problem.rows.values())).until(0.9)


def test_it_does_not_fine_tune_first_what_adds_least(rows: list[Row]) -> None:
    order = [row for row in in_hindsight(Problem(PROBLEMS["rungs"], rows)) if row.training == FINETUNE_TOP]
    assert order[0].base == "efficientnet_lite0_224"  # two points more at the same price, time and size

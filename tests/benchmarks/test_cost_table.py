"""The exhaustive table as a search problem: what is due for an evaluation, and what it reaches."""

from dataclasses import replace

import pytest

from advisor.core.training import HEAD, HEAD_SUBSET
from benchmarks.cost_table import CORES, PROBLEMS, Problem, Purse, Row, read
from benchmarks.hindsight import in_hindsight
from tests.benchmarks.made_up import made

CARD = "mobilenet_v2_1.0_224"


def _seconds(*rows: Row) -> float:
    purse = Purse()
    for row in rows:
        purse.pay(row)
    return purse.spent


def test_cores_share_all_but_timings_and_the_float_form_is_paid_once() -> None:
    assert _seconds(made(CARD, 224, HEAD, "float32", 1)) == (10 + 2 + 2) / CORES + 3
    light, floating = made(CARD, 224, HEAD, "int8", 1), made(CARD, 224, HEAD, "float32", 1)
    assert _seconds(light) == (10 + 2 + 2 + 2) / CORES + 3
    assert _seconds(light, floating) == _seconds(light) + 3


def test_a_higher_rung_pays_what_lower_ones_have_not_done_and_a_first_look_reaches_nothing(rows: list[Row]) -> None:
    look, head = made(CARD, 224, HEAD_SUBSET, "float32", 1), made(CARD, 224, HEAD, "float32", 1)
    assert _seconds(look, head) - _seconds(look) == ((10 - 4) + 2 + 2) / CORES + 3
    problem = Problem(PROBLEMS["rungs"], rows)
    look = next(row for row in rows if row.training == HEAD_SUBSET)
    course = problem.course(iter([replace(look, accuracy=100.0)]))
    assert course.shares == (0.0,)
    assert course.seconds[0] > 0


def test_evaluating_everything_reaches_everything_whatever_the_order(rows: list[Row]) -> None:
    problem = Problem(PROBLEMS["rungs"], rows)
    for order in (problem.answers, problem.answers[::-1]):
        course = problem.course(iter(order))
        assert course.shares[-1] >= 0.99
        assert 0 < course.seconds[-1] <= problem.everything_s


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_table_that_is_kept_has_the_problem_whole(name: str) -> None:
    problem = read(name)
    assert len(problem.rows) >= 72
    assert set(problem.rows.values()) <= {problem.row(each) for each in problem.plan.configurations()}
    assert all(row.timing_s > 0 for row in problem.rows.values())


def test_it_evaluates_everything_once_from_rung_to_rung_and_is_no_longer_than_any_order(rows: list[Row]) -> None:
    problem = Problem(PROBLEMS["rungs"], rows)
    order = list(in_hindsight(problem))
    assert {row for row in order if row.answers} == set(problem.answers)
    assert len(set(order)) == len(order)
    for card in {row.card for row in order}:
        climbed = [problem.trainings.index(row.training) for row in order if row.card == card]
        assert climbed == sorted(climbed)
    shortest = problem.course(in_hindsight(problem)).until(0.9)
    assert shortest < problem.course(iter(problem.rows.values())).until(0.9)

"""The exhaustive table as a search problem: what is due for an evaluation, and what it reaches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.core.training import FINETUNE_TOP, HEAD, HEAD_SUBSET
from benchmarks.cost_table import CORES, PROBLEMS, Problem, Purse, Row, read
from tests.benchmarks.conftest import made

CARD = "mobilenet_v2_1.0_224"


def _seconds(*rows: Row) -> float:
    purse = Purse()
    for row in rows:
        purse.pay(row)
    return purse.spent


def test_cores_share_all_but_timings() -> None:
    assert _seconds(made(CARD, 224, HEAD, "float32", 1)) == (10 + 2 + 2) / CORES + 3


def test_a_form_is_held_against_the_float_one_which_is_paid_once() -> None:
    light, floating = made(CARD, 224, HEAD, "int8", 1), made(CARD, 224, HEAD, "float32", 1)
    assert _seconds(light) == (10 + 2 + 2 + 2) / CORES + 3
    assert _seconds(light, floating) == _seconds(light) + 3


def test_all_thread_counts_are_timed_in_one_go() -> None:
    one, two = (made(CARD, 224, HEAD, "float32", threads) for threads in (1, 2))
    assert _seconds(one, two) == _seconds(one)


def test_a_higher_rung_pays_what_lower_ones_have_not_done_of_the_shared_stages() -> None:
    look, head = made(CARD, 224, HEAD_SUBSET, "float32", 1), made(CARD, 224, HEAD, "float32", 1)
    assert _seconds(look, head) - _seconds(look) == ((10 - 4) + 2 + 2) / CORES + 3


def test_evaluating_everything_reaches_everything_whatever_the_order(rows: list[Row]) -> None:
    problem = Problem(PROBLEMS["rungs"], rows)
    for order in (problem.answers, problem.answers[::-1]):
        course = problem.course(iter(order))
        assert course.shares[-1] >= 0.99
        assert 0 < course.seconds[-1] <= problem.everything_s


def test_a_first_look_costs_and_reaches_nothing(rows: list[Row]) -> None:
    problem = Problem(PROBLEMS["rungs"], rows)
    look = next(row for row in rows if row.training == HEAD_SUBSET)
    course = problem.course(iter([replace(look, accuracy=100.0)]))
    assert course.shares == (0.0,)
    assert course.seconds[0] > 0


def test_a_card_that_lacks_a_rung_is_in_the_problems_below_it_only(rows: list[Row]) -> None:
    left = [row for row in rows if row.card != CARD or row.training != FINETUNE_TOP]
    assert CARD not in {row.card for row in Problem(PROBLEMS["rungs"], left).rows.values()}
    assert CARD in {row.card for row in Problem(PROBLEMS["head"], left).rows.values()}


def test_only_a_card_at_its_own_input_has_published_figures(rows: list[Row]) -> None:
    cards = {card.name: card for card in Problem(PROBLEMS["head"], rows).plan.cards}
    assert cards[CARD].published
    assert not cards[f"{CARD}_at_128"].published


def test_the_plan_has_every_configuration_of_the_table(rows: list[Row]) -> None:
    problem = Problem(PROBLEMS["rungs"], rows)
    assert {id(problem.row(each)) for each in problem.plan.configurations()} == {id(row) for row in rows}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_table_that_is_kept_has_the_problem_whole(name: str) -> None:
    problem = read(name)
    assert len(problem.rows) >= 72
    assert set(problem.rows.values()) <= {problem.row(each) for each in problem.plan.configurations()}
    assert all(row.timing_s > 0 for row in problem.rows.values())

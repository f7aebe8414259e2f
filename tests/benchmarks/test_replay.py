"""A search replayed on a small made-up table follows the product's rules with every sampler."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.core.training import FINETUNE_TOP, HEAD, HEAD_SUBSET
from benchmarks.cost_table import PROBLEMS, VALIDATION, Problem, Row
from benchmarks.replay import ADVISOR, GP, evaluation, searched

METHODS = (ADVISOR, "random", "nsga2")


@pytest.fixture
def problem(rows: list[Row]) -> Problem:
    """The table with all rungs."""
    return Problem(PROBLEMS["rungs"], rows)


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_evaluated_twice_and_a_card_is_promoted_when_all_below_is_done(
    problem: Problem, method: str
) -> None:
    order = list(searched(problem, method, seed=1))
    assert len({id(row) for row in order}) == len(order)
    ladder = (HEAD_SUBSET, HEAD, FINETUNE_TOP)
    for card in {row.card for row in order}:
        climbed = [ladder.index(row.training) for row in order if row.card == card]
        assert climbed == sorted(climbed)


@pytest.mark.parametrize("method", METHODS)
def test_what_can_still_reach_the_front_is_evaluated(problem: Problem, method: str) -> None:
    course = problem.course(searched(problem, method, seed=1))
    assert course.shares[-1] >= 0.99


def test_what_cannot_reach_the_front_is_rejected_and_costs_nothing(rows: list[Row]) -> None:
    hopeless = {"mobilenet_v2_1.0_224": 40.0}
    worse = [replace(row, accuracy=hopeless.get(row.base, row.accuracy)) for row in rows]
    order = list(searched(Problem(PROBLEMS["rungs"], worse), ADVISOR, seed=0))
    assert any(row.training == FINETUNE_TOP for row in order)
    assert not any(row.training == FINETUNE_TOP and row.base in hopeless for row in order)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_order(problem: Problem, method: str) -> None:
    assert list(searched(problem, method, seed=3)) == list(searched(problem, method, seed=3))


def test_the_gaussian_process_goes_the_same_way_as_the_others(problem: Problem) -> None:
    pytest.importorskip("torch", reason="Optuna's Gaussian process needs PyTorch")
    assert problem.course(searched(problem, GP, seed=0)).shares[-1] >= 0.99


def test_an_evaluation_says_what_the_table_does_and_how_sure_it_is(problem: Problem) -> None:
    asked = next(each for each in problem.plan.configurations() if each.compression == "int8")
    row = problem.row(asked)
    assert row is not None
    told = evaluation(problem, asked, row)
    assert told.accuracy is not None
    assert told.accuracy.value == row.accuracy
    assert told.accuracy.n == VALIDATION
    assert told.accuracy.low < row.accuracy < told.accuracy.high


def test_a_card_that_cannot_be_fine_tuned_says_so_and_costs_nothing(rows: list[Row]) -> None:
    name = "mobilenet_v2_1.0_224"
    left = [row for row in rows if row.card != name or row.training != FINETUNE_TOP]
    whole = Problem(PROBLEMS["whole"], left, whole=True)
    order = list(searched(whole, "random", seed=0))
    assert {row.training for row in order if row.card == name} == {HEAD}
    assert whole.course(iter(order)).shares[-1] >= 0.99

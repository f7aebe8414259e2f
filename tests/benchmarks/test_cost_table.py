"""The exhaustive table as a search problem: what is due for an evaluation, and what it reaches."""

import pytest

from advisor.core.training import HEAD
from benchmarks.cost_table import CORES, PROBLEMS, Purse, Row, read
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


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_table_that_is_kept_has_the_problem_whole(name: str) -> None:
    problem = read(name)
    assert len(problem.rows) >= 72
    assert set(problem.rows.values()) <= {problem.row(each) for each in problem.plan.configurations()}
    assert all(row.timing_s > 0 for row in problem.rows.values())

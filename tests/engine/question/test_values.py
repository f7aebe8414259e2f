"""What a search derives from the values of a request."""

from __future__ import annotations

import pytest

from advisor.engine.question import Execution
from advisor.engine.question.values import LARGE_SPACE, LEAST_GAIN
from advisor.isolation.resources import usable_cores


@pytest.mark.parametrize(
    ("execution", "configurations", "share"),
    [
        (Execution(), LARGE_SPACE - 1, None),
        (Execution(), LARGE_SPACE, LEAST_GAIN),
        (Execution(sampler="tpe"), LARGE_SPACE, None),
        (Execution(stop_below=0.02), 1, 0.02),
        (Execution(stop_below=0.0), LARGE_SPACE, None),
    ],
)
def test_the_least_gain_depends_on_the_space_unless_it_is_given(
    execution: Execution, configurations: int, share: float | None
) -> None:
    assert execution.least_gain(configurations) == share


def test_workers_default_to_the_cores() -> None:
    assert (Execution().cores, Execution(workers=3).cores) == (usable_cores(), 3)

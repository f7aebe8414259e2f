"""Reasons for a pick, in words."""

from __future__ import annotations

from advisor.core.reasons import comparison
from tests.builders import evaluation


def test_a_difference_that_rounds_to_nothing_has_no_minus() -> None:
    text = comparison(evaluation("one", accuracy=80.0), evaluation("two", accuracy=80.04))
    assert ": +0.0 points, " in text

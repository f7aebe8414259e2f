"""The exit codes of the commands are those of the documentation."""

from __future__ import annotations

from advisor.core.errors import ExitCode, StageError, UsageError, WeightsError


def test_the_numbers_are_those_of_the_documentation() -> None:
    assert {code.name: code.value for code in ExitCode} == {
        "OK": 0, "INTERNAL_ERROR": 1, "USAGE": 2, "UNSATISFIED": 3, "CHANGED": 4, "INTERRUPTED": 130,
    }  # fmt: skip
    assert [error.exit_code for error in (UsageError, WeightsError, StageError)] == [2, 2, 1]

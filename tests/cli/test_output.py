"""Progress of commands that take a while."""

from __future__ import annotations

import pytest

from advisor.cli.output import progress


def test_progress_is_not_shown_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as tell:
        tell("a step")
    assert capsys.readouterr() == ("", "")


def test_a_program_that_follows_gets_a_line_for_each_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADVISOR_PROGRESS", "lines")
    with progress() as tell:
        tell("a step\x1b[31m")
        tell("the next")
    assert capsys.readouterr() == ("", "a step\\x1b[31m\nthe next\n")

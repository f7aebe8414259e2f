"""The command line of ``python -m benchmarks accuracy``."""

from __future__ import annotations

import sys

import pytest

from benchmarks.accuracy import PARTS, main


@pytest.mark.parametrize("part", PARTS)
def test_each_part_shows_its_own_help(
    part: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["accuracy", "--part", part, "--help"])
    with pytest.raises(SystemExit, match="0"):
        main()
    shown = capsys.readouterr().out
    assert f"usage: python -m benchmarks accuracy --part {part}" in shown
    assert ("--seeds" in shown) == (part not in ("summary", "expectation", "limit"))


def test_without_a_part_the_help_names_all_parts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["accuracy", "--help"])
    main()
    assert ",".join(PARTS) in capsys.readouterr().out

"""The file that says what a search is doing."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.engine.standing import FILE, Standing, read_standing, write_standing
from advisor.store import RunFolder


@pytest.mark.parametrize("standing", [Standing("reading images"), Standing("joining a", 3, 9, 75.2, 0.5)])
def test_a_moment_is_read_as_it_was_written(tmp_path: Path, standing: Standing) -> None:
    assert read_standing(RunFolder(tmp_path)) is None
    write_standing(RunFolder(tmp_path), standing)
    assert read_standing(RunFolder(tmp_path)) == standing


@pytest.mark.parametrize("content", ["", "[]", "{", '{"now": 1}', '{"now": ["a"], "share": "b"}'])
def test_a_damaged_file_says_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content, encoding="utf-8")
    assert read_standing(RunFolder(tmp_path)) is None


def test_a_damaged_entry_is_left_out(tmp_path: Path) -> None:
    content = '{"schema_version": 1, "now": "joining a", "left_s": "soon", "share": NaN, "more": 1}'
    (tmp_path / FILE).write_text(content.replace("NaN", "[]"), encoding="utf-8")
    assert read_standing(RunFolder(tmp_path)) == Standing("joining a")

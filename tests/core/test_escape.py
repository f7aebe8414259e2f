"""Untrusted text never steers a terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from advisor.core.escape import visible


def test_an_escape_sequence_is_written_out() -> None:
    assert visible("\x1b[31mred\u202e\nnext") == "\\x1b[31mred\\u202e\nnext"


@given(st.text())
def test_lines_stay_lines_and_nothing_else_is_a_control_character(text: str) -> None:
    shown = visible(text)
    assert shown.count("\n") == text.count("\n")
    assert all(char == "\n" or char.isprintable() or char in " \u200c\u200d" or char.isspace() for char in shown)
    shown.encode("utf-8")

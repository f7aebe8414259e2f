"""Untrusted text never steers a terminal."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from advisor.core.escape import visible

STEERING = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
"""Categories of control, format and private characters, of lone surrogates, and of separators of lines."""


def test_an_escape_sequence_is_written_out() -> None:
    assert visible("\x1b[31mred\u202e\nnext") == "\\x1b[31mred\\u202e\nnext"


@given(st.text())
def test_lines_stay_lines_and_nothing_else_is_a_control_character(text: str) -> None:
    shown = visible(text)
    assert shown.count("\n") == text.count("\n")
    assert not {unicodedata.category(char) for char in shown if char not in "\n\u200c\u200d"} & STEERING
    shown.encode("utf-8")

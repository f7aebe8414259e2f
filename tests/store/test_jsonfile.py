"""Untrusted JSON is read whole or refused in one line that says where."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.core.errors import UsageError
from advisor.store.jsonfile import MAX_STRING, parse_json, read_json

TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)  # fmt: skip


@given(VALUES)
def test_plain_values_come_back_as_they_were_written(value: object) -> None:
    assert parse_json(json.dumps(value)) == value


@given(st.text() | st.text(st.sampled_from('[]{}",:0123456789eE.-+truefalsnN\\u')))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_json(text)
    except ValueError as error:
        assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1,\n"b": }', "line 2: Expecting value"),
        ("[" * 100_000 + "]" * 100_000, "values nested more than 64 deep"),
        ('{"a": ' + "[" * 70 + "]" * 70 + "}", "a.0.0"),
        ('{"a": [1, NaN]}', "a.1: a number that is not finite"),
        ('{"a": 1e400}', "a: a number that is not finite"),
        ('{"a": 1' + "0" * 400 + "}", "a: a whole number of more than 64 bits"),
        ('{"a": ' + "9" * 5000 + "}", "a number of more than 4,300 digits"),
        ('{"a": {"b": "\\u0000"}}', "a.b: a NUL character"),
        ('{"a\\u0000": 1}', "a key with a NUL character"),
        ('{"a": "\\ud800"}', "a: half a character"),
        (json.dumps({"a": "x" * (MAX_STRING + 1)}), "a: a text of 65537 characters"),
        ('"\\u001b" x', "line 1: Extra data"),
    ],
)  # fmt: skip
def test_what_is_beyond_the_limits_is_named_with_its_place(text: str, words: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        parse_json(text)
    assert str(refused.value).startswith(words)


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(UsageError, match=r"pipe.json: is not a plain file"):
        read_json(tmp_path / "pipe.json")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "large.json").write_text("[1, 2, 3]")
    with pytest.raises(UsageError, match="larger than 4 B"):
        read_json(tmp_path / "large.json", max_bytes=4)

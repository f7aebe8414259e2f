"""One line of an error, text that cannot steer a terminal, and reasons for a pick."""

import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from advisor.core import _errors as errors, visible
from advisor.core._reasons import compare_with_pick
from tests.builders import CHARACTERS, evaluation

STEERING = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
"""Categories of control, format and private characters, of lone surrogates, and of separators of lines."""


def test_an_error_is_its_first_line_that_says_something_or_its_class() -> None:
    assert [read("one\ntwo\nthree") for read in (errors.first_line, errors.last_line)] == ["one", "three"]
    for read in (errors.first_line, errors.last_line):
        assert (read("\n  \n  one  \n\n"), read(""), read("x" * 400)) == ("one", "", "x" * 300)
    assert errors.message_of(ValueError("bad value\nat line 3")) == "bad value"
    assert errors.message_of(KeyboardInterrupt()) == "KeyboardInterrupt"


@pytest.mark.parametrize(("value", "meant"), [("nosuch", ""), ("achor", " (did you mean 'anchor'?)")])
def test_only_a_name_that_is_close_is_suggested(value: str, meant: str) -> None:
    assert errors.nearest(value, ["anchor", "temperature"]) == meant


def test_a_missing_package_is_wrong_usage_with_a_hint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert errors.install_extra("ray") == "pip install -e '.[ray]' in the source folder"
    monkeypatch.setattr(errors, "CHECKOUT", tmp_path)  # as an installed wheel has it
    assert errors.install_extra("ray") == "pip install 'ondevice-advisor[ray]'"
    errors.require_extra("json", "ray", "never said")
    with pytest.raises(errors.UsageError, match="no such package") as raised:
        errors.require_extra("a_package_that_is_missing", "ray", "no such package")
    assert (raised.value.hint, raised.value.exit_code) == (errors.install_extra("ray"), errors.ExitCode.USAGE)


def test_training_is_refused_where_tensorflow_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    errors.require_training("a search")
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(errors.UsageError, match="a search needs TensorFlow, which is not installed") as raised:
        errors.require_training("a search")
    assert raised.value.hint == errors.install_extra("train")
    monkeypatch.setattr(errors, "NO_TENSORFLOW", (3, 11))  # as on Python 3.14
    hints = {errors.install_extra(extra) for extra in errors.WITH_TENSORFLOW}
    assert hints == {"TensorFlow 2.21 needs Python 3.11 to 3.10: install advisor in one of these"}


@given(st.text(CHARACTERS))
def test_lines_stay_lines_and_nothing_else_is_a_control_character(text: str) -> None:
    shown = visible(text)
    assert shown.count("\n") == text.count("\n")
    assert not {unicodedata.category(char) for char in shown if char not in "\n\u200c\u200d"} & STEERING
    shown.encode("utf-8")


def test_a_difference_that_rounds_to_nothing_is_none() -> None:
    text = compare_with_pick(evaluation("one", accuracy=80.0), evaluation("two", accuracy=80.04))
    assert text.endswith(": as accurate, about as fast, about as large")

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.core import units
from advisor.core.errors import UsageError
from tests.zones import zone


@pytest.mark.parametrize(
    ("text", "expected"), [("50ms", 50.0), ("0.05s", 50.0), (" 800 us ", 0.8), ("5e1ms", 50.0), ("1.5ms", 1.5)]
)
def test_a_latency_is_read_in_milliseconds(text: str, expected: float) -> None:
    assert units.milliseconds(text, "--budget") == pytest.approx(expected)


@pytest.mark.parametrize(("text", "expected"), [("5MB", 5_000_000), ("4MiB", 4 * 2**20), ("300kB", 300_000)])
def test_a_size_is_read_in_bytes(text: str, expected: int) -> None:
    assert units.size_bytes(text, "--size-budget") == expected


def test_a_bare_number_is_refused_with_the_unit_it_lacks() -> None:
    with pytest.raises(UsageError) as caught:
        units.milliseconds("50", "--budget")
    assert "'50' has no unit" in caught.value.message
    assert "--budget 50ms" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        units.size_bytes("5", "--size-budget")
    assert "did you mean --size-budget 5MB?" in caught.value.hint


@pytest.mark.parametrize("text", ["0ms", "-5ms", "-0.0ms"])
def test_a_budget_that_is_not_above_zero_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not above zero"):
        units.milliseconds(text, "--budget")


def test_an_unknown_unit_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'ms'"):
        units.milliseconds("50mss", "--budget")


@pytest.mark.parametrize("text", ["", "ms", "fast", "1e999ms", "nan ms", "5 0ms"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        units.milliseconds(text, "--budget")


def test_a_percentage_above_a_hundred_is_refused() -> None:
    with pytest.raises(UsageError, match="above 100%"):
        units.percent("120%", "--min-accuracy")


@given(st.text(max_size=20))
def test_any_text_is_a_positive_number_or_a_usage_error(text: str) -> None:
    try:
        assert units.milliseconds(text, "--budget") > 0
    except UsageError as error:
        assert error.exit_code == 2
        assert "--budget" in error.message


@given(st.floats(min_value=1e-3, max_value=1e9))
def test_formatting_keeps_a_unit(value: float) -> None:
    assert units.show_ms(value).endswith("ms")
    assert units.show_bytes(value).endswith("B")


@pytest.mark.parametrize(("seconds", "text"), [(42, "42 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")])
def test_durations_read_as_people_say_them(seconds: float, text: str) -> None:
    assert units.show_seconds(seconds) == text


def test_names_are_joined_and_many_are_counted() -> None:
    assert units.listed(["a", "b"], 2) == "a, b"
    assert units.listed(["a", "b", "c", "d"], 2) == "a, b and 2 more"


@pytest.mark.parametrize("text", ["1e308GB", "1e400B", "1.1e15B"])
def test_a_size_beyond_a_petabyte_is_too_large(text: str) -> None:
    with pytest.raises(UsageError, match=f"--size-budget: '{text}' is too large"):
        units.size_bytes(text, "--size-budget")


@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        ("CET-1", "2026-01-31 13:00:00 CET"),
        ("UTC0", "2026-01-31 12:00:00 UTC"),
        ("<-03>3", "2026-01-31 09:00:00 UTC-03:00"),
        ("<+0530>-5:30", "2026-01-31 17:30:00 UTC+05:30"),
    ],
)
def test_a_time_is_shown_in_the_user_s_zone(rule: str, shown: str) -> None:
    with zone(rule):
        assert units.show_time(datetime(2026, 1, 31, 12, tzinfo=UTC)) == shown

"""One line of an error or a text, for messages."""

from __future__ import annotations

import pytest

from advisor.core.errors import ExitCode, UsageError, first_line, install_extra, last_line, message_of, require_extra


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("one\ntwo\nthree", "one", "three"),
        ("\n  \n  one  \n\n", "one", "one"),
        ("", "", ""),
        ("x" * 400, "x" * 300, "x" * 300),
    ],
)
def test_the_first_and_the_last_line_that_say_something(text: str, first: str, last: str) -> None:
    assert (first_line(text), last_line(text)) == (first, last)


def test_an_error_without_a_message_is_named_by_its_class() -> None:
    assert message_of(ValueError("bad value\nat line 3")) == "bad value"
    assert message_of(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_the_hint_for_an_extra_names_this_distribution_and_works_in_a_checkout() -> None:
    assert install_extra("ray") == "pip install 'ondevice-advisor[ray]' (in a checkout: pip install '.[ray]')"


def test_a_missing_package_is_wrong_usage_and_the_hint_installs_it() -> None:
    require_extra("json", "ray", "never said")
    with pytest.raises(UsageError, match="no such package") as raised:
        require_extra("a_package_that_is_missing", "ray", "no such package")
    assert (raised.value.hint, raised.value.exit_code) == (install_extra("ray"), ExitCode.USAGE)

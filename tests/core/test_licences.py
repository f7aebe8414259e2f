from __future__ import annotations

import pytest

from advisor.core.errors import UsageError
from advisor.core.licences import allows, parse_licences


@pytest.mark.parametrize(
    ("wanted", "licence", "allowed"),
    [
        ("", "AGPL-3.0", True),
        ("", None, True),
        ("permissive", "Apache-2.0", True),
        ("permissive", "bsd-3-clause", True),
        ("permissive", "AGPL-3.0", False),
        ("permissive", "CC-BY-NC-4.0", False),
        ("permissive", "", False),
        ("permissive", None, False),
        ("permissive,CC-BY-4.0", "CC-BY-4.0", True),
        ("MIT", "Apache-2.0", False),
    ],
)
def test_which_licences_are_taken(wanted: str, licence: str | None, allowed: bool) -> None:
    assert allows(parse_licences(wanted), licence) is allowed


@pytest.mark.parametrize("text", ["free as in beer", "<b>", "MIT;GPL"])
def test_what_is_no_licence_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--licence"):
        parse_licences(text)

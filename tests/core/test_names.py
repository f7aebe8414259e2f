"""Addresses of ``--storage``."""

from __future__ import annotations

import pytest

from advisor.core.errors import UsageError
from advisor.core.names import check_storage, without_password


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("postgresql://me:pw@host/db", "postgresql://me@host/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("--storage=postgresql://me:p%40w@host:5/db?host=/run/x", "--storage=postgresql://me@host:5/db?host=/run/x"),
        ("postgres://host/db?user=me&password=pw", "postgres://host/db?user=me"),
        ("journal", "journal"),
    ],
)
def test_passwords_are_taken_out_of_addresses(written: str, shown: str) -> None:
    assert without_password(written) == shown


@pytest.mark.parametrize("storage", ["journal", "sqlite", "postgresql://me@host/db"])
def test_a_valid_storage_is_returned_as_it_is(storage: str) -> None:
    assert check_storage(storage) == storage


@pytest.mark.parametrize(
    ("storage", "words"),
    [
        ("jornal", "did you mean 'journal'"),
        ("mysql://me:hidden@host/db", "unknown 'mysql://...'"),
        ("postgresql://me:hidden@host", "names no database"),
    ],
)
def test_another_storage_is_refused_without_its_password(storage: str, words: str) -> None:
    with pytest.raises(UsageError, match="--storage") as refused:
        check_storage(storage)
    assert words in refused.value.message
    assert "hidden" not in refused.value.message

"""The time zone of the user, for tests."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def zone(rule: str) -> Iterator[None]:
    """Set the time zone to a POSIX rule such as ``CET-1``, for the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", rule)
        time.tzset()
        yield
    time.tzset()

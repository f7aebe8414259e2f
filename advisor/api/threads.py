"""Thread counts as arguments: numbers, or ``all``."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.core.errors import UsageError


def thread_counts(threads: Iterable[int | str]) -> tuple[int, ...]:
    """Return the thread counts as numbers; ``all`` is the number of cores that this process may use.

    Raises:
        UsageError: another text, or a number below 1.
    """
    return tuple(map(_count, threads))


def _count(given: int | str) -> int:
    if given == "all":
        from advisor.isolation.resources import usable_cores

        return usable_cores()
    text = str(given)
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"--threads: '{given}' is not a number of threads", "give numbers from 1, or 'all'")
    return int(text)

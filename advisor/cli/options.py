"""The values of options that several commands share: names, thread counts, shapes, numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.core.errors import UsageError


def split_commas(values: Sequence[str] | None) -> tuple[str, ...]:
    """Return the parts of an option that may be repeated, or joined by commas; none where it is not given."""
    return tuple(part.strip() for value in values or () for part in value.split(",") if part.strip())


def counts(values: Sequence[str] | None) -> tuple[int, ...]:
    """Parse thread counts: numbers or ``all``, repeated or joined by commas; 1 where nothing is given.

    Raises:
        UsageError: something else.
    """
    return tuple(map(_count, split_commas(values or ["1"])))


def shape_of(text: str | None) -> tuple[int, ...] | None:
    """Parse a shape: ``1,224,224,3`` or ``1x224x224x3``.

    Raises:
        UsageError: something else.
    """
    if text is None:
        return None
    parts = text.replace("x", ",").split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"--shape: '{text}' is not a shape", "write for example --shape 1,224,224,3")
    return tuple(int(part) for part in parts)


def numbers(text: str | None, option: str) -> tuple[int, ...] | None:
    """Parse whole numbers from 0 on, joined by commas.

    Raises:
        UsageError: something else.
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise UsageError(f"{option}: '{text}' is no list of numbers", f"write for example {option} 0,1")
    return tuple(map(int, parts))


def decimals(text: str | None, option: str) -> tuple[float, ...] | None:
    """Parse one number, or three joined by commas: ``127.5`` or ``123.7,116.3,103.5``.

    Raises:
        UsageError: something else.
    """
    if text is None:
        return None
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if len(values) not in (1, 3) or not all(math.isfinite(value) for value in values):
        raise UsageError(f"{option}: '{text}' is not one number or three", f"write for example {option} 127.5")
    return values


def _count(part: str) -> int:
    if part == "all":
        from advisor.isolation.cores import usable_cores

        return usable_cores()
    if not part.isdecimal() or int(part) < 1:
        raise UsageError(f"--threads: '{part}' is not a number of threads", "give numbers from 1, or 'all'")
    return int(part)

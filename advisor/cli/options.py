"""Values of options as a user writes them: several names, a shape, numbers."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.core.errors import UsageError
from advisor.core.units import channel_values


def split(values: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the parts of an option that may be repeated, or joined by commas; None if the option is not given."""
    parts = tuple(part.strip() for value in values or () for part in value.split(",") if part.strip())
    return parts or None


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
        raise UsageError(f"{option}: '{text}' is not a list of whole numbers", f"write for example {option} 0,1")
    return tuple(map(int, parts))


def channels(text: str | None, option: str) -> tuple[float, ...] | None:
    """Parse one number, or three joined by commas: ``127.5`` or ``123.7,116.3,103.5``.

    Raises:
        UsageError: something else.
    """
    return None if text is None else channel_values(text, option)

"""Parse values of options as a user writes them: names joined by commas, shapes, numbers.

Only the command line needs these forms; the public functions take sequences.
"""

from __future__ import annotations

from collections.abc import Sequence

from advisor.core import UsageError, units


def split_values(values: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the parts of an option that may be repeated, or joined by commas;
    None if the option is not given.
    """
    words = [part.strip() for part in ",".join(values or ()).split(",")]
    return tuple(filter(None, words)) or None


def parse_shape(text: str | None) -> tuple[int, ...] | None:
    """Parse a shape: ``1,224,224,3`` or ``1x224x224x3``. Raises UsageError: something else."""
    if text is None:
        return None
    sides = tuple(units.whole_number(part) or 0 for part in text.replace("x", ",").split(","))
    if not all(sides):
        raise UsageError(
            f"--shape: '{text}' is not a shape", "write for example --shape 1,224,224,3"
        )
    return sides


def parse_numbers(text: str | None, option: str) -> tuple[int, ...] | None:
    """Parse whole numbers from 0 on, joined by commas. Raises UsageError: something else."""
    if text is None:
        return None
    parsed = list(map(units.whole_number, text.split(",")))
    if None in parsed:
        raise UsageError(
            f"{option}: '{text}' is not a list of whole numbers", f"write for example {option} 0,1"
        )
    return tuple(number for number in parsed if number is not None)


def parse_channels(text: str | None, option: str) -> tuple[float, ...] | None:
    """Parse one number, or three joined by commas, see ``channel_values`` of ``core``."""
    return None if text is None else units.channel_values(text, option)

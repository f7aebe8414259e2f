"""Read untrusted JSON with limits, and say what is beyond a limit, and where.

Every JSON file that is not our own is read here: annotations, profiles, answers of tools.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

from advisor.core import ContentError, UsageError, visible
from advisor.store._yamlfile import MAX_DEPTH, read_text

MAX_BYTES = 2**28  # Bytes of a file: the split of a million images fits
MAX_STRING = 2**16  # Characters of a string; the longest path has 4,096

MAX_INTEGER = 2**63

_SHOWN = 40  # Characters of a key in an error


def read_json(path: Path, max_bytes: int = MAX_BYTES) -> object:
    """Return the value in a JSON file; UsageError if it cannot be read or is beyond a limit."""
    text = read_text(path, max_bytes)
    try:
        return parse_json(text)
    except ValueError as error:
        raise UsageError(f"{path}: {error}", "restore this file, or remove it") from None


def parse_json(text: str) -> object:
    """Return the value in a JSON text.

    ValueError with the line or the keys if the text is not JSON, or a value is beyond the limits.
    """
    try:
        value: object = json.loads(text)
    except RecursionError:
        raise ContentError(f"values nested more than {MAX_DEPTH} deep") from None
    except json.JSONDecodeError as error:
        raise ContentError(f"line {error.lineno}: {error.msg}") from None
    except ValueError:  # Python converts at most 4,300 digits
        raise ContentError("a number of more than 4,300 digits") from None
    fault = _find_fault(value, 0)
    if fault:
        raise ContentError(fault.lstrip(".: "))
    return value


def _find_fault(value: object, depth: int) -> str:
    """Return the keys to the first value beyond the limits, and its fault; empty for none."""
    if isinstance(value, str):
        return _find_text_fault(value)
    if isinstance(value, float):
        return "" if math.isfinite(value) else ": a number that is not finite"
    if isinstance(value, int):
        return (
            "" if -MAX_INTEGER <= value < MAX_INTEGER else ": a whole number of more than 64 bits"
        )
    if value is None:
        return ""
    if depth == MAX_DEPTH:
        return f": values nested more than {MAX_DEPTH} deep"
    entries: Iterable[tuple[object, object]] = value.items() if isinstance(value, dict) else ()
    if isinstance(value, (list, tuple)):
        entries = enumerate(value)
    for key, entry in entries:
        fault = _find_text_fault(key) if isinstance(key, str) else ""
        if fault:
            return f": a key with {fault.removeprefix(': ')}"
        fault = _find_fault(entry, depth + 1)
        if fault:
            return f".{visible(str(key)[:_SHOWN])}{fault}"
    return ""


def _find_text_fault(value: str) -> str:
    if len(value) > MAX_STRING:
        return f": a text of {len(value)} characters"
    if "\0" in value:
        return ": a NUL character"
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        return ": half a character (a lone surrogate)"
    return ""

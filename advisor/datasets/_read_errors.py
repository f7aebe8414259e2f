"""Say in plain words why a file of ``--data`` cannot be read, and offer the ways to read a folder.

All readers of this room ask :func:`explain_error`, as messages of packages are for programmers.
"""

from collections.abc import Iterable
from pathlib import Path

from advisor.core import AdvisorError, ContentError, Reading, first_line

_TEXTS_OF_PYTHON = ("zipfile", "tarfile", "json.decoder", "_csv")
"""Modules of Python whose errors name a place or a part of a file in words that people
understand.
"""


def make_readings(paths: Iterable[Path], meaning: str) -> list[Reading]:
    """Return a reading of ``--data`` for each path; ``{}`` in ``meaning`` stands for its name."""
    readings = []
    for path in paths:
        readings.append(Reading({"data": str(path)}, meaning.format(path.name)))
    return readings


def explain_error(error: Exception) -> str:
    """Return why a file cannot be read, in words for users and not for programmers."""
    if isinstance(error, AdvisorError):
        return error.message
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, ContentError) or type(error).__module__ in _TEXTS_OF_PYTHON:
        return first_line(str(error))
    if isinstance(error, MemoryError) or "realloc" in str(error) or "malloc" in str(error):
        return "it takes more memory than its reader may have"
    if isinstance(error, UnicodeError):
        return "its text is not UTF-8"
    if isinstance(error, EOFError):
        return "it ends too early"
    return "its content is not valid"

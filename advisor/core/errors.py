"""Errors that a user can act on: what happened, the value, the nearest valid value, and a hint."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from advisor.core.exits import ExitCode


class AdvisorError(Exception):
    """Base of every error that the command line shows without a traceback.

    Args:
        message: one sentence that names the thing and the value at fault.
        hint: what the user can do about it, or empty.
    """

    exit_code: int = ExitCode.INTERNAL_ERROR

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[type[AdvisorError], tuple[str, str]]:
        return type(self), (self.message, self.hint)


class UsageError(AdvisorError):
    """A wrong flag, request, catalogue, profile or data folder: exit code 2, nothing spent."""

    exit_code = ExitCode.USAGE


class WeightsError(AdvisorError):
    """Weights that cannot be fetched, do not match their hash or cannot be read: exit code 2."""

    exit_code = ExitCode.USAGE


class StageError(AdvisorError):
    """One stage of one candidate failed: becomes an evaluation with status ``failed``."""


class UnsupportedRecipe(StageError):
    """A recipe that does not apply to this model: becomes a ``skipped`` evaluation."""


class RuntimeRefusal(StageError):
    """The installed runtime cannot load or run a file: becomes a ``skipped`` evaluation."""


def message_of(error: BaseException) -> str:
    """Return the first line of an error's message; the name of its class if it has no message."""
    return first_line(str(error)) or type(error).__name__


def first_line(text: str) -> str:
    """Return the first line of a text that is not empty, at most 300 characters; empty if there is none."""
    return next(iter(_lines(text)), "")[:300]


def last_line(text: str) -> str:
    """Return the last line of a text that is not empty, at most 300 characters; empty if there is none."""
    return next(reversed(_lines(text)), "")[:300]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def nearest(value: str, valid: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)`` for the valid name closest to ``value``, or an empty string."""
    matches = get_close_matches(value, list(valid), n=1, cutoff=0.5)
    return f" (did you mean '{matches[0]}'?)" if matches else ""

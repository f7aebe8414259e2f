"""What the user asks, as written, and what it means: resolved and validated before anything is spent."""

from advisor.engine.question.parsing import resolve
from advisor.engine.question.resuming import FREE_ON_RESUME, resolve_resumed
from advisor.engine.question.validation import ROBUST
from advisor.engine.question.values import LARGE_SPACE, LEAST_GAIN, NEVER, Request

__all__ = [
    "FREE_ON_RESUME",
    "LARGE_SPACE",
    "LEAST_GAIN",
    "NEVER",
    "ROBUST",
    "Request",
    "resolve",
    "resolve_resumed",
]

"""What the user asks, as written, and what it means: resolved and validated before anything is spent."""

from advisor.search.request.parsing import resolve
from advisor.search.request.resuming import FREE_ON_RESUME, resolve_resumed
from advisor.search.request.values import LARGE_SPACE, LEAST_GAIN, NEVER, Request, usable_cores
from advisor.search.valid import ROBUST

__all__ = [
    "FREE_ON_RESUME",
    "LARGE_SPACE",
    "LEAST_GAIN",
    "NEVER",
    "ROBUST",
    "Request",
    "resolve",
    "resolve_resumed",
    "usable_cores",
]

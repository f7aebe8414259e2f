"""The names that an option may take."""

from __future__ import annotations

from advisor.core.errors import UsageError, nearest

IMAGE_CLASSIFICATION = "image-classification"
TASKS = (IMAGE_CLASSIFICATION,)

ROBUST = "robust-accuracy"
OBJECTIVES = ("accuracy", ROBUST)

ADVISOR, TPE, NSGA2, GP, RANDOM = "advisor", "tpe", "nsga2", "gp", "random"
SAMPLERS = (ADVISOR, TPE, NSGA2, GP, RANDOM)

LOCAL, RAY = "local", "ray"
EXECUTORS = (LOCAL, RAY)

NEVER = "never"
"""The value of ``--stop-below`` that searches to the end."""


def require_known(option: str, value: str, valid: tuple[str, ...]) -> str:
    """Return ``value`` where it is one of the valid names.

    Raises:
        UsageError: it is not; the nearest valid name is in the message.
    """
    if value not in valid:
        raise UsageError(f"{option}: unknown '{value}'{nearest(value, valid)}", f"one of: {', '.join(valid)}")
    return value

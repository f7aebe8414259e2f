"""When the command that runs began: limits of time count from there."""

from contextvars import ContextVar

COMMAND_BEGAN: ContextVar[float | None] = ContextVar("COMMAND_BEGAN", default=None)
"""Seconds of the monotonic clock at which the command began, or its last wait for a person ended;
None outside one.
"""

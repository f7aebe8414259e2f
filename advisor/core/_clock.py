"""The moment at which the running command began, from which limits of time count.

``main`` of the command line sets it, and again after a question that a person has answered.
:func:`advisor.search` reads it; a program that imports advisor has none.
"""

from contextvars import ContextVar

COMMAND_BEGAN: ContextVar[float | None] = ContextVar("COMMAND_BEGAN", default=None)
"""Seconds of the monotonic clock at which the command began, or its last wait for a person ended;
None outside one.
"""

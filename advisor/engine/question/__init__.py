"""The question of the user, how it is answered and where the results go: parsed and validated before any work."""

from advisor.engine.question.parsing import resolve, resolve_resumed
from advisor.engine.question.validation import require_classes, require_sampler_installed
from advisor.engine.question.values import FREE_ON_RESUME, QUESTION_OPTIONS, Execution, Question, Request

__all__ = [
    "FREE_ON_RESUME",
    "QUESTION_OPTIONS",
    "Execution",
    "Question",
    "Request",
    "require_classes",
    "require_sampler_installed",
    "resolve",
    "resolve_resumed",
]

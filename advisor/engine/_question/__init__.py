"""What a user asked, how it is answered, and where the results go: parsed once, then frozen.

``parsing.py`` turns options into a :class:`Request`, and ``refusals.py`` says what cannot be asked
together. All other parts of the engine read the values and never change them.
"""

from advisor.engine._question.guarantees import parse_guarantees, require_classes
from advisor.engine._question.options import FREE_ON_RESUME, QUESTION_OPTIONS
from advisor.engine._question.parsing import resolve, resolve_resumed
from advisor.engine._question.values import Execution, Question, Request

__all__ = [
    "FREE_ON_RESUME",
    "QUESTION_OPTIONS",
    "Execution",
    "Question",
    "Request",
    "parse_guarantees",
    "require_classes",
    "resolve",
    "resolve_resumed",
]

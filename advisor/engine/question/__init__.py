"""What the user asks, how it is answered and where the results go: parsed and validated before anything is spent."""

from advisor.engine.question.names import (
    ADVISOR,
    EXECUTORS,
    GP,
    LOCAL,
    NEVER,
    NSGA2,
    RANDOM,
    RAY,
    ROBUST,
    SAMPLERS,
    TPE,
)
from advisor.engine.question.options import QuestionOptions, names_of
from advisor.engine.question.parsing import resolve
from advisor.engine.question.resuming import FREE_ON_RESUME, resolve_resumed
from advisor.engine.question.storage_address import JOURNAL, SCHEMES, SQLITE, without_password
from advisor.engine.question.validation import require_sampler_installed
from advisor.engine.question.values import (
    LARGE_SPACE,
    LEAST_GAIN,
    Execution,
    Output,
    Question,
    Request,
)

QUESTION_OPTIONS = names_of(QuestionOptions)
"""Names of the options that make up the question."""

__all__ = [
    "ADVISOR",
    "EXECUTORS",
    "FREE_ON_RESUME",
    "GP",
    "JOURNAL",
    "LARGE_SPACE",
    "LEAST_GAIN",
    "LOCAL",
    "NEVER",
    "NSGA2",
    "QUESTION_OPTIONS",
    "RANDOM",
    "RAY",
    "ROBUST",
    "SAMPLERS",
    "SCHEMES",
    "SQLITE",
    "TPE",
    "Execution",
    "Output",
    "Question",
    "Request",
    "require_sampler_installed",
    "resolve",
    "resolve_resumed",
    "without_password",
]

"""Describe why a stage ended an evaluation."""

from __future__ import annotations

from advisor.core.errors import AdvisorError, RuntimeRefusal, StageError, UnsupportedRecipe
from advisor.core.evaluation import Status
from advisor.engine.pipeline.names import StageName


class StageAborted(StageError):
    """A stage that ended an evaluation.

    Args:
        status: ``failed`` or ``skipped``.
        stage: the stage.
        reason: the reason, in words.
    """

    def __init__(self, status: Status, stage: StageName, reason: str) -> None:
        super().__init__(reason)
        self.status, self.stage, self.reason = status, stage, reason

    @classmethod
    def unsupported(cls, stage: StageName, reason: str) -> StageAborted:
        """Return the error of a stage that does not apply to the card or the recipe."""
        return cls(Status.SKIPPED, stage, reason)


def aborted(error: AdvisorError | OSError, stage: StageName, recipe: str) -> StageAborted:
    """Return the stage error for an error of a job.

    Args:
        error: what the stage raised.
        stage: the stage.
        recipe: the recipe that made the stage's file, if any. If the runtime cannot run that file, the evaluation is
            skipped; for float32 it has failed.
    """
    if isinstance(error, UnsupportedRecipe):
        return StageAborted.unsupported(stage, error.message)
    if isinstance(error, RuntimeRefusal):
        if recipe in ("", "float32"):
            return StageAborted(Status.FAILED, stage, error.message)
        return StageAborted.unsupported(stage, f"this runtime cannot run {recipe}: {error.message}")
    if isinstance(error, AdvisorError):
        return StageAborted(Status.FAILED, stage, error.message)
    return StageAborted(Status.FAILED, stage, f"{error.strerror or error}: {error.filename or ''}")

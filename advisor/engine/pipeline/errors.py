"""Say why a stage ended an evaluation."""

from __future__ import annotations

from advisor.core.errors import AdvisorError, RuntimeRefusal, StageError, UnsupportedRecipe
from advisor.core.evaluation import Status
from advisor.engine.pipeline.names import StageName


class StageAborted(StageError):
    """A stage that ended an evaluation.

    Args:
        status: ``failed`` or ``skipped``.
        stage: the stage.
        reason: why, in words.
    """

    def __init__(self, status: Status, stage: StageName, reason: str) -> None:
        super().__init__(reason)
        self.status, self.stage, self.reason = status, stage, reason

    @classmethod
    def unsupported(cls, stage: StageName, reason: str) -> StageAborted:
        """Return the end of an evaluation to which a stage does not apply."""
        return cls(Status.SKIPPED, stage, reason)


def aborted(error: AdvisorError | OSError, stage: StageName, recipe: str) -> StageAborted:
    """Return what an error means for the evaluation.

    Args:
        error: what the stage raised.
        stage: the stage.
        recipe: the recipe that made the file that the stage runs, if any. A file that the runtime cannot run is
            skipped, as one is to which the recipe does not apply; float32 alone has failed then.
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

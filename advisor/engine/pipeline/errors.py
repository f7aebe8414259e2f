"""A stage that ends an evaluation before its end: where, and why."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from advisor.core.errors import AdvisorError, RuntimeRefusal, UnsupportedRecipe
from advisor.core.evaluation import Status

Value = TypeVar("Value")


class StageAborted(Exception):
    """A stage that ended an evaluation before its end."""

    def __init__(self, status: Status, stage: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.stage, self.reason = status, stage, reason


async def at(stage: str, work: Awaitable[Value], recipe: str = "") -> Value:
    """Await a stage; its failure ends the evaluation with the stage's name and the reason.

    Args:
        stage: its name.
        work: the stage.
        recipe: what made the file that the stage runs, if any: a form that the runtime cannot run is left out, as one
            that does not apply is.
    """
    try:
        return await work
    except UnsupportedRecipe as error:
        raise StageAborted(Status.SKIPPED, stage, error.message) from None
    except RuntimeRefusal as error:
        if recipe in ("", "float32"):
            raise StageAborted(Status.FAILED, stage, error.message) from None
        raise StageAborted(Status.SKIPPED, stage, f"this runtime cannot run {recipe}: {error.message}") from None
    except AdvisorError as error:
        raise StageAborted(Status.FAILED, stage, error.message) from None
    except OSError as error:
        raise StageAborted(Status.FAILED, stage, f"{error.strerror or error}: {error.filename or ''}") from None

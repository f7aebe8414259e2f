"""Events of stages, the seconds that they add up to, and the error with which a stage ends an evaluation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from advisor.core.errors import AdvisorError, RuntimeRefusal, StageError, UnsupportedRecipe
from advisor.core.evaluation import Status
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stage import Stage


class EventKind(StrEnum):
    """The kind of an event."""

    STARTED = "started"
    WAITING = "waiting"
    """Another process makes the same result."""
    EPOCH = "epoch"
    DONE = "done"
    CACHED = "cached"
    """Its result was there, or another process made it."""


@dataclass(frozen=True)
class StageEvent:
    """Something that happened to a stage.

    Attributes:
        stage: the stage.
        kind: what happened.
        seconds: of ``DONE`` and ``EPOCH``: working time of the job so far, without pauses for a measurement.
        holder: of ``WAITING``: who makes the result, such as ``process 123``.
        epochs: of ``EPOCH``, and of ``DONE`` if a time limit ended the job: how many epochs of how many are done.
    """

    stage: Stage[Any]
    kind: EventKind
    seconds: float = 0.0
    holder: str = ""
    epochs: tuple[int, int] = (0, 0)


Listener = Callable[[StageEvent], None]
"""Called with each event, from the thread of the search."""


class Durations:
    """Seconds of core or machine time that a search spent; cached results and waiting for a core do not count.

    Attributes:
        seconds: by card and stage.
    """

    def __init__(self) -> None:
        self.seconds: dict[tuple[str, StageName], float] = defaultdict(float)

    def note(self, event: StageEvent) -> None:
        """Record an event of a stage."""
        if event.kind is EventKind.DONE:
            self.seconds[event.stage.scope.card, event.stage.name] += event.seconds

    @property
    def by_stage(self) -> dict[StageName, float]:
        """Seconds by stage, in the order of the stages."""
        return {
            name: total
            for name in StageName
            if (total := sum(seconds for (_, stage), seconds in self.seconds.items() if stage is name))
        }

    def by_card(self) -> dict[str, dict[str, float]]:
        """Return the seconds by card and stage, the card with the most first."""
        cards: dict[str, dict[str, float]] = defaultdict(dict)
        for (card, stage), seconds in sorted(self.seconds.items()):
            cards[card][stage] = round(seconds, 1)
        return dict(sorted(cards.items(), key=lambda item: -sum(item[1].values())))


class StageAborted(StageError):
    """A stage ended an evaluation, which is ``failed`` or ``skipped``, for a reason in words."""

    def __init__(self, status: Status, stage: StageName, reason: str) -> None:
        super().__init__(reason)
        self.status, self.stage, self.reason = status, stage, reason


def aborted(error: AdvisorError | OSError, stage: StageName, recipe: str) -> StageAborted:
    """Return the stage error for an error of a job.

    Args:
        error: what the stage raised.
        stage: the stage.
        recipe: the recipe that made the stage's file, if any. If the runtime cannot run that file, the evaluation is
            skipped; for float32 it has failed.
    """
    if isinstance(error, OSError):
        return StageAborted(Status.FAILED, stage, f"{error.strerror or error}: {error.filename or ''}")
    if isinstance(error, UnsupportedRecipe):
        return StageAborted(Status.SKIPPED, stage, error.message)
    if isinstance(error, RuntimeRefusal) and recipe not in ("", "float32"):
        return StageAborted(Status.SKIPPED, stage, f"this runtime cannot run {recipe}: {error.message}")
    return StageAborted(Status.FAILED, stage, error.message)

"""Tell what happens to stages: progress, durations and cost calibration listen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from advisor.engine.pipeline.stage import Stage


class EventKind(StrEnum):
    """What happened to a stage."""

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
        seconds: of ``DONE``: how long the job worked, without standing still for a measurement.
        holder: of ``WAITING``: who makes the result, such as ``process 123``.
        epochs: of ``EPOCH``: how many epochs of how many are done.
    """

    stage: Stage[Any]
    kind: EventKind
    seconds: float = 0.0
    holder: str = ""
    epochs: tuple[int, int] = (0, 0)


Listener = Callable[[StageEvent], None]
"""Called with each event, from the thread of the search."""

"""Tell what happens to the stages of a search, and add up the seconds that they took.

The walker makes a :class:`StageEvent` for each change and calls its :data:`Listener`. In a search
this is ``_run.py``, from which progress, the seconds left and the cost calibration learn of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from advisor.engine._pipeline.stage import Stage, StageName


class EventKind(StrEnum):
    """The kind of an event."""

    STARTED = "started"
    WAITING = "waiting"  # For memory, or for another process that makes the same result
    EPOCH = "epoch"
    DONE = "done"
    CRASHED = "crashed"  # Its process crashed, and it goes on in another one
    CACHED = "cached"  # Its result was there, or another process made it
    ENDED = "ended"  # It failed, or is not needed any more


@dataclass(frozen=True)
class StageEvent:
    """Something that happened to a stage.

    ``seconds`` of ``DONE`` and ``EPOCH``: seconds by the clock of the job so far, without pauses
    for a measurement. ``cpu_s``: CPU seconds of the job so far; of a measurement, which has the
    machine alone, its ``seconds``. ``waits_for`` of ``WAITING``: in words. ``epochs`` of
    ``EPOCH``, and of ``DONE`` if a time limit ended the job: how many epochs of how many are done.
    ``share`` of both: the share of the job's seconds that is done, as the job knows it after its
    first steps; 0 if it does not.
    """

    stage: Stage[Any]
    kind: EventKind
    seconds: float = 0.0
    waits_for: str = ""
    epochs: tuple[int, int] = (0, 0)
    cpu_s: float = 0.0
    share: float = 0.0


Listener = Callable[[StageEvent], None]  # Called with each event, from the thread of the search


class Durations:
    """Seconds by the clock, and CPU seconds, that the jobs of a search took by card and stage,
    without cached results and waits for a core. The manifest of a run has them.
    """

    def __init__(self) -> None:
        self.seconds: dict[tuple[str, StageName], float] = defaultdict(float)
        self.cpu_s: dict[tuple[str, StageName], float] = defaultdict(float)

    def note(self, event: StageEvent) -> None:
        """Record an event of a stage."""
        if event.kind is EventKind.DONE:
            self.seconds[event.stage.scope.card, event.stage.name] += event.seconds
            self.cpu_s[event.stage.scope.card, event.stage.name] += event.cpu_s

    @property
    def by_stage(self) -> dict[StageName, float]:
        """Seconds by the clock of each stage, in the order of the stages."""
        totals = dict.fromkeys(StageName, 0.0)
        for (_, stage), seconds in self.seconds.items():
            totals[stage] += seconds
        return {name: total for name, total in totals.items() if total}

    def by_card(self, cpu: bool = False) -> dict[str, dict[str, float]]:
        """Return the seconds by the clock, or the CPU seconds, by card and stage, the card with
        the most first.
        """
        spent = self.cpu_s if cpu else self.seconds
        cards: dict[str, dict[str, float]] = defaultdict(dict)
        for (card, stage), seconds in sorted(spent.items()):
            cards[card][stage] = round(seconds, 1)
        return dict(sorted(cards.items(), key=lambda item: -sum(item[1].values())))

"""Add up the seconds that a search spends, by stage and by card."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from advisor.engine.pipeline.events import EventKind, StageEvent
from advisor.engine.pipeline.names import StageName


class Durations:
    """Seconds of core or machine time; cached results and waiting for a core do not count."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, StageName], float] = defaultdict(float)

    def note(self, event: StageEvent) -> None:
        """Record an event of a stage."""
        if event.kind is EventKind.DONE:
            self._seconds[event.stage.scope.card, event.stage.name] += event.seconds

    @property
    def by_card_and_stage(self) -> Mapping[tuple[str, StageName], float]:
        """Seconds by card and by stage."""
        return dict(self._seconds)

    @property
    def by_stage(self) -> dict[StageName, float]:
        """Seconds by stage, in the order of the stages."""
        return {
            name: total
            for name in StageName
            if (total := sum(seconds for (_, stage), seconds in self._seconds.items() if stage is name))
        }

    def by_card(self) -> dict[str, dict[str, float]]:
        """Return the seconds by card and stage, the card with the most first."""
        cards: dict[str, dict[str, float]] = defaultdict(dict)
        for (card, stage), seconds in sorted(self._seconds.items()):
            cards[card][stage] = round(seconds, 1)
        return dict(sorted(cards.items(), key=lambda item: -sum(item[1].values())))

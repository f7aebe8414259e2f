"""Which cards a search spends its time on, stage by stage."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable


class CardTimes:
    """Adds up the seconds of each card's stages; what came from the cache and what waited for a core counts nothing.

    Args:
        clock: gives seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        self._seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def note(self, stage: str, card: str, doing: str, event: str) -> None:
        """Take note of an event as :data:`advisor.engine.pipeline.context.Notify` tells it."""
        key = (stage, card, doing)
        if event == "started":
            self._begun[key].append(self._clock())
        elif event == "cached" and self._begun[key]:
            self._begun[key].pop(0)  # another search did it while this one waited
        elif event == "done" and self._begun[key]:
            self._seconds[card][stage.rsplit("-", 1)[0]] += self._clock() - self._begun[key].pop(0)

    def to_json(self) -> dict[str, dict[str, float]]:
        """Return the seconds by card and stage, the card with the most first."""
        by_card = sorted(self._seconds.items(), key=lambda item: -sum(item[1].values()))
        return {
            card: {stage: round(seconds, 1) for stage, seconds in sorted(stages.items())} for card, stages in by_card
        }

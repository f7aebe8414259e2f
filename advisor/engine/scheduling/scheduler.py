"""Whose turn it is: the study's wishes, as far as there is room and as they can still reach the front."""

from __future__ import annotations

import math
from collections.abc import Collection

from advisor.core.evaluation import Configuration
from advisor.core.training import FINETUNED
from advisor.engine.scheduling.halving import Room, Step, step_of
from advisor.engine.scheduling.promotion import Promotion
from advisor.engine.scheduling.study import Study
from advisor.engine.space.plan import Plan

CARDS_IN_FLIGHT = 3
"""How many cards' configurations are handed out at a time: enough to keep the cores busy across measurements."""


class Scheduler:
    """Asks the study for what is next, as long as there is room for it in flight.

    What cannot reach the front is turned away, for as long as what its training gains elsewhere leaves it at that.

    Args:
        study: is asked.
        promotion: says who climbs.
        plan: the search space.
        left: how many configurations may still be begun.
        cores: how many jobs run side by side.
    """

    def __init__(self, study: Study, promotion: Promotion, plan: Plan, left: int, cores: int) -> None:
        self._study, self._promotion, self._left, self._cores = study, promotion, left, cores
        self._at_most = max(CARDS_IN_FLIGHT, cores + 1) * len(plan.recipes) * len(plan.threads)
        self._away: dict[Configuration, float] = {}

    def next(self, flying: Collection[Configuration]) -> Configuration | None:
        """Return what to evaluate next, None where nothing may be begun before something ends."""
        if len(flying) >= self._at_most:
            return None
        while (asked := self._back(flying) or self._asked(flying)) is not None:
            if not self._promotion.objection(asked):
                return asked
            self._away[asked] = self._promotion.largest_gain(asked.training)
            self._study.pass_over(asked)
        return None

    @property
    def away(self) -> Collection[Configuration]:
        """What was turned away and may still be begun."""
        return self._away.keys()

    def turned_away(self) -> list[tuple[Configuration, str]]:
        """Return what was turned away for good, with the reasons as they are now; what has none any more stays."""
        found = [(each, self._promotion.objection(each)) for each in self._away]
        self._away = {each: -math.inf for each, reason in found if not reason}
        return [(each, reason) for each, reason in found if reason]

    def _asked(self, flying: Collection[Configuration]) -> Configuration | None:
        """Ask the study; what is fine-tuned leaves a core to what takes seconds, as long as there is any of it."""
        if not self._left:
            return None
        asked = self._study.ask(_room(flying, self._cores - 1))
        if asked is None and all(each.training in FINETUNED for each in flying):
            asked = self._study.ask(_room(flying, self._cores))
        self._left -= asked is not None
        return asked

    def _back(self, flying: Collection[Configuration]) -> Configuration | None:
        """Return what was turned away and has new hope: its training gained more elsewhere than was thought then."""
        gains = {training: self._promotion.largest_gain(training) for training in {c.training for c in self._away}}
        room = _room(flying, self._cores)
        hopeful = (each for each, gain in self._away.items() if gains[each.training] > gain and room(step_of(each)))
        back = next(hopeful, None)
        if back is not None:
            del self._away[back]
        return back


def _room(flying: Collection[Configuration], tunings: int) -> Room:
    """Return which steps have room: of fine-tunings so many at a time, so that what they gained elsewhere is known."""
    tuned = {step_of(each) for each in flying if each.training in FINETUNED}

    def room(step: Step) -> bool:
        return step[1] not in FINETUNED or step in tuned or len(tuned) < tunings

    return room

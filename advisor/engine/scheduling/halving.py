"""Which configurations may be begun: cards climb from training to training, each as soon as it is ready.

A rung is one training. A card climbs once all its configurations of the rung below have their results, whatever the
other cards do meanwhile, as in asynchronous successive halving (ASHA: Li et al., MLSys 2020). As there, climbing early
is for few: while the rung below still has cards to begin, one may climb for every :data:`HALVING` that are through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from advisor.core.evaluation import Configuration
from advisor.engine.space.plan import Plan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HALVING = 3
"""ASHA's reduction factor; its authors found 3 and 4 to do best (section 4 there)."""

Step = tuple[str, str]
"""A card and a training: one place on the ladder, with a configuration for every form and thread count."""

Room = Callable[[Step], bool]
"""Says whether there is room for more of a step, whatever its turn."""


def anywhere(_step: Step) -> bool:
    """Room for everything."""
    return True


def step_of(configuration: Configuration) -> Step:
    """Return the configuration's place on the ladder."""
    return configuration.card, configuration.training


class SuccessiveHalving:
    """What is begun and what is through, of every card on every rung.

    Args:
        plan: the search space.
        finished: what has its result.

    Attributes:
        unasked: what was not handed out yet, in the plan's order.
    """

    def __init__(self, plan: Plan, finished: Iterable[Configuration]) -> None:
        done = frozenset(finished)
        self._trainings = plan.trainings
        self._cards = tuple(card.name for card in plan.cards)
        steps = [(card, training) for training in self._trainings for card in self._cards]
        self.unasked = {each: None for each in plan.configurations() if each not in done}
        self._to_ask = Counter(step_of(each) for each in self.unasked)
        self._unsettled: dict[Step, set[Configuration]] = {step: set() for step in steps}
        for each in self.unasked:
            self._unsettled[step_of(each)].add(each)
        self._begun = {step_of(each) for each in done}
        self._place = {step: place for place, step in enumerate(steps)}

    def asked(self, configuration: Configuration) -> None:
        """Take note of a configuration that was handed out."""
        step = step_of(configuration)
        del self.unasked[configuration]
        self._to_ask[step] -= 1
        self._begun.add(step)

    def settled(self, configuration: Configuration) -> None:
        """Take note of a result, or of the decision to go on without one."""
        self._unsettled[step_of(configuration)].discard(configuration)

    def is_open(self, step: Step) -> bool:
        """Say whether all that the step builds on is settled."""
        card, training = step
        below = self._trainings[: self._trainings.index(training)]
        return not any(self._unsettled[card, each] for each in below)

    def may(self, step: Step) -> bool:
        """Say whether it is the step's turn."""
        return self.is_open(step) and (step in self._begun or self._climbs(step[1]))

    def left(self, room: Room = anywhere) -> list[Step]:
        """Return the steps of which something may be begun, the lightest training first."""
        climbing = {training: self._climbs(training) for training in self._trainings}
        return [
            step
            for step in self._place
            if self._to_ask[step] and (step in self._begun or climbing[step[1]]) and self.is_open(step) and room(step)
        ]

    def held(self, room: Room, places: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which rows of a table may not be begun.

        Args:
            room: is there room for more of a step.
            places: the place of each row's step (:meth:`place`).
        """
        import numpy as np

        held = np.ones(len(self._place), bool)
        held[[self._place[step] for step in self.left(room)]] = False
        closed: NDArray[np.bool_] = held[places]
        return closed

    def place(self, step: Step) -> int:
        """Return the place of a step among all steps."""
        return self._place[step]

    def _climbs(self, training: str) -> bool:
        """Say whether one more card may climb to a training."""
        rung = self._trainings.index(training)
        if rung == 0:
            return True
        below = self._trainings[rung - 1]
        if not any(self._to_ask[card, below] for card in self._cards):
            return True
        through = sum(not self._unsettled[card, below] for card in self._cards)
        climbed = sum((card, training) in self._begun for card in self._cards)
        return climbed < through // HALVING

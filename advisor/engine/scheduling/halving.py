"""Successive halving over cards: which configurations may start now, and which cards may be promoted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from advisor.core.evaluation import Configuration
from advisor.core.training import recipe_of

REDUCTION_FACTOR = 3
"""The paper's eta. Its authors found 3 and 4 to do best (Li et al., MLSys 2020, section 4)."""


class CardTraining(NamedTuple):
    """One card with one training, which is promoted as a whole: a configuration for each recipe and thread count."""

    card: str
    training: str

    @property
    def tuned(self) -> bool:
        """True if the training fine-tunes the backbone."""
        return recipe_of(self.training).tunes_backbone

    @classmethod
    def of(cls, configuration: Configuration) -> CardTraining:
        """Return the card and the training of a configuration."""
        return cls(configuration.card, configuration.training)


HasCapacity = Callable[[CardTraining], bool]
"""Says whether the machine has capacity for more of a card and training."""


class SuccessiveHalving:
    """Tracks every card on every rung. A rung is one training; the lightest training is the lowest rung.

    It is asynchronous, as ASHA (Li et al., "A System for Massively Parallel Hyperparameter Tuning", MLSys 2020), but
    without a rank cut: a card is promotable as soon as all its configurations on the rung below are done. While the
    rung below still has cards to start, at most ``done // reduction_factor`` cards are on the next rung. Decision 0030
    has the reasons.

    Args:
        configurations: the search space, the lightest training first.
        done: configurations that have a result already.
        reduction_factor: how many cards must be done on a rung for each card that is promoted early.

    Attributes:
        not_started: configurations that were not started yet, in the order of the search space.
        deferred: configurations that are set aside. The value is the largest share of the errors that their
            training was expected to remove when they were deferred.
        reduction_factor: see above.

    Example:
        >>> from advisor.core.evaluation import Target
        >>> device = Target("host", "litert", "cpu", threads=1)
        >>> space = [
        ...     Configuration(card, training, "int8", device)
        ...     for training in ("head", "finetune")
        ...     for card in ("small", "medium", "large")
        ... ]
        >>> halving = SuccessiveHalving(space, reduction_factor=2)
        >>> [unit.card for unit in halving.runnable()]
        ['small', 'medium', 'large']
        >>> for configuration in space[:2]:  # the heads of two cards
        ...     halving.mark_started(configuration)
        ...     halving.mark_done(configuration)
        >>> halving.promotable("finetune")  # two cards are done, so one of them may be promoted early
        ['small', 'medium']
        >>> halving.mark_started(space[3])  # small, finetune
        >>> halving.promotable("finetune")
        []
        >>> halving.mark_started(space[2])  # now every card has started its head
        >>> halving.promotable("finetune")
        ['medium']
        >>> halving.is_blocked(CardTraining("large", "finetune"))  # its head still runs
        True
    """

    def __init__(
        self,
        configurations: Iterable[Configuration],
        done: Iterable[Configuration] = (),
        reduction_factor: int = REDUCTION_FACTOR,
    ) -> None:
        space, finished = tuple(configurations), frozenset(done)
        self.reduction_factor = reduction_factor
        self._rungs = tuple(dict.fromkeys(each.training for each in space))
        self._cards = tuple(dict.fromkeys(each.card for each in space))
        self._units = [CardTraining(card, training) for training in self._rungs for card in self._cards]
        self.not_started = {each: None for each in space if each not in finished}
        self.deferred: dict[Configuration, float] = {}
        self._count_not_started = Counter(CardTraining.of(each) for each in self.not_started)
        self._not_done: dict[CardTraining, set[Configuration]] = {unit: set() for unit in self._units}
        for each in self.not_started:
            self._not_done[CardTraining.of(each)].add(each)
        self._started = {CardTraining.of(each) for each in finished}

    def mark_started(self, configuration: Configuration) -> None:
        """Note that a configuration was handed out."""
        unit = CardTraining.of(configuration)
        del self.not_started[configuration]
        self._count_not_started[unit] -= 1
        self._started.add(unit)

    def mark_done(self, configuration: Configuration) -> None:
        """Note that a configuration has its result."""
        self._not_done[CardTraining.of(configuration)].discard(configuration)

    def defer(self, configuration: Configuration, expected_gain: float) -> None:
        """Set a started configuration aside, with the largest share of the errors that its training may remove now."""
        self.deferred[configuration] = expected_gain
        self.mark_done(configuration)

    def is_blocked(self, unit: CardTraining) -> bool:
        """Return whether a lighter training of the same card is not done yet."""
        below = self._rungs[: self._rungs.index(unit.training)]
        return any(self._not_done[CardTraining(unit.card, training)] for training in below)

    def is_runnable(self, unit: CardTraining) -> bool:
        """Return whether configurations of a card and training may start now."""
        if unit in self._started:
            return not self.is_blocked(unit)
        return unit.card in self.promotable(unit.training)

    def promotable(self, training: str) -> list[str]:
        """Return the cards that may start a training now, of those that have not started it; on the lowest rung all."""
        if not self._admits_another_card(training):
            return []
        units = (CardTraining(card, training) for card in self._cards)
        return [unit.card for unit in units if unit not in self._started and not self.is_blocked(unit)]

    def runnable(self, has_capacity: HasCapacity = lambda _: True) -> list[CardTraining]:
        """Return the cards and trainings of which a configuration may start now, the lightest training first."""
        startable = {CardTraining(card, training) for training in self._rungs for card in self.promotable(training)}
        startable |= {unit for unit in self._started if not self.is_blocked(unit)}
        return [
            unit for unit in self._units if self._count_not_started[unit] and unit in startable and has_capacity(unit)
        ]

    def _admits_another_card(self, training: str) -> bool:
        """Return whether the quota lets one more card start a training."""
        rung = self._rungs.index(training)
        if rung == 0:
            return True
        below = self._rungs[rung - 1]
        if not any(self._count_not_started[CardTraining(card, below)] for card in self._cards):
            return True
        done = sum(not self._not_done[CardTraining(card, below)] for card in self._cards)
        promoted = sum(CardTraining(card, training) in self._started for card in self._cards)
        return promoted < done // self.reduction_factor

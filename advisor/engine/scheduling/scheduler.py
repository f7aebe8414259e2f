"""Chooses what starts next: the study's suggestions, within the machine's capacity, that can still reach the front."""

import math
from collections.abc import Collection

from advisor.core.evaluation import Configuration
from advisor.core.training import recipe_of
from advisor.engine.scheduling.allowance import Allowance
from advisor.engine.scheduling.halving import CardTraining, HasCapacity
from advisor.engine.scheduling.promotion import FLOAT, FrontBound
from advisor.engine.scheduling.study import Study
from advisor.engine.space.plan import Plan

CARDS_IN_FLIGHT = 3
"""Least number of cards whose configurations run at a time. It keeps the cores busy across measurements."""

OVER_ALLOWANCE = (
    "not fine-tuned: the time that a search without --training gives to fine-tuning was spent on more promising "
    "models; name the recipe, --training finetune_cached, to tune every model that can still win"
)
"""Reason of configurations that the allowance has no time for."""


class Scheduler:
    """Hands out configurations one by one.

    Args:
        study: suggests configurations.
        bound: the rules of the search; what they reject is deferred.
        plan: the search space.
        trials_left: how many configurations may still start.
        cores: how many jobs run side by side.
        allowance: limits fine-tuning; None for no limit but the bound.
    """

    def __init__(
        self,
        study: Study,
        bound: FrontBound,
        plan: Plan,
        trials_left: int,
        cores: int,
        allowance: Allowance | None = None,
    ) -> None:
        self._study, self._bound, self._trials_left, self._cores = study, bound, trials_left, cores
        self._halving, self._allowance = study.halving, allowance
        self._waiting = frozenset(bound.last)
        self._expected: frozenset[CardTraining] | None = None
        self._most_running = max(CARDS_IN_FLIGHT, cores + 1) * len(plan.recipes) * len(plan.threads)

    @property
    def deferred(self) -> Collection[Configuration]:
        """The deferred configurations, which may still start."""
        return self._halving.deferred.keys()

    @property
    def waiting(self) -> Collection[Configuration]:
        """The configurations that start only if more promising ones disappoint: expensive cards, more fine-tuning."""
        return [each for each in self._halving.not_started if each.card in self._waiting or not self._is_expected(each)]

    def _is_expected(self, configuration: Configuration) -> bool:
        unit = CardTraining.of(configuration)
        return self._expected is None or _is_light(unit) or unit in self._expected

    def next(self, running: Collection[Configuration]) -> Configuration | None:
        """Return what to evaluate next; None if nothing may start before a running evaluation ends."""
        if len(running) >= self._most_running:
            return None
        while (suggested := self._reconsidered(running) or self._suggested(running)) is not None:
            if self._allowance is not None and self._allowance.no_time(suggested, running):
                self._halving.defer(suggested, math.inf)
            elif not self._bound.rejection_reason(suggested):
                return suggested
            else:
                self._halving.defer(suggested, self._bound.largest_gain(suggested.training))
        return None

    def reject_deferred(self) -> list[tuple[Configuration, str]]:
        """Return the deferred configurations that still cannot reach the front, each with its reason.

        They are deferred no longer. The others stay, and :meth:`next` returns them first.
        """
        late = self._allowance.no_time if self._allowance else lambda _: ""
        reasons = [(each, self._bound.rejection_reason(each) or late(each)) for each in self._halving.deferred]
        self._halving.deferred = {each: -math.inf for each, reason in reasons if not reason}
        return [(each, reason) for each, reason in reasons if reason]

    def refuse_rest(self) -> list[tuple[Configuration, str]]:
        """Return the configurations that the allowance lets no longer start, each with its reason."""
        refused = []
        while (
            self._allowance is not None and self._trials_left and (left := self._study.ask(_is_finetuned)) is not None
        ):
            refused.append((left, self._bound.rejection_reason(left) or OVER_ALLOWANCE))
        return refused

    def _suggested(self, running: Collection[Configuration]) -> Configuration | None:
        """Ask the study; for an expensive card only when nothing else may start or runs."""
        if not self._trials_left:
            return None
        suggested = self._asked(running)
        if suggested is None and not running and (waiting := self._waiting):
            self._waiting = frozenset()
            suggested = self._asked(running)
            self._waiting = waiting - {suggested.card} if suggested else waiting
        self._trials_left -= suggested is not None
        return suggested

    def _asked(self, running: Collection[Configuration]) -> Configuration | None:
        """Ask the study. Fine-tuning leaves one core free, as long as configurations that take seconds are left."""
        if self._allowance is not None:
            return self._allowed(self._allowance, running)
        suggested = self._study.ask(self._in_turn(_capacity(running, self._cores - 1)))
        if suggested is None and all(recipe_of(each.training).tunes_backbone for each in running):
            suggested = self._study.ask(self._in_turn(_capacity(running, self._cores)))
        return suggested

    def _in_turn(self, has_capacity: HasCapacity) -> HasCapacity:
        """Return the capacity without the expensive cards that have to wait."""
        return lambda unit: unit.card not in self._waiting and has_capacity(unit)

    def _allowed(self, allowance: Allowance, running: Collection[Configuration]) -> Configuration | None:
        """Ask the study for the heads that come first, then for fine-tuning if it may begin, else for heads."""
        is_head = self._in_turn(_is_light)
        heads = [each for each in (*self._halving.not_started, *running) if is_head(CardTraining.of(each))]
        if any(each.card in allowance.first and each.compression == FLOAT for each in heads):
            return self._first_head(allowance)
        heads_left = bool(heads)
        if allowance.begun(heads_left, running):
            most = self._cores if not heads_left and allowance.limit is None else max(1, self._cores - 1)
            admitted = allowance.admitted(self._open(), running, most)
            suggested = self._study.ask(admitted.__contains__) if admitted else None
            if suggested is not None:
                return suggested
            self._expected = allowance.expected(self._open(), running)
        return self._study.ask(is_head)

    def _first_head(self, allowance: Allowance) -> Configuration | None:
        """Ask the study for the float32 file of a card that comes first. Its other forms wait for fine-tuning."""

        def comes_first(unit: CardTraining) -> bool:
            return unit.card in allowance.first and _is_light(unit)

        while (suggested := self._study.ask(comes_first)) is not None and suggested.compression != FLOAT:
            self._halving.defer(suggested, math.inf)
        return suggested

    def _open(self) -> list[CardTraining]:
        """Return the heavier trainings of cards that may start and can still reach the front."""
        left = [each for each in self._halving.not_started if not self._bound.rejection_reason(each)]
        promising = {CardTraining.of(each) for each in left if recipe_of(each.training).tunes_backbone}
        return [unit for unit in self._halving.runnable() if unit in promising]

    def _reconsidered(self, running: Collection[Configuration]) -> Configuration | None:
        """Return a deferred configuration whose training now gains more than expected when it was deferred."""
        deferred = self._halving.deferred
        gains = {training: self._bound.largest_gain(training) for training in {each.training for each in deferred}}
        has_capacity = _capacity(running, self._cores)
        for configuration, expected_gain in deferred.items():
            if gains[configuration.training] > expected_gain and has_capacity(CardTraining.of(configuration)):
                del deferred[configuration]
                return configuration
        return None


def _is_finetuned(unit: CardTraining) -> bool:
    return recipe_of(unit.training).tunes_backbone


def _is_light(unit: CardTraining) -> bool:
    return not recipe_of(unit.training).tunes_backbone


def _capacity(running: Collection[Configuration], most_finetuned: int) -> HasCapacity:
    """Return the capacity for new configurations if at most ``most_finetuned`` cards are fine-tuned at a time.

    The limit is there to learn what fine-tuning gains on one card before it starts on the next.
    """
    finetuned = {CardTraining.of(each) for each in running if recipe_of(each.training).tunes_backbone}

    def has_capacity(unit: CardTraining) -> bool:
        return not recipe_of(unit.training).tunes_backbone or unit in finetuned or len(finetuned) < most_finetuned

    return has_capacity

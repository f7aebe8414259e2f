"""Choose what starts next: the study's suggestions, within the machine's capacity, that can still reach the front.

Where the user chose no training recipes, an allowance says which share of the search fine-tuning gets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from advisor.catalog.cards import Card
from advisor.core.evaluation import Configuration, Status, accuracy_of, latency_of, size_of
from advisor.core.metrics import BALANCED, Preference
from advisor.core.training import HEAD, recipe_of
from advisor.engine.pipeline.cost import rough_ms
from advisor.engine.scheduling.halving import CardTraining, HasCapacity
from advisor.engine.scheduling.promotion import FLOAT, MOST_AHEAD, PERFECT, FrontBound
from advisor.engine.space.plan import ALWAYS, Plan, prior_accuracy

if TYPE_CHECKING:
    from advisor.engine.scheduling.study import Study

CARDS_IN_FLIGHT = 3
"""Least number of cards whose configurations run at a time. It keeps the cores busy across measurements."""

HEADS_SHARE = 0.5
"""Share of a time limit after which a further card is fine-tuned, even if some heads have no result yet."""

FIRST_CARDS, FIRST_SHARE, ALONE_SHARE = 3, 0.2, 0.35
"""Most cards whose heads come first within a time limit, and the share of the limit that these heads may take if there
are several: before fine-tuning, and if there is no time for it."""

LEAST_SHARE, GAINING_SHARE = 0.15, 0.4
"""Least share of a card's expected fine-tuning that the rest of a time limit must leave room for, and the share that
gains about as much: two of six epochs gave MobileNetV2 9 of its 10 points on the training folder of groceries."""

NO_TIME = "not started: it would not end within the time limit"

OVER_ALLOWANCE = (
    "not fine-tuned: the time that a search without --training gives to fine-tuning was spent on more promising "
    "models; name the recipe, --training finetune_cached, to tune every model that can still win"
)

Favourite = Callable[[Collection[str]], str | None]
"""Returns the card that the decision picks among some cards, by the results so far; None if it picks none."""


@dataclass(frozen=True)
class TimeLimit:
    """The time limit in seconds, what is left for evaluations, and how much longer than planned stages take here."""

    seconds: float
    left_s: Callable[[], float]
    observed: Callable[[], float] = lambda: 1.0


@dataclass(frozen=True)
class Allowance:
    """Limits the fine-tuning of a search whose training recipes are the default ones.

    Without a time limit, fine-tuning begins when every head has its result. The card that would be picked now
    (``favourite``) is tuned first, then the one that would be picked among the others, and so on. This ends where the
    expected seconds of all tuned cards would exceed those that the plan allows. Only the first card may be another one
    that fits.

    Within a time limit, fine-tuning begins after the heads of a few cards, see :attr:`first`. The card that is expected
    to be best after fine-tuning is tuned first. All else starts only if it ends within what fine-tuning leaves.
    """

    plan: Plan
    bound: FrontBound
    favourite: Favourite
    limit: TimeLimit | None = None
    preference: Preference = BALANCED

    @cached_property
    def first(self) -> frozenset[str]:
        """The cards whose heads come first within a time limit: the most promising card of each architecture."""
        return frozenset(self._first(FIRST_SHARE, tuned=True) or self._first(ALONE_SHARE, tuned=False))

    def _first(self, most: float, tuned: bool) -> list[str]:
        """Return the cards whose heads take at most this share of the limit; ``tuned`` leaves time for fine-tuning."""
        if self.limit is None:
            return []
        chosen, heads_s = list[str](), 0.0
        for card in self._champions():
            head = self.plan.configuration(card.name, FLOAT, self.plan.threads[0], HEAD)
            more_s, share = heads_s + self._seconds([head]), most if chosen else 1.0
            least_s = self._least_s(card) if tuned else 0.0
            fits = more_s <= share * self.limit.seconds and more_s + least_s <= self.limit.left_s()
            if fits and len(chosen) < FIRST_CARDS:
                chosen.append(card.name)
                heads_s = more_s
        return chosen

    def _champions(self) -> Sequence[Card]:
        """Return one card of each architecture that may meet the latency budget, the highest published accuracy first.

        Of about the most accurate it is the quickest to fine-tune: on other images, such cards hardly differ.
        """
        limit_ms = math.inf if self.bound.budget.latency_ms is None else self.bound.budget.latency_ms
        cards = [card for card in self.plan.cards if not card.form and not card.own_file]
        cards = [card for card in cards if rough_ms(card, ALWAYS[-1], self.plan.threads[-1]) <= limit_ms]
        found = []
        for family in dict.fromkeys(card.family for card in cards):
            own = {card: prior_accuracy(card, FLOAT) for card in cards if card.family == family}
            alike = [card for card, accuracy in own.items() if accuracy >= max(own.values()) - MOST_AHEAD]
            found.append(min(alike, key=lambda card: (self._least_s(card), -own[card])))
        return sorted(found, key=lambda card: -prior_accuracy(card, FLOAT))

    def _least_s(self, card: Card) -> float:
        """Return the least seconds that the fine-tuning of a card and its forms need."""
        return LEAST_SHARE * self._training_s(CardTraining(card.name, self._heavy)) + self._finishing_s(card.name)

    def begun(self, heads_left: bool, running: Collection[Configuration] = ()) -> bool:
        """Return whether fine-tuning may begin. Within a limit, the first heads must be done."""
        if self.limit is None or not heads_left:
            return not heads_left
        if self.first and not self._tuned(running):
            return True
        return self.limit.left_s() <= (1 - HEADS_SHARE) * self.limit.seconds

    def no_time(self, configuration: Configuration, running: Collection[Configuration] = ()) -> str:
        """Return why a configuration must not start beside the running ones: it would not end in time; empty if it may.

        The card that is fine-tuned always has time for its usual forms, and the very first configuration starts.
        """
        first = not running and not self.bound.results
        tuned = recipe_of(configuration.training).tunes_backbone and configuration.compression in ALWAYS
        ends = self.limit is None or tuned or first or self._seconds([*running, configuration]) <= self.limit.left_s()
        return "" if ends else NO_TIME

    def admitted(
        self, open_units: Iterable[CardTraining], running: Collection[Configuration], most: int
    ) -> frozenset[CardTraining]:
        """Return the cards and heavier trainings that may start now: those that have begun, and the next one."""
        tuned = self._tuned(running)
        in_work = {unit for unit in map(CardTraining.of, running) if unit.tuned}
        following = None if len(in_work) >= most else self._following(open_units, tuned)
        return tuned if following is None else tuned | {following}

    def expected(
        self, open_units: Collection[CardTraining], running: Collection[Configuration]
    ) -> frozenset[CardTraining]:
        """Return the cards and heavier trainings that have begun or will begin, if the next results change nothing."""
        tuned = self._tuned(running)
        while (following := self._following(open_units, tuned)) is not None:
            tuned |= {following}
        return tuned

    def _tuned(self, running: Collection[Configuration]) -> frozenset[CardTraining]:
        evaluated = [each for each, result in self.bound.results.items() if result.status is not Status.SKIPPED]
        return frozenset(unit for unit in map(CardTraining.of, (*running, *evaluated)) if unit.tuned)

    def _following(self, open_units: Iterable[CardTraining], tuned: Collection[CardTraining]) -> CardTraining | None:
        """Return what is tuned after ``tuned``; None if nothing is."""
        fresh = {unit.card: unit for unit in open_units if unit not in tuned}
        if self.limit is not None:
            fitting = [name for name in fresh if self.limit.left_s() >= self._least_s(self.plan.cards_by_name[name])]
            return fresh[min(fitting, key=self._expected_loss)] if fitting else None
        spent_s = sum(map(self._training_s, tuned))
        fitting = [name for name, unit in fresh.items() if spent_s + self._training_s(unit) <= self.plan.tuning_s]
        card = self.favourite(fitting) if fitting else None
        return fresh[card] if card is not None and (not tuned or card == self.favourite(fresh)) else None

    def _expected_loss(self, name: str) -> float:
        """Return the expected loss of a card, by its head, after fine-tuning for the time that is left.

        Less than :data:`GAINING_SHARE` of a training gains in proportion. Latency and size count only if the user
        weighs them.
        """
        head = self.bound.results.get(self.plan.configuration(name, FLOAT, self.plan.threads[-1], HEAD))
        if head is None or head.status is not Status.OK:
            return math.inf
        assert self.limit is not None, "only a time limit needs it"
        left_s = max(0.0, self.limit.left_s() - self._finishing_s(name))
        share = min(1.0, left_s / (GAINING_SHARE * self._training_s(CardTraining(name, self._heavy))))
        behind = (1.0 - share * recipe_of(self._heavy).gain) * (PERFECT - accuracy_of(head))
        if self.preference.accuracy_first:
            return behind
        return float(self.preference.cost(math.log(latency_of(head)), math.log(size_of(head)), behind, behind, 0.0))

    @property
    def _heavy(self) -> str:
        return next(training for training in self.plan.trainings if recipe_of(training).tunes_backbone)

    def _observed(self) -> float:
        return 1.0 if self.limit is None else self.limit.observed()

    def _training_s(self, unit: CardTraining) -> float:
        return self._observed() * self.plan.costs.of_card(self.plan.cards_by_name[unit.card]).trained_s[unit.training]

    def _finishing_s(self, card: str) -> float:
        return self._observed() * self.plan.finishing_s[card]

    def _seconds(self, configurations: Collection[Configuration]) -> float:
        """Return the seconds of configurations on all cores, without what earlier results share; trainings use all.

        A float32 result has made what it shares with itself, another form what all of them share.
        """
        done = self.bound.results
        known = {(e.card, e.training, float_only) for e in done for float_only in {True, e.compression == FLOAT}}
        new = [each for each in configurations if (each.card, each.training, each.compression == FLOAT) not in known]
        costs = {card.name: self.plan.costs.of_card(card) for card in self.plan.cards}
        shared_s = sum(costs[name].shared_s for name in {each.card for each in new} - {card for card, *_ in known})
        own_s = sum(costs[each.card].own_s[each.training, each.compression] for each in configurations)
        trained_s = {unit: costs[unit.card].trained_s[unit.training] for unit in map(CardTraining.of, new)}
        heavy_s = sum(seconds for unit, seconds in trained_s.items() if unit.tuned)
        light_s = sum(trained_s.values()) - heavy_s + shared_s + own_s / len(self.plan.threads)
        return self._observed() * (heavy_s + light_s / self.plan.cores)


class Scheduler:
    """Hands out configurations one by one.

    What the rules of the search (``bound``) reject is deferred. ``allowance`` limits fine-tuning, None does not.
    """

    def __init__(
        self, study: Study, bound: FrontBound, plan: Plan, trials_left: int, cores: int,
        allowance: Allowance | None = None,
    ) -> None:  # fmt: skip
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
        left, begun = self._halving.not_started, self._expected
        later = {unit for unit in map(CardTraining.of, left) if unit.tuned and begun is not None and unit not in begun}
        return [each for each in left if each.card in self._waiting or CardTraining.of(each) in later]

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

        The others stay deferred, and :meth:`next` returns them first.
        """
        late = self._allowance.no_time if self._allowance else lambda _: ""
        reasons = [(each, self._bound.rejection_reason(each) or late(each)) for each in self._halving.deferred]
        self._halving.deferred = {each: -math.inf for each, reason in reasons if not reason}
        return [(each, reason) for each, reason in reasons if reason]

    def refuse_rest(self) -> list[tuple[Configuration, str]]:
        """Return the configurations that the allowance lets no longer start, each with its reason."""
        refused = list[tuple[Configuration, str]]()
        if self._allowance is not None and self._trials_left:
            while (left := self._study.ask(lambda unit: unit.tuned)) is not None:
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
        """Ask the study for the heads that come first, then for fine-tuning if it may begin, else for heads.

        First come the float32 files alone; the other forms of these cards wait for fine-tuning.
        """
        is_head = self._in_turn(lambda unit: not unit.tuned)
        heads = [each for each in (*self._halving.not_started, *running) if is_head(CardTraining.of(each))]
        if any(each.card in allowance.first and each.compression == FLOAT for each in heads):
            while (first := self._study.ask(lambda unit: unit.card in allowance.first and not unit.tuned)) is not None:
                if first.compression == FLOAT:
                    break
                self._halving.defer(first, math.inf)
            return first
        if allowance.begun(bool(heads), running):
            most = self._cores if not heads and allowance.limit is None else max(1, self._cores - 1)
            admitted = allowance.admitted(self._open(), running, most)
            suggested = self._study.ask(admitted.__contains__) if admitted else None
            if suggested is not None:
                return suggested
            self._expected = allowance.expected(self._open(), running)
        return self._study.ask(is_head)

    def _open(self) -> list[CardTraining]:
        """Return the heavier trainings of cards that may start and can still reach the front."""
        left = self._halving.not_started
        promising = {CardTraining.of(each) for each in left if not self._bound.rejection_reason(each)}
        return [unit for unit in self._halving.runnable() if unit.tuned and unit in promising]

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


def _capacity(running: Collection[Configuration], most_finetuned: int) -> HasCapacity:
    """Return the capacity for new configurations if at most ``most_finetuned`` cards are fine-tuned at a time.

    The limit is there to learn what fine-tuning gains on one card before it starts on the next.
    """
    finetuned = {unit for unit in map(CardTraining.of, running) if unit.tuned}
    return lambda unit: not unit.tuned or unit in finetuned or len(finetuned) < most_finetuned

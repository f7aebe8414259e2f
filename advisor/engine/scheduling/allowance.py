"""The share of a search that fine-tuning gets if the user chose no training recipes, and which card is tuned next."""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from advisor.catalog.cards import Card
from advisor.core.evaluation import Configuration, Status, accuracy_of, latency_of, size_of
from advisor.core.metrics import BALANCED, Preference
from advisor.core.training import HEAD, recipe_of
from advisor.engine.pipeline.cost import rough_ms
from advisor.engine.scheduling.halving import CardTraining
from advisor.engine.scheduling.promotion import FLOAT, MOST_AHEAD, PERFECT, FrontBound
from advisor.engine.space.plan import ALWAYS, Plan, prior_accuracy

HEADS_SHARE = 0.5
"""Share of a time limit after which a further card is fine-tuned, even if some heads have no result yet."""

FIRST_CARDS, FIRST_SHARE, ALONE_SHARE = 3, 0.2, 0.35
"""Most cards whose heads come first within a time limit, and the share of the limit that these heads may take if there
are several: before fine-tuning, and if there is no time for it."""

LEAST_SHARE, GAINING_SHARE = 0.15, 0.4
"""Least share of a card's expected fine-tuning that the rest of a time limit must leave room for, and the share that
gains about as much: two of six epochs gave MobileNetV2 9 of its 10 points on the training folder of groceries."""

NO_TIME = "not started: it would not end within the time limit"
"""Reason of configurations whose stages need more time than a limit leaves."""

Favourite = Callable[[Collection[str]], str | None]
"""Returns the card that the decision picks among some cards, by the results so far; None if it picks none."""


@dataclass(frozen=True)
class TimeLimit:
    """The time limit of a search.

    Attributes:
        seconds: the limit.
        left_s: returns the seconds until evaluations must end.
        observed: returns the seconds that stages take here over those that the plan expects.
    """

    seconds: float
    left_s: Callable[[], float]
    observed: Callable[[], float] = lambda: 1.0


@dataclass(frozen=True)
class Allowance:
    """Limits the fine-tuning of a search whose training recipes are the default ones.

    Without a time limit, fine-tuning begins when every head has its result. The card that would be picked now is tuned
    first, then the one that would be picked among the others, and so on. This ends where the expected seconds of all
    tuned cards would exceed those that the plan allows. Only the first card may be another one that fits.

    Within a time limit, fine-tuning begins after the heads of a few cards, see :attr:`first`. The card that is expected
    to be best after fine-tuning is tuned first. All else starts only if it ends within what fine-tuning leaves.

    Args:
        plan: the search space.
        bound: the results so far.
        favourite: says which card would be picked.
        limit: the time limit; None for none.
        preference: what counts among the candidates that meet the limits.
    """

    plan: Plan
    bound: FrontBound
    favourite: Favourite
    limit: TimeLimit | None = None
    preference: Preference = BALANCED

    @cached_property
    def first(self) -> frozenset[str]:
        """The cards whose heads come first within a time limit: the most promising card of each architecture.

        Empty without a time limit. If it is too short for the head and the fine-tuning of any card, the heads of these
        cards may take more of it.
        """
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
        """Return one card of each architecture, the highest published accuracy first.

        It is the quickest to fine-tune of those whose published accuracy is about the highest: on other images than
        those of ImageNet, such cards hardly differ.
        """
        cards = [card for card in self.plan.cards if not card.form and not card.own_file and self._fast(card)]
        found = []
        for family in dict.fromkeys(card.family for card in cards):
            own = {card: prior_accuracy(card, FLOAT) for card in cards if card.family == family}
            alike = [card for card, accuracy in own.items() if accuracy >= max(own.values()) - MOST_AHEAD]
            found.append(min(alike, key=lambda card: (self._least_s(card), -own[card])))
        return sorted(found, key=lambda card: -prior_accuracy(card, FLOAT))

    def _least_s(self, card: Card) -> float:
        """Return the least seconds that the fine-tuning of a card and its forms need."""
        return LEAST_SHARE * self._training_s(CardTraining(card.name, self._heavy)) + self._finishing_s(card)

    def begun(self, heads_left: bool, running: Collection[Configuration] = ()) -> bool:
        """Return whether fine-tuning may begin. Within a limit, the first heads must be done."""
        if self.limit is None or not heads_left:
            return not heads_left
        first_comes = bool(self.first) and not self._tuned(running)
        return first_comes or self.limit.left_s() <= (1 - HEADS_SHARE) * self.limit.seconds

    def no_time(self, configuration: Configuration, running: Collection[Configuration] = ()) -> str:
        """Return why a configuration must not start beside the running ones: it would not end in time; empty if it may.

        The card that is fine-tuned always has time for :data:`~advisor.engine.space.plan.ALWAYS`, and the very first
        configuration starts whatever it takes.
        """
        first = not running and not self.bound.results
        tuned = recipe_of(configuration.training).tunes_backbone and configuration.compression in ALWAYS
        if self.limit is None or tuned or first or self._seconds([*running, configuration]) <= self.limit.left_s():
            return ""
        return NO_TIME

    def admitted(
        self, open_units: Iterable[CardTraining], running: Collection[Configuration], most: int
    ) -> frozenset[CardTraining]:
        """Return the cards and heavier trainings of which configurations may start now.

        These are the ones that have begun, and the next one if fewer than ``most`` are fine-tuned.

        Args:
            open_units: cards and heavier trainings that the rungs let start.
            running: configurations in work.
            most: largest number of cards that are fine-tuned at a time.
        """
        tuned = self._tuned(running)
        in_work = {CardTraining.of(each) for each in running if recipe_of(each.training).tunes_backbone}
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
        return frozenset(CardTraining.of(e) for e in (*running, *evaluated) if recipe_of(e.training).tunes_backbone)

    def _following(self, open_units: Iterable[CardTraining], tuned: Collection[CardTraining]) -> CardTraining | None:
        """Return what is tuned after ``tuned``; None if nothing is."""
        fresh = {unit.card: unit for unit in open_units if unit not in tuned}
        fitting = {card: unit for card, unit in fresh.items() if self._fits(unit, tuned)}
        card = self._favourite(fitting) if fitting else None
        if card is None or (tuned and self.limit is None and card != self.favourite(fresh)):
            return None
        return fresh[card]

    def _fits(self, unit: CardTraining, tuned: Iterable[CardTraining]) -> bool:
        if self.limit is not None:
            return self.limit.left_s() >= self._least_s(self.plan.cards_by_name[unit.card])
        return sum(map(self._training_s, (*tuned, unit))) <= self.plan.tuning_s

    def _favourite(self, cards: Collection[str]) -> str | None:
        """Return the card to fine-tune first; within a time limit the one that is expected to be best after it."""
        return self.favourite(cards) if self.limit is None else min(cards, key=self._expected_loss)

    def _expected_loss(self, name: str) -> float:
        """Return the expected loss of a card, by its head, after fine-tuning for the time that is left.

        :data:`GAINING_SHARE` of a training gains as much as all of it; less gains in proportion. Latency and size count
        only if the user weighs them against accuracy.
        """
        head = self.bound.results.get(self.plan.configuration(name, FLOAT, self.plan.threads[-1], HEAD))
        if head is None or head.status is not Status.OK:
            return math.inf
        assert self.limit is not None, "only a time limit needs it"
        left_s = max(0.0, self.limit.left_s() - self._finishing_s(self.plan.cards_by_name[name]))
        share = min(1.0, left_s / (GAINING_SHARE * self._training_s(CardTraining(name, self._heavy))))
        behind = (1.0 - share * recipe_of(self._heavy).gain) * (PERFECT - accuracy_of(head))
        if self.preference.accuracy_first:
            return behind
        return float(self.preference.cost(math.log(latency_of(head)), math.log(size_of(head)), behind, behind, 0.0))

    @property
    def _heavy(self) -> str:
        return next(training for training in self.plan.trainings if recipe_of(training).tunes_backbone)

    def _fast(self, card: Card) -> bool:
        """Return whether a form of the card may meet the latency budget, by its multiply-accumulates."""
        limit_ms = self.bound.budget.latency_ms
        return limit_ms is None or rough_ms(card, ALWAYS[-1], self.plan.threads[-1]) <= limit_ms

    def _observed(self) -> float:
        return 1.0 if self.limit is None else self.limit.observed()

    def _training_s(self, unit: CardTraining) -> float:
        trained_s = self.plan.costs.of_card(self.plan.cards_by_name[unit.card]).trained_s[unit.training]
        return self._observed() * trained_s

    def _finishing_s(self, card: Card) -> float:
        return self._observed() * self.plan.finishing_s[card.name]

    def _seconds(self, configurations: Collection[Configuration]) -> float:
        """Return the seconds of configurations on all cores, without what earlier results share; trainings use all."""
        known = {
            (each.card, each.training, float_only) for each in self.bound.results for float_only in _counts_for(each)
        }
        new = [each for each in configurations if (each.card, each.training, each.compression == FLOAT) not in known]
        costs = {card.name: self.plan.costs.of_card(card) for card in self.plan.cards}
        shared_s = sum(costs[name].shared_s for name in {each.card for each in new} - {card for card, *_ in known})
        own_s = sum(costs[each.card].own_s[each.training, each.compression] for each in configurations)
        trained_s = {unit: costs[unit.card].trained_s[unit.training] for unit in map(CardTraining.of, new)}
        heavy_s = sum(seconds for unit, seconds in trained_s.items() if recipe_of(unit.training).tunes_backbone)
        light_s = sum(trained_s.values()) - heavy_s + shared_s + own_s / len(self.plan.threads)
        return self._observed() * (heavy_s + light_s / self.plan.cores)


def _counts_for(result: Configuration) -> tuple[bool, ...]:
    """Return for which forms a result has made what they share: float32 for itself, another form for all of them."""
    return (True,) if result.compression == FLOAT else (True, False)

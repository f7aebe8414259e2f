"""Choose what a search does next, and when it ends, by the value of information beside its price.

The scheduler asks :class:`SearchRule` after each result, and a plan plays it through. The page
``docs/rule.md`` repeats its numbers; the reasons of :meth:`SearchRule.explain_refusal` are written
into runs, and code recognises :data:`NO_TIME` by its first words.

:mod:`~advisor.engine._scheduling.expected_gain` has the words,
and what each candidate is expected to gain.

    net gain of the plan  =  net gain of the best candidate that still ends in time,
                             or 0: to stop here
    net gain of a step    =  expected net gain of the plan after its result
                             -  the step's own price

The step whose result adds most to the net gain of the plan for each second is next. If none adds
anything, the best candidate goes on; if no candidate gains more than its price, the search ends.
So a card is tried where its head may change what is fine-tuned, and a time limit is planned
backwards: what a step takes, fine-tuning no longer has.

This is the value of information one step ahead (Raiffa and Schlaifer, "Applied Statistical
Decision Theory", 1961; Russell and Wefald, "Principles of metareasoning", 1991), with correlated
beliefs (Frazier, Powell and Dayanik, "The knowledge-gradient policy for correlated normal
beliefs", 2009) and work that has a price (Snoek, Larochelle and Adams, "Practical Bayesian
optimization of machine learning algorithms", 2012, section 3.2).
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from advisor.core import Evaluation, Limits, Preference, recipe_of
from advisor.engine._pipeline.graph import ALWAYS
from advisor.engine._pipeline.resources import Pool
from advisor.engine._scheduling.belief import CardTraining, FormStep
from advisor.engine._scheduling.expected_gain import NetworkCandidate, Pick, Prospects
from advisor.engine._scheduling.prices import Prices, TimeLimit, keeps_gain
from advisor.engine._space.plan import Plan

MOST_CANDIDATES = 64
"""Candidates over whose gains the result of a step is averaged, the best ones."""

ROUNDING = 1e-4
"""Points of gain below which a gain is rounding."""

LEAST_INFORMATION = 0.05
"""Points that the head of a further network must add to what is planned within a time limit: the
beliefs are not more exact, and it takes its time from a fine-tuning.
"""

EARLY = 0.5
"""Points of net gain that a search within a time limit gives up for an earlier first answer: of
the candidates that gain at most so much less than the best one, the cheapest step comes first.
"""

LIMITED_SHARE = 0.01
"""Share of the least gain that counts within a time limit, whose seconds are there to be used."""

NO_TIME = f"{Evaluation.NOT_STARTED}: it would not end within the time limit"


class Information(NamedTuple):
    """A step, with what it adds to the net gain of the plan for each CPU second."""

    added_a_second: float
    step: FormStep


class SearchRule:
    """The rule of one search.

    ``least``: the points of accuracy, or what the preference counts like them, that a CPU hour
    must be expected to gain. ``time_limit``: None for none.
    """

    def __init__(
        self,
        plan: Plan,
        preference: Preference,
        limits: Limits,
        least: float,
        time_limit: TimeLimit | None = None,
    ) -> None:
        self._has_time_limit = time_limit is not None
        # Seconds within a limit are paid for anyway, so nearly every gain is worth them.
        points_an_hour = least * (LIMITED_SHARE if self._has_time_limit else 1.0)
        lowered = ", a hundredth within a time limit" if self._has_time_limit else ""
        self.stops_below = f"{points_an_hour:g} points (--stop-below{lowered})"
        self.prospects = Prospects(plan, preference, limits, points_an_hour, time_limit)
        self.planned = set[FormStep]()  # the steps that are expected to begin
        self._plan = plan
        # The steps that run on the time that others leave.
        self._spare: frozenset[FormStep] = frozenset()

    @property
    def prices(self) -> Prices:
        """The prices of steps."""
        return self.prospects.prices

    @property
    def is_out_of_time(self) -> bool:
        """True if a network that may still be picked has no time left."""
        prospects = self.prospects
        open_steps = filter(prospects.is_open, map(prospects.find_float, prospects.forms))
        return any(
            not self.prices.share((step,)) and not prospects.is_hopeless(step.network)
            for step in open_steps
        )

    def condition_on(self, evaluation: Evaluation) -> None:
        """Learn from a result. What was skipped or has failed is not tried again."""
        self.prospects.condition_on(evaluation)

    def choose_steps(
        self, begun: Collection[FormStep] = (), spare: Collection[FormStep] = ()
    ) -> tuple[FormStep, ...]:
        """Return the steps to begin beside those that run;
        none if nothing is worth its price, or nothing yet.

        What runs on ``spare`` time delays no other step.
        """
        # The result of a training says what is worth more, so nothing begins beside it.
        if self._trains(begun) or any(step.network.tuned for step in begun):
            return ()
        prospects = self.prospects
        known = prospects.belief
        self.prices.running = tuple(begun)
        self._spare = frozenset(spare)
        # What runs is as good as known, so its twin shows less.
        for step in (*begun, *spare):
            if step not in prospects.results:
                prospects.expect_result(step)
        try:
            return self._choose_steps(begun)
        finally:
            prospects.belief = known
            self.prices.running = ()
            self._spare = frozenset()

    def find_picked_card(self) -> str:
        """Return the card of the pick so far; empty before a result."""
        place = self.prospects.find_pick().place
        return "" if place is None else self.prospects.belief.networks[place].card

    def choose_spare_step(
        self, begun: Collection[FormStep], spare: Collection[FormStep] = ()
    ) -> FormStep | None:
        """Return a step for the time that those that run leave of the cores;
        None if there is none that ends within the limit, or nothing to learn from it.

        It is the head, or the form, whose card may gain the most for each second, however little
        that is: it shows what else there is to choose from, and what to fine-tune next. When
        nothing runs any more, it is for a limit that is too near for what would gain more.
        """
        prospects = self.prospects
        has_end = self._has_time_limit and bool(prospects.results)
        if not has_end or not (begun or self.is_out_of_time):
            return None
        pick = prospects.find_pick()
        best = None
        most_a_second = 0.0
        running = {*begun, *spare}
        busy_cards = {step.network.card for step in begun}
        candidates = (
            *prospects.list_candidates(running),
            *prospects.list_further_forms(running),
        )
        for candidate in candidates:
            step = candidate.steps[0]
            card = self._plan.cards_by_name[step.network.card]
            is_head = not step.network.tuned and step.form in ALWAYS
            if not is_head or step in running or card.name in busy_cards:
                continue
            # A converter, and the training of a head for boxes or masks, are large children.
            if card.needs_converter or self._trains((step,)):
                continue
            # Its result can become the pick, which is to have an int8 file in time.
            forms = prospects.forms[step.network]
            small = [FormStep(step.network, form) for form in ALWAYS[1:] if form in forms]
            if not self.prices.share((step, *small)):
                continue
            gain = prospects.expect_net_gain(candidate, pick, 0.0)
            # The time is there in any case, so it has no price.
            gain += prospects.price_points(candidate.price_s)
            gain_a_second = gain / max(self.prices.seconds((step,)), 1.0)
            if gain_a_second > most_a_second:
                most_a_second = gain_a_second
                best = step
        return best

    def forecast_steps(self) -> Iterator[tuple[FormStep, ...]]:
        """Yield the steps to the end of the search, if every result is as expected."""
        begun_s = 0.0
        # A copy goes on: the search itself has learnt nothing
        # from results that were only expected.
        other = copy.copy(self)
        other.prospects = self.prospects.copy_for_later(lambda: begun_s)
        while steps := other.choose_steps():
            begun_s += other.prices.lasts_s(steps)
            other.prospects.finish_steps(steps)
            yield steps

    def finishing_s(self, network: CardTraining, whole: bool = True) -> float:
        """Return the seconds from the end of a network's training to the results
        of the forms that it gets anyway.

        A training that is not ``whole`` ships itself, so that its files are made once.
        """
        forms = set(ALWAYS) & set(self.prospects.forms.get(network, ()))
        return self.prices.finishing_s(network, forms, whole)

    def finishing_s_within(self, network: CardTraining, left_s: float) -> float:
        """Return :meth:`finishing_s` of a training that has ``left_s`` seconds with what follows
        it: of a whole one if all of it ends in time.
        """
        whole_s = self.finishing_s(network)
        is_whole = left_s - whole_s >= self.prices.training_s(network)
        return whole_s if is_whole else self.finishing_s(network, whole=False)

    def may_begin(self, step: FormStep) -> bool:
        """Return whether a step may begin if everything is to be evaluated.

        What it needs is there, and it may be picked. Every head comes before a fine-tuning.
        """
        prospects = self.prospects
        needed = [prospects.find_float(step.network)]
        if prospects.is_float(step):
            needed = prospects.list_lighter(step.network)
        # The very first step begins in any case.
        is_first = not prospects.results and not prospects.closed
        has_time = is_first or self.prices.share((step,)) > 0.0
        if not step.network.tuned:
            return has_time and not any(map(prospects.is_open, needed))
        heads = []
        for network in prospects.forms:
            if not network.tuned:
                heads.append(prospects.find_float(network))
        if any(prospects.is_open(head) and self.prices.share((head,)) for head in heads):
            return False
        is_ready = all(other in prospects.results for other in needed)
        return has_time and is_ready and not prospects.is_hopeless(step.network)

    def explain_refusal(self, step: FormStep) -> str:
        """Return why the network of a step does not start, or why that form of it is not made."""
        prospects = self.prospects
        network = step.network
        lighter = [
            step for step in prospects.list_lighter(network) if step not in prospects.results
        ]
        if any(step in prospects.closed for step in lighter):
            return "no lighter training of this model was evaluated"
        accuracy = prospects.expect_accuracy(network)
        is_hopeless = prospects.is_hopeless(network)
        if prospects.find_float(network) in prospects.results:
            if not is_hopeless and not self.prices.share((step,)):
                return f"{NO_TIME}; the fine-tuned network is expected to have {accuracy:.1f} %"
            why = "would not be picked" if is_hopeless else "is not worth its CPU time"
            return (
                f"form not made: the fine-tuned network is expected to have {accuracy:.1f} %, and"
                f" one more form of it {why}"
            )
        most = prospects.expect_most_accuracy(network)
        expected = (
            f"not fine-tuned: it is expected to reach {accuracy:.1f} %, at most {most:.1f} %"
        )
        if is_hopeless:
            return f"{expected}, and would not be picked"
        if not self.prices.share((*lighter, prospects.find_float(network))):
            return f"{NO_TIME}; {expected}"
        name = (
            f"name the recipe, --training {network.training}, to tune every model that can still"
            " be picked"
        )
        # No price stands here: an answer has one for a fine-tuning,
        # that of its next step (reporting/_steps.py).
        return f"{expected}, which is not worth its CPU time; {name}"

    def _choose_steps(self, begun: Collection[FormStep]) -> tuple[FormStep, ...]:
        """Return the steps to begin, by what is believed now.

        Within a time limit, every answer so far is a file to ship: the first card has all cores,
        and a pick gets its int8 file before another network begins. It waits for a fine-tuning
        whose time it would take, as long as what comes next leaves that time.
        """
        if not self._has_time_limit:
            return self._choose_by_gain(begun)
        # Until there is a first file to ship, all cores work on it.
        if begun and not self.prospects.results:
            return ()
        small = self._find_small_form(begun)
        if small is None:
            return self._choose_by_gain(begun)
        if small in begun or small in self._spare:
            return ()
        if not self._delays_tuning(small):
            return (small,)
        chosen = self._choose_by_gain(begun)
        return chosen if self._leave_tuning(chosen, small) else (small,)

    def _choose_by_gain(self, begun: Collection[FormStep]) -> tuple[FormStep, ...]:
        """Return the steps that add most to the net gain of the plan for each second."""
        prospects = self.prospects
        running = {*begun, *self._spare}
        candidates = list(prospects.list_candidates(running))
        forms = list(prospects.list_further_forms(running))
        pick = prospects.find_pick()
        net_gains = {form: prospects.expect_net_gain(form, pick, 0.0) for form in forms}
        # What can be had without another network: a new one gains only what it adds to this.
        base = max([0.0, *net_gains.values()])
        net_gains |= {
            candidate: prospects.expect_net_gain(candidate, pick, base) for candidate in candidates
        }
        plan = max(net_gains, key=lambda candidate: net_gains[candidate], default=None)
        if plan is None:
            return () if prospects.results or begun else self._find_cheapest_head()
        # The result of a step is averaged over every candidate that may follow:
        # the best ones suffice.
        following = sorted(candidates, key=lambda candidate: -net_gains[candidate])[
            :MOST_CANDIDATES
        ]
        planned = max(base, net_gains[plan])
        information = self._list_information(following, pick, base, planned)
        informing = sorted(
            (gain for gain in information if gain.step not in running), reverse=True
        )
        if not prospects.results and not begun:
            informing = self._rank_first_steps(informing, net_gains, candidates, plan)
        is_worthwhile = net_gains[plan] >= ROUNDING
        self.planned = {gain.step for gain in informing} | (
            {*plan.steps} if is_worthwhile else set()
        )
        if informing:
            return (informing[0].step,)
        return self._go_on_with(plan, begun) if is_worthwhile else ()

    def _go_on_with(
        self, plan: NetworkCandidate, begun: Collection[FormStep]
    ) -> tuple[FormStep, ...]:
        """Return the next steps of the best candidate."""
        first = plan.steps[0]
        # A head starts alone, because its result decides what comes next. A fine-tuning takes
        # along the forms that it gets in any case.
        if not first.network.tuned:
            return () if first in begun else (first,)
        if begun:
            return ()
        return tuple(step for step in plan.steps if step.network == first.network)

    def _rank_first_steps(
        self,
        informing: Sequence[Information],
        net_gains: Mapping[NetworkCandidate, float],
        candidates: Sequence[NetworkCandidate],
        plan: NetworkCandidate,
    ) -> list[Information]:
        """Return what a search may begin with, the best first:
        a step that surely brings a result in time.
        """
        # A training takes minutes, so an early answer is worth more than information.
        if self._trains(plan.steps[:1]):
            heads = []
            for candidate in candidates:
                if len(candidate.steps) == 1:
                    heads.append(candidate)
            by_price = []
            for head in heads:
                by_price.append(Information(net_gains[head] / head.price_s, head.steps[0]))
            informing = sorted(by_price, reverse=True)
        earliest = plan
        if self._has_time_limit:
            earliest = self._find_earliest(net_gains, net_gains[plan])
        informing = [*informing, Information(0.0, earliest.steps[0])]
        sure = []
        for gain in informing:
            if not gain.step.network.tuned and self.prices.is_sure(gain.step):
                sure.append(gain)
        return sure or [Information(0.0, head) for head in self._find_cheapest_head()] or informing

    def _list_information(
        self,
        candidates: Sequence[NetworkCandidate],
        pick: Pick,
        base: float,
        planned: float,
    ) -> Iterator[Information]:
        """Yield what each first step adds to the net gain of the plan for each second;
        only the steps that do.
        """
        least = LEAST_INFORMATION if self._has_time_limit else ROUNDING
        for step in dict.fromkeys(candidate.steps[0] for candidate in candidates):
            if step.network.tuned or not self.prices.share((step,)):
                continue
            price_s = self.prices.seconds((step,))
            after = self.prospects.expect_net_gain_after(step, candidates, pick, base)
            added = after - self.prospects.price_points(price_s) - planned
            if added >= least:
                yield Information(added / max(price_s, 1.0), step)

    def _find_earliest(
        self, net_gains: Mapping[NetworkCandidate, float], most: float
    ) -> NetworkCandidate:
        """Return the candidate with the cheapest first step of those that gain nearly the most."""
        near = [candidate for candidate in net_gains if net_gains[candidate] >= most - EARLY]
        return min(near, key=lambda candidate: self.prices.seconds(candidate.steps[:1]))

    def _find_cheapest_head(self) -> tuple[FormStep, ...]:
        """Return the cheapest head that ends in time on a quiet machine:
        a first result is worth the attempt.
        """
        prospects = self.prospects
        networks = []
        for network in prospects.forms:
            if not (network.tuned or recipe_of(network.training).quick_head):
                networks.append(network)
        heads = [
            head for head in map(prospects.find_float, networks) if head not in prospects.closed
        ]
        in_time = list(filter(self.prices.may_end, heads))
        return tuple(sorted(in_time, key=lambda head: self.prices.seconds((head,)))[:1])

    def _find_small_form(self, begun: Collection[FormStep]) -> FormStep | None:
        """Return the int8 form of the pick so far;
        None if it is there, fails, is not asked for or has no time.
        """
        prospects = self.prospects
        pick = prospects.find_pick()
        if pick.place is None:
            return None
        network = prospects.belief.networks[pick.place]
        small = []
        for form in ALWAYS[1:]:
            if form in prospects.forms[network][1:]:
                small.append(FormStep(network, form))
        for step in filter(prospects.is_open, small):
            if step in begun or self.prices.share((step,)) > 0.0:
                return step
        return None

    def _list_tunings(self, cards: Collection[str]) -> list[FormStep]:
        """Return the fine-tunings of cards that have no result yet, and may still have one."""
        prospects = self.prospects
        networks = []
        for network in prospects.forms:
            if network.tuned and network.card in cards:
                networks.append(network)
        return list(filter(prospects.is_open, map(prospects.find_float, networks)))

    def _delays_tuning(self, step: FormStep) -> bool:
        """Return whether the fine-tuning of a step's card has its time now,
        and would have little after the step.

        The int8 file of the fine-tuned network comes in any case.
        """
        for tuning in self._list_tunings((step.network.card,)):
            later = self.prices.share((tuning,), (step,))
            if not keeps_gain(self.prices.share((tuning,)), later, self.prospects.train_images):
                return True
        return False

    def _leave_tuning(self, chosen: Collection[FormStep], small: FormStep) -> bool:
        """Return whether steps are a fine-tuning,
        or leave time for that of their cards or of the card of ``small``.
        """
        if not chosen or any(step.network.tuned for step in chosen):
            return bool(chosen)
        cards = {small.network.card, *(step.network.card for step in chosen)}
        return any(
            self.prices.share((tuning,), tuple(chosen)) > 0.0
            for tuning in self._list_tunings(cards)
        )

    def _trains(self, steps: Iterable[FormStep]) -> bool:
        """Return whether steps train a network, which takes minutes;
        a head on features takes seconds.
        """
        return any(stage.resources.pool is Pool.TRAINERS for stage in self.prices.missing(steps))

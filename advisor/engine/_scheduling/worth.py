"""What a search does next, and when it ends: one rule, the value of information beside its price.

The answer of a search has a loss (:class:`~advisor.core.Preference`). A **step** evaluates a network, or one
more form of it. A **chain** is a step with all that is missing until its result can be the answer: the head of a card,
its fine-tuning, its int8 form. The rule knows what each chain is expected to gain, and what it takes in CPU seconds.

    worth of a chain  =  expected gain of the answer  -  its CPU seconds x what a CPU second must gain
    worth of the plan =  worth of the best chain that still ends in time, or 0: to stop here
    worth of a step   =  expected worth of the plan after its result  -  the step's own price

The step whose result adds most to the worth of the plan for each second is next. If none adds anything, the best chain
goes on; if no chain is worth its price, the search ends. So a card is tried where its head may change what is
fine-tuned, and a time limit is planned backwards: what a step takes, fine-tuning no longer has.

This is the value of information one step ahead (Raiffa and Schlaifer, "Applied Statistical Decision Theory", 1961;
Russell and Wefald, "Principles of metareasoning", 1991), with correlated beliefs (Frazier, Powell and Dayanik, "The
knowledge-gradient policy for correlated normal beliefs", 2009) and work that has a price (Snoek, Larochelle and Adams,
"Practical Bayesian optimization of machine learning algorithms", 2012, section 3.2).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

from advisor.core import Budget, Evaluation, Preference, recipe_of
from advisor.engine._pipeline.graph import ALWAYS
from advisor.engine._pipeline.materials import Role
from advisor.engine._pipeline.resources import Pool
from advisor.engine._scheduling.belief import (
    UNKNOWN_IMAGES,
    AccuracyBelief,
    CardTraining,
    FormStep,
    noise,
    read_evidence,
)
from advisor.engine._scheduling.losses import INFEASIBLE, FormCost, Losses, least
from advisor.engine._scheduling.prices import Prices, TimeLimit, keeps_gain, share_of_gain
from advisor.engine._space.plan import Plan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NO_ANSWER = 40.0
"""Loss of having no answer, in the unit of :meth:`.Preference.price`."""

NOISE = 0.67
DIFFERENT = 0.8
"""Standard deviations by which the images must show a network to be behind, for odds of about 3 to 1; and images on
which two networks differ, over those on which one of them is wrong."""

MOST = 64
"""Steps that are looked at, and chains after each of them."""

NODES = tuple(NormalDist().inv_cdf((place + 0.5) / 7) for place in range(7))
"""Quantiles of a result over which a gain is averaged, in standard deviations."""

TINY = 1e-4
LEAST_LOOK = 0.05
"""Points below which a gain is rounding; and points that the head of a further network must add to what is planned
within a time limit: the beliefs are not more exact, and it takes its time from a fine-tuning."""

EARLY = 0.5
"""Points of a plan for which a first answer comes earlier within a time limit."""

EXTREME = 3.1
"""Standard deviations beyond which a result is not expected: one in a thousand."""

NO_TIME = f"{Evaluation.NOT_STARTED}: it would not end within the time limit"

IDLE = 0.01
HOUR_S = 3600.0
"""Share of the least gain that counts within a time limit, whose seconds are there to be used."""


class Chain(NamedTuple):
    """The steps to a result of one network, which has a ``place`` in the belief.

    Expected of the result: ``mean``, the logarithm of its error in %, and ``cost``. ``price_s`` are the CPU seconds of
    the steps.
    """

    steps: tuple[FormStep, ...]
    place: int
    mean: float
    cost: FormCost
    price_s: float


Look = tuple[float, FormStep]
"""What a step adds to the worth of the plan for each second, and the step."""


class Pick(NamedTuple):
    """The best result so far: its place in the belief (None before any), and what it costs."""

    place: int | None
    cost: FormCost


class WorthRule:
    """The rule of one search.

    ``least``: the points of accuracy, or what the preference counts like them, that a CPU hour must be expected to
    gain. ``limit``: None for no time limit.
    """

    def __init__(
        self, plan: Plan, preference: Preference, budget: Budget, least: float, limit: TimeLimit | None = None
    ) -> None:
        self.belief = AccuracyBelief.before(plan)
        self.prices = Prices(plan, limit)
        self._plan = plan
        self._losses = Losses(plan, preference, budget)
        self._limited = limit is not None
        # Seconds within a limit are paid for anyway, so nearly every gain is worth them.
        self._an_hour = least * (IDLE if limit else 1.0)
        lowered = ", a hundredth within a time limit" if limit else ""
        self.stops_below = f"{self._an_hour:g} points (--stop-below{lowered})"
        self._point = float(preference.loss(1.0, 0.0, 0.0))
        self._shown = float(preference.loss(0.0, 1.0, 0.0))
        self._images = plan.workload.images.get(Role.VALIDATION, 0) or UNKNOWN_IMAGES
        self._share = plan.workload.question.of_task.probabilities  # the accuracy is a share of right images
        self._train = plan.workload.images.get(Role.TRAIN, 0)
        self.planned = set[FormStep]()  # the steps that are expected to begin
        # The forms that exist.
        self._made = dict[FormStep, FormCost]()
        # The forms that will never exist.
        self._closed = set[FormStep]()
        self._forms = dict[CardTraining, tuple[str, ...]]()
        for step in map(FormStep.of, plan.configurations()):
            self._forms[step.network] = tuple(dict.fromkeys((*self._forms.get(step.network, ()), step.form)))

    def tell(self, evaluation: Evaluation) -> None:
        """Note a result. What was skipped or has failed is not tried again."""
        step = FormStep.of(evaluation.configuration)
        cost = self._losses.shown(evaluation)
        if cost is None or evaluation.card_facts.as_it_is:
            self._closed.add(step)  # a finished file may have learnt from the images that judge it
            return
        if step not in self._made and step == self._floats(step.network):
            # Only the float file says how well the network has learnt; other forms add the error of their rounding.
            value, variance, images = read_evidence(evaluation, self._share)
            self.belief = self.belief.condition_on(self.belief.place[step.network], value, variance)
            self._images = self._images if self._share else images
        # Several configurations time one file, at other numbers of threads: the best of them is what the step
        # brought.
        self._made[step] = min(cost, self._made.get(step, cost), key=least)

    def next(self, begun: Collection[FormStep] = ()) -> tuple[FormStep, ...]:
        """Return the steps to begin beside those that run; none if nothing is worth its price, or nothing yet."""
        if self._trains(begun) or any(step.network.tuned for step in begun):  # its result says what is worth more
            return ()
        known = self.belief
        for step in begun:  # what runs is as good as known, so its twin shows less
            if step == self._floats(step.network) and step not in self._made:
                self.belief = self.belief.expecting(known.place[step.network], self._images)
        try:
            return self._chosen(begun)
        finally:
            self.belief = known

    def _chosen(self, begun: Collection[FormStep]) -> tuple[FormStep, ...]:
        """Return the steps to begin, by what is believed now.

        Within a time limit, every answer so far is a file to ship: the first card has all cores, and a pick gets its
        int8 file before another network begins. It waits for a fine-tuning whose time it would take, as long as what
        comes next leaves that time.
        """
        if not self._limited:
            return self._most_worth(begun)
        # Until there is a first file to ship, all cores work on it.
        if begun and not self._made:
            return ()
        small = self._small_file(begun)
        if small is None:
            return self._most_worth(begun)
        if small in begun:
            return ()
        if not self._delays_tuning(small):
            return (small,)
        chosen = self._most_worth(begun)
        return chosen if self._leave_tuning(chosen, small) else (small,)

    def _most_worth(self, begun: Collection[FormStep]) -> tuple[FormStep, ...]:
        """Return the steps that add most to the worth of the plan for each second."""
        chains = list(self._chains(begun))
        forms = list(self._further_forms(begun))
        pick = self._pick()
        worth = {chain: self._worth(chain, pick, 0.0) for chain in forms}
        # A new network is worth only what it adds to this.
        base = max([0.0, *worth.values()])  # what can be had without another network
        worth |= {chain: self._worth(chain, pick, base) for chain in chains}
        plan = max(worth, key=lambda chain: worth[chain], default=None)
        if plan is None:
            return () if self._made or begun else self._cheapest()
        # To look at a step means to average over its results for every chain that may follow: the best chains
        # suffice.
        following = sorted(chains, key=lambda chain: -worth[chain])[:MOST]
        looks = sorted(self._looks(following, pick, base, max(base, worth[plan])), reverse=True)
        looks = [look for look in looks if look[1] not in begun]
        if not self._made and not begun:
            if self._trains(plan.steps[:1]):  # it takes minutes, so an early answer is worth more than information
                gains = ((worth[chain] / chain.price_s, chain.steps[0]) for chain in chains if len(chain.steps) == 1)
                looks = sorted(gains, reverse=True)
            earliest = self._earliest(worth, worth[plan]) if self._limited else plan
            looks = self._sure([*looks, (0.0, earliest.steps[0])])
        self.planned = {step for _, step in looks} | ({*plan.steps} if worth[plan] >= TINY else set())
        if looks:
            return (looks[0][1],)
        if worth[plan] < TINY:
            return ()
        first = plan.steps[0]
        # A head starts alone, because its result decides what comes next. A fine-tuning takes along the forms that it
        # gets in any case.
        if not first.network.tuned:
            return () if first in begun else (first,)
        return () if begun else tuple(step for step in plan.steps if step.network == first.network)

    def _earliest(self, worth: Mapping[Chain, float], most: float) -> Chain:
        """Return the chain with the cheapest first step of those that are nearly worth the most."""
        near = [chain for chain in worth if worth[chain] >= most - EARLY]
        return min(near, key=lambda chain: self.prices.seconds(chain.steps[:1]))

    def _small_file(self, begun: Collection[FormStep]) -> FormStep | None:
        """Return the int8 form of the pick so far; None if it is there, fails, is not asked for or has no time."""
        pick = self._pick()
        if pick.place is None:
            return None
        network = self.belief.networks[pick.place]
        small = [FormStep(network, form) for form in ALWAYS[1:] if form in self._forms[network][1:]]
        open_steps = [step for step in small if step not in self._made and step not in self._closed]
        in_time = [step for step in open_steps if step in begun or self.prices.share((step,)) > 0.0]
        return in_time[0] if in_time else None

    def _delays_tuning(self, step: FormStep) -> bool:
        """Return whether the fine-tuning of a step's card has its time now, and would have little after the step.

        The int8 file of the fine-tuned network comes in any case.
        """
        tunings = [self._floats(network) for network in self._forms if network.tuned]
        for tuning in tunings:
            if tuning.network.card != step.network.card or tuning in self._made or tuning in self._closed:
                continue
            later = self.prices.share((tuning,), (step,))
            if not keeps_gain(self.prices.share((tuning,)), later, self._train):
                return True
        return False

    def _leave_tuning(self, chosen: Collection[FormStep], small: FormStep) -> bool:
        """Return whether steps are a fine-tuning, or leave time for that of their cards or of the card of ``small``."""
        if not chosen or any(step.network.tuned for step in chosen):
            return bool(chosen)
        cards = {small.network.card, *(step.network.card for step in chosen)}
        tunings = [self._floats(network) for network in self._forms if network.tuned and network.card in cards]
        open_tunings = [step for step in tunings if step not in self._made and step not in self._closed]
        return any(self.prices.share((step,), tuple(chosen)) > 0.0 for step in open_tunings)

    def _trains(self, steps: Iterable[FormStep]) -> bool:
        """Return whether steps train a network, which takes minutes; a head on features takes seconds."""
        return any(stage.resources.pool is Pool.TRAINERS for stage in self.prices.missing(steps))

    def _sure(self, looks: list[Look]) -> list[Look]:
        """Return the first steps that surely bring a result in time; if there is none, the cheapest head."""
        sure = [look for look in looks if not look[1].network.tuned and self.prices.is_sure(look[1])]
        return sure or [(0.0, head) for head in self._cheapest()] or looks

    def _cheapest(self) -> tuple[FormStep, ...]:
        """Return the cheapest head that ends in time on a quiet machine: a first result is worth the attempt."""
        heads = [
            self._floats(network)
            for network in self._forms
            if not (network.tuned or recipe_of(network.training).quick_head)
        ]
        in_time = [head for head in heads if head not in self._closed and self.prices.may_end(head)]
        return tuple(sorted(in_time, key=lambda head: self.prices.seconds((head,)))[:1])

    def course(self) -> Iterator[tuple[FormStep, ...]]:
        """Yield the steps to the end of the search, if every result is as expected."""
        # The course is played on a copy: the search itself has learnt nothing from results that were only expected.
        other = copy.copy(self)
        begun_s = 0.0
        other._made = dict(self._made)
        other.prices = self.prices.later(lambda: begun_s)
        while steps := other.next():
            begun_s += other.prices.lasts_s(steps)
            other.prices.finished.update(other.prices.missing(steps))
            for step in steps:
                if step == other._floats(step.network):
                    other.belief = other.belief.expecting(other.belief.place[step.network], other._images)
                cost = other._losses.expected(step)
                other._made[step] = cost._replace(chance=float(round(cost.chance)))
            yield steps

    def finishing_s(self, network: CardTraining, whole: bool = True) -> float:
        """Return the seconds from the end of a network's training to the results of the forms that it gets anyway.

        A training that is not ``whole`` ships itself, so that its files are made once.
        """
        return self.prices.finishing_s(network, set(ALWAYS) & set(self._forms.get(network, ())), whole)

    def may_begin(self, step: FormStep) -> bool:
        """Return whether a step may begin if everything is to be evaluated: what it needs is there, and it may be
        picked. Every head comes before a fine-tuning.
        """
        heads = (self._floats(network) for network in self._forms if not network.tuned)
        needed = self._below(step.network) if step == self._floats(step.network) else [self._floats(step.network)]
        tuned = step.network.tuned
        done = [step for step in needed if step in self._made]
        there = len(done) == len(needed) if tuned else all(e in self._made or e in self._closed for e in needed)
        first = not self._made and not self._closed  # the very first step begins in any case
        if tuned and any(e not in self._made and e not in self._closed and self.prices.share((e,)) for e in heads):
            return False
        return there and (first or self.prices.share((step,)) > 0.0) and not (tuned and self._hopeless(step.network))

    def reason(self, network: CardTraining) -> str:
        """Return why a network does not start, or why no further form of it is made."""
        place = self.belief.place[network]
        pick = self._pick()
        below = [step for step in self._below(network) if step not in self._made]
        if any(step in self._closed for step in below):
            return "no lighter training of this model was evaluated"
        mean, best = (
            100.0 - math.exp(log_error) for log_error in (float(self.belief.mean[place]), self._least(place, pick))
        )
        if self._floats(network) in self._made:
            why = "would not be picked" if self._hopeless(network) else "is not worth its CPU time"
            return f"form not made: the fine-tuned network has about {mean:.1f} %, and one more form of it {why}"
        expected = f"not fine-tuned: it is expected to reach {mean:.1f} %, at most {best:.1f} %"
        if self._hopeless(network):
            return f"{expected}, and would not be picked"
        steps = (*below, self._floats(network))
        if not self.prices.share(steps):
            return f"{NO_TIME}; {expected}"
        name = f"name the recipe, --training {network.training}, to tune every model that can still be picked"
        # No price stands here: an answer has one for a fine-tuning, that of its next step (reporting/_steps.py).
        return f"{expected}, which is not worth its CPU time; {name}"

    @property
    def out_of_time(self) -> bool:
        """True if a network that may still be picked has no time left."""
        floats = set(map(self._floats, self._forms)) - self._made.keys() - self._closed
        return any(not self.prices.share((step,)) and not self._hopeless(step.network) for step in floats)

    def _hopeless(self, network: CardTraining) -> bool:
        """Return whether a network would not be picked even with the best result that is expected of it."""
        pick = self._pick()
        least_error = self._least(self.belief.place[network], pick)
        return pick.place is not None and float(self._gain(least_error, self._cost(network), pick)) <= 0.0

    def _least(self, place: int, pick: Pick) -> float:
        """Return the least logarithm of an error that is expected."""
        return float(self.belief.mean[place]) - EXTREME * self._spread(self.belief.covariance, place, pick.place)

    def _chains(self, begun: Collection[FormStep]) -> Iterator[Chain]:
        """Yield the chain of each network that can be the answer, has no result yet, and still ends in time."""
        for place, network in enumerate(self.belief.networks):
            shown = self._floats(network)
            below = self._below(network)
            steps = (*(step for step in below if step not in self._made), shown)
            ended = shown in self._made or self._closed.intersection(steps) or shown in begun
            if ended or recipe_of(network.training).quick_head:
                continue
            if network.tuned:
                steps += tuple(FormStep(network, form) for form in ALWAYS if form in self._forms[network][1:])
            if share := self.prices.share(steps):
                yield Chain(steps, place, self._mean(place, share), self._cost(network), self.prices.seconds(steps))

    def _further_forms(self, begun: Collection[FormStep]) -> Iterator[Chain]:
        """Yield a chain of one step for each further form of a network that has a result."""
        for network, forms in self._forms.items():
            if self._floats(network) not in self._made:
                continue
            for step in (FormStep(network, form) for form in forms[1:]):
                ended = step in self._made or step in self._closed or step in begun
                if not ended and self.prices.share((step,)) > 0.0:
                    place = self.belief.place[network]
                    mean = float(self.belief.mean[place])
                    cost = self._losses.expected(step)
                    yield Chain((step,), place, mean, cost, self.prices.seconds((step,)))

    def _worth(self, chain: Chain, pick: Pick, base: float) -> float:
        """Return the expected gain of a chain beyond ``base``, which can be had anyway, less its price; in points."""
        import numpy as np

        if len(chain.steps) == 1 and self._floats(chain.steps[0].network) in self._made:  # another form
            spread = self._losses.spread(chain.steps[0])
            gains = self._gain(chain.mean, chain.cost, pick, spread * np.array(NODES))
        else:
            sd = self._spread(self.belief.covariance, chain.place, pick.place)
            gains = self._gain(chain.mean + sd * np.array(NODES), chain.cost, pick)
        return float(np.maximum(gains, base).mean()) - self._paid(chain.price_s)

    def _looks(self, chains: Sequence[Chain], pick: Pick, base: float, planned: float) -> Iterator[Look]:
        """Yield what each step adds to the worth of the plan for each second, and the step; only those that do."""
        least = LEAST_LOOK if self._limited else TINY
        for step in dict.fromkeys(chain.steps[0] for chain in chains):
            if not step.network.tuned and self.prices.share((step,)) > 0.0:
                price_s = self.prices.seconds((step,))
                added = self._after(step, chains, pick, base) - self._paid(price_s) - planned
                if added >= least:
                    yield added / max(price_s, 1.0), step

    def _after(self, step: FormStep, chains: Sequence[Chain], pick: Pick, base: float) -> float:
        """Return the expected worth of the plan after the result of a step: the mean over its quantiles."""
        import numpy as np

        place = self.belief.place[step.network]
        nodes = np.array(NODES)
        moves = self.belief.shown(place, self._images)
        covariance = self.belief.covariance - np.outer(moves, moves)
        best = np.full(len(nodes), base)
        if not recipe_of(step.network.training).quick_head:
            gain = self._gain(self.belief.mean[place] + moves[place] * nodes, self._cost(step.network), pick)
            best = np.maximum(best, gain)
        reached = best
        for chain in chains:
            rest = tuple(other for other in chain.steps if other != step)
            if chain.place == place or not (share := self.prices.share(rest, (step,))):
                continue
            mean = self._mean(chain.place, share)
            sd = self._spread(covariance, chain.place, pick.place)
            results = mean + moves[chain.place] * nodes[:, None] + sd * nodes[None, :]
            gains = np.maximum(self._gain(results, chain.cost, pick), best[:, None]).mean(axis=1)
            same = chain.steps[0].network.card == step.network.card
            price_s = self.prices.seconds(rest, (step,)) if same else chain.price_s
            reached = np.maximum(reached, gains - self._paid(price_s))
        return float(reached.mean())

    def _mean(self, place: int, share: float) -> float:
        """Return the expected logarithm of the error of a network after a share (0-1) of its whole fine-tuning."""
        shift = self._plan.shift_of(self.belief.networks[place].training)[0]
        return float(self.belief.mean[place]) - shift * (1.0 - share_of_gain(share, self._train))

    def _gain(self, log_error: float | Floats, cost: FormCost, pick: Pick, more: float | Floats = 0.0) -> Floats:
        """Return the points, or what counts like them, by which results are better than the pick.

        ``more`` is what they lose beyond their cost. A result over the budget gains nothing over a pick within it.
        """
        import numpy as np

        accuracy = 100.0 - np.exp(np.minimum(log_error, math.log(100.0)))
        if pick.place is None:
            gain = NO_ANSWER - cost.loss - more + (self._point + self._shown) * (accuracy - 50.0)
        else:
            right = 100.0 - math.exp(min(float(self.belief.mean[pick.place]), math.log(100.0)))
            unclear = NOISE * 100.0 * math.sqrt(DIFFERENT * max(1.0 - right / 100.0, 0.005) / self._images)
            ahead = accuracy - right
            clearly = np.sign(ahead) * np.maximum(np.abs(ahead) - unclear, 0.0)
            gain = pick.cost.loss - cost.loss - more + self._point * ahead + self._shown * clearly
        gain = gain * cost.chance if pick.cost.chance else gain + cost.chance * INFEASIBLE
        return np.asarray(gain / (self._point + self._shown or 1.0), dtype=np.float64)

    def _spread(self, covariance: Floats, place: int, other: int | None) -> float:
        """Return the standard deviation of what a result of a network will show, beside the network of the pick."""
        variance = float(covariance[place, place])
        if other is not None and other != place:
            variance += float(covariance[other, other] - 2.0 * covariance[place, other])
        left = noise(math.exp(float(self.belief.mean[place])), self._images)
        return max(variance, 0.0) / math.sqrt(max(variance, 0.0) + left)

    def _pick(self) -> Pick:
        """Return the best result so far: the one that the decision would pick, but for the noise of the timings."""
        answers = [step for step in self._made if not recipe_of(step.network.training).quick_head]
        if not answers:
            return Pick(None, FormCost(NO_ANSWER, 0.0))
        answers = [step for step in answers if self._made[step].chance] or answers
        place = self.belief.place
        first = min(answers, key=lambda step: self.belief.mean[place[step.network]])
        behind = Pick(place[first.network], self._made[first])
        means = {step: float(self.belief.mean[place[step.network]]) for step in answers}
        best = max(answers, key=lambda step: float(self._gain(means[step], self._made[step], behind)))
        return Pick(place[best.network], self._made[best])

    def _cost(self, network: CardTraining) -> FormCost:
        """Return the least expected cost among the forms that a network gets anyway."""
        wanted = {self._floats(network), *(FormStep(network, form) for form in ALWAYS if form in self._forms[network])}
        return min(map(self._losses.expected, wanted), key=least)

    def _floats(self, network: CardTraining) -> FormStep:
        """Return the step that shows a network's accuracy: its float32 file, or the only form of a finished file."""
        return FormStep(network, self._forms[network][0])

    def _below(self, network: CardTraining) -> list[FormStep]:
        """Return the steps of the lighter trainings of a card, which come before this one."""
        trainings = self._plan.trainings[: self._plan.trainings.index(network.training)]
        lighter = (
            CardTraining(network.card, training) for training in trainings if not recipe_of(training).tunes_backbone
        )
        return [self._floats(network) for network in lighter if network in self._forms]

    def _paid(self, seconds: float) -> float:
        return self._an_hour * seconds / HOUR_S

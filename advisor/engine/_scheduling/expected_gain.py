"""Estimate what a search may still evaluate,
and by how much each result is expected to improve its answer.

The answer of a search has a loss (:class:`~advisor.core.Preference`). A **step** evaluates a
network, or one more form of it. A **candidate** is a step with all that is missing until its
result can be the answer: the head of a card, its fine-tuning, its int8 form.

    net gain of a candidate  =  expected gain of the answer
                                -  its CPU seconds x what a CPU second must gain

The gain is a mean over the results that are believed (:class:`.AccuracyBelief`). A result that is
worse than the pick gains nothing, because the pick stays.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

from advisor.core import Evaluation, Limits, Preference, recipe_of
from advisor.engine._pipeline.graph import ALWAYS
from advisor.engine._pipeline.images import Role
from advisor.engine._scheduling.belief import (
    UNKNOWN_IMAGES,
    AccuracyBelief,
    CardTraining,
    FormStep,
    noise,
    read_evidence,
)
from advisor.engine._scheduling.form_costs import INFEASIBLE, FormCost, FormCosts
from advisor.engine._scheduling.prices import Prices, TimeLimit, share_of_gain
from advisor.engine._space.plan import Plan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NO_ANSWER = 40.0
"""Loss of having no answer, in the unit of :meth:`.Preference.price`."""

NOISE = 0.67
DIFFERENT = 0.8
"""Standard deviations by which the images must show a network to be behind, for odds of about 3 to
1; and images on which two networks differ, over those on which one of them is wrong.
"""

QUANTILES = tuple(NormalDist().inv_cdf((place + 0.5) / 7) for place in range(7))
"""Quantiles of a result over which a gain is averaged, in standard deviations."""

EXTREME = 3.1
"""Standard deviations beyond which a result is not expected: one in a thousand."""

HOUR_S = 3600.0


class NetworkCandidate(NamedTuple):
    """The steps to a result of one network, which has a ``place`` in the belief.

    Expected of the result: ``mean``, the logarithm of its error in %, and ``cost``.
    ``price_s`` are the CPU seconds of the steps.
    """

    steps: tuple[FormStep, ...]
    place: int
    mean: float
    cost: FormCost
    price_s: float


class Pick(NamedTuple):
    """The best result so far: its place in the belief (None before any), and what it costs."""

    place: int | None
    cost: FormCost


class Prospects:
    """The results of one search, and what it may expect of all that it has not evaluated.

    ``points_an_hour``: the points of accuracy, or what the preference counts like them, that a CPU
    hour must be expected to gain. ``time_limit``: None for none.
    """

    def __init__(
        self,
        plan: Plan,
        preference: Preference,
        limits: Limits,
        points_an_hour: float,
        time_limit: TimeLimit | None,
    ) -> None:
        self.belief = AccuracyBelief.before(plan)
        self.prices = Prices(plan, time_limit)
        # The forms that have a result, and those that will never have one.
        self.results = dict[FormStep, FormCost]()
        self.closed = set[FormStep]()
        self.forms = dict[CardTraining, tuple[str, ...]]()
        for step in map(FormStep.of, plan.configurations()):
            self.forms[step.network] = tuple(
                dict.fromkeys((*self.forms.get(step.network, ()), step.form))
            )
        self._plan = plan
        self._points_an_hour = points_an_hour
        self._costs = FormCosts(plan, preference, limits)
        # The loss of a point of accuracy: in itself, and because the images show it.
        self._point = float(preference.loss(1.0, 0.0, 0.0))
        self._shown = float(preference.loss(0.0, 1.0, 0.0))
        self._images = plan.workload.images.get(Role.VALIDATION, 0) or UNKNOWN_IMAGES
        # The accuracy is a share of right images.
        self._is_share = plan.workload.question.of_task.probabilities
        self.train_images = plan.workload.images.get(Role.TRAIN, 0)

    def condition_on(self, evaluation: Evaluation) -> None:
        """Learn from a result. What was skipped or has failed is not tried again."""
        step = FormStep.of(evaluation.configuration)
        cost = self._costs.note_result(evaluation)
        # A finished file may have learnt from the images that judge it.
        if cost is None or evaluation.card_facts.as_it_is:
            self.closed.add(step)
            return
        if step not in self.results and self.is_float(step):
            # Only the float file says how well the network has learnt;
            # other forms add the error of their rounding.
            value, variance, images = read_evidence(evaluation, self._is_share)
            self.belief = self.belief.condition_on(
                self.belief.place[step.network], value, variance
            )
            self._images = self._images if self._is_share else images
        # Several configurations time one file, at other numbers of threads:
        # the best of them is what the step brought.
        self.results[step] = min(cost, self.results.get(step, cost), key=FormCost.net_loss)

    def expect_result(self, step: FormStep) -> None:
        """Take a step as evaluated, with the result that is expected of it."""
        if self.is_float(step):
            self.belief = self.belief.expecting(self.belief.place[step.network], self._images)

    def finish_steps(self, steps: Collection[FormStep]) -> None:
        """Take steps as finished, with the results that are expected of them."""
        self.prices.finished.update(self.prices.missing(steps))
        for step in steps:
            self.expect_result(step)
            cost = self._costs.expect_cost(step)
            self.results[step] = cost._replace(chance=float(round(cost.chance)))

    def copy_for_later(self, begun_s: Callable[[], float]) -> Prospects:
        """Return these prospects for a search that has run ``begun_s()`` seconds longer;
        each learns for itself.
        """
        other = copy.copy(self)
        other.results = dict(self.results)
        other.prices = self.prices.later(begun_s)
        return other

    def find_float(self, network: CardTraining) -> FormStep:
        """Return the step that shows a network's accuracy:
        its float32 file, or the only form of a finished file.
        """
        return FormStep(network, self.forms[network][0])

    def is_float(self, step: FormStep) -> bool:
        """Return whether a step shows the accuracy of its network."""
        return step == self.find_float(step.network)

    def is_open(self, step: FormStep) -> bool:
        """Return whether a step has no result yet, and may still have one."""
        return step not in self.results and step not in self.closed

    def list_lighter(self, network: CardTraining) -> list[FormStep]:
        """Return the steps of the lighter trainings of a card, which come before this one."""
        trainings = self._plan.trainings[: self._plan.trainings.index(network.training)]
        lighter = (
            CardTraining(network.card, training)
            for training in trainings
            if not recipe_of(training).tunes_backbone
        )
        return [self.find_float(network) for network in lighter if network in self.forms]

    def list_candidates(self, begun: Collection[FormStep]) -> Iterator[NetworkCandidate]:
        """Yield a candidate for each network that can be the answer, has no result yet,
        and still ends in time.
        """
        for place, network in enumerate(self.belief.networks):
            shown = self.find_float(network)
            lighter = self.list_lighter(network)
            steps = (*(step for step in lighter if step not in self.results), shown)
            has_ended = shown in self.results or self.closed.intersection(steps) or shown in begun
            if has_ended or recipe_of(network.training).quick_head:
                continue
            if network.tuned:
                steps += tuple(
                    FormStep(network, form) for form in ALWAYS if form in self.forms[network][1:]
                )
            share = self.prices.share(steps)
            if share:
                mean = self._expect_log_error(place, share)
                yield NetworkCandidate(
                    steps, place, mean, self._expect_cost(network), self.prices.seconds(steps)
                )

    def list_further_forms(self, begun: Collection[FormStep]) -> Iterator[NetworkCandidate]:
        """Yield a candidate of one step for each further form of a network that has a result."""
        for network, forms in self.forms.items():
            if self.find_float(network) not in self.results:
                continue
            place = self.belief.place[network]
            mean = float(self.belief.mean[place])
            for step in (FormStep(network, form) for form in forms[1:]):
                if self.is_open(step) and step not in begun and self.prices.share((step,)) > 0.0:
                    cost = self._costs.expect_cost(step)
                    yield NetworkCandidate(
                        (step,), place, mean, cost, self.prices.seconds((step,))
                    )

    def find_pick(self) -> Pick:
        """Return the best result so far:
        the one that the decision would pick, but for the noise of the timings.
        """
        answers = [
            step for step in self.results if not recipe_of(step.network.training).quick_head
        ]
        if not answers:
            return Pick(None, FormCost(NO_ANSWER, 0.0))
        answers = [step for step in answers if self.results[step].chance] or answers
        place = self.belief.place
        first = min(answers, key=lambda step: self.belief.mean[place[step.network]])
        behind = Pick(place[first.network], self.results[first])
        means = {step: float(self.belief.mean[place[step.network]]) for step in answers}
        best = max(
            answers,
            key=lambda step: float(self._compute_gain(means[step], self.results[step], behind)),
        )
        return Pick(place[best.network], self.results[best])

    def expect_net_gain(self, candidate: NetworkCandidate, pick: Pick, base: float) -> float:
        """Return the expected gain of a candidate beyond ``base``, which can be had anyway,
        less its price; points.
        """
        import numpy as np

        first, *others = candidate.steps
        is_further_form = not others and self.find_float(first.network) in self.results
        if is_further_form:
            more = self._costs.expect_loss_sd(first) * np.array(QUANTILES)
            gains = self._compute_gain(candidate.mean, candidate.cost, pick, more)
        else:
            sd = self._compute_spread(self.belief.covariance, candidate.place, pick.place)
            gains = self._compute_gain(
                candidate.mean + sd * np.array(QUANTILES), candidate.cost, pick
            )
        return float(np.maximum(gains, base).mean()) - self.price_points(candidate.price_s)

    def expect_net_gain_after(
        self,
        step: FormStep,
        candidates: Sequence[NetworkCandidate],
        pick: Pick,
        base: float,
    ) -> float:
        """Return the best net gain after the result of a step:
        the mean over the quantiles of that result.
        """
        import numpy as np

        place = self.belief.place[step.network]
        nodes = np.array(QUANTILES)
        moves = self.belief.shown(place, self._images)
        covariance = self.belief.covariance - np.outer(moves, moves)
        best = np.full(len(nodes), base)
        if not recipe_of(step.network.training).quick_head:
            results = self.belief.mean[place] + moves[place] * nodes
            best = np.maximum(
                best, self._compute_gain(results, self._expect_cost(step.network), pick)
            )
        reached = best
        for candidate in candidates:
            if candidate.place == place:
                continue
            rest = tuple(other for other in candidate.steps if other != step)
            share = self.prices.share(rest, (step,))
            if not share:
                continue
            mean = self._expect_log_error(candidate.place, share)
            sd = self._compute_spread(covariance, candidate.place, pick.place)
            results = mean + moves[candidate.place] * nodes[:, None] + sd * nodes[None, :]
            gains = np.maximum(
                self._compute_gain(results, candidate.cost, pick), best[:, None]
            ).mean(axis=1)
            # Another training of the same card needs no step twice.
            is_same = candidate.steps[0].network.card == step.network.card
            price_s = self.prices.seconds(rest, (step,)) if is_same else candidate.price_s
            reached = np.maximum(reached, gains - self.price_points(price_s))
        return float(reached.mean())

    def expect_most_accuracy(self, network: CardTraining) -> float:
        """Return the accuracy in % that a network may reach at most."""
        return 100.0 - math.exp(self._find_least_log_error(network, self.find_pick()))

    def expect_accuracy(self, network: CardTraining) -> float:
        """Return the accuracy in % that is expected of a network."""
        return 100.0 - math.exp(float(self.belief.mean[self.belief.place[network]]))

    def is_hopeless(self, network: CardTraining) -> bool:
        """Return whether a network would not be picked even
        with the best result that is expected of it.
        """
        pick = self.find_pick()
        least_log_error = self._find_least_log_error(network, pick)
        gain = self._compute_gain(least_log_error, self._expect_cost(network), pick)
        return pick.place is not None and float(gain) <= 0.0

    def price_points(self, seconds: float) -> float:
        """Return the points that CPU seconds must gain."""
        return self._points_an_hour * seconds / HOUR_S

    def _expect_log_error(self, place: int, share: float) -> float:
        """Return the expected logarithm of the error of a network
        after a share (0-1) of its whole fine-tuning.
        """
        shift = self._plan.shift_of(self.belief.networks[place].training)[0]
        return float(self.belief.mean[place]) - shift * (
            1.0 - share_of_gain(share, self.train_images)
        )

    def _expect_cost(self, network: CardTraining) -> FormCost:
        """Return the least expected cost among the forms that a network gets anyway."""
        further = (FormStep(network, form) for form in ALWAYS if form in self.forms[network])
        wanted = {self.find_float(network), *further}
        return min(map(self._costs.expect_cost, wanted), key=FormCost.net_loss)

    def _find_least_log_error(self, network: CardTraining, pick: Pick) -> float:
        """Return the least logarithm of an error that is expected of a network."""
        place = self.belief.place[network]
        sd = self._compute_spread(self.belief.covariance, place, pick.place)
        return float(self.belief.mean[place]) - EXTREME * sd

    def _compute_gain(
        self,
        log_error: float | Floats,
        cost: FormCost,
        pick: Pick,
        more: float | Floats = 0.0,
    ) -> Floats:
        """Return the points, or what counts like them, by which results are better than the pick.

        ``more`` is what they lose beyond their cost.
        A result that breaks a limit gains nothing over a pick that breaks none.
        """
        import numpy as np

        accuracy = 100.0 - np.exp(np.minimum(log_error, math.log(100.0)))
        if pick.place is None:
            gain = NO_ANSWER - cost.loss - more + (self._point + self._shown) * (accuracy - 50.0)
        else:
            right = 100.0 - math.exp(min(float(self.belief.mean[pick.place]), math.log(100.0)))
            unclear = (
                NOISE
                * 100.0
                * math.sqrt(DIFFERENT * max(1.0 - right / 100.0, 0.005) / self._images)
            )
            ahead = accuracy - right
            clearly = np.sign(ahead) * np.maximum(np.abs(ahead) - unclear, 0.0)
            gain = pick.cost.loss - cost.loss - more + self._point * ahead + self._shown * clearly
        gain = gain * cost.chance if pick.cost.chance else gain + cost.chance * INFEASIBLE
        return np.asarray(gain / (self._point + self._shown or 1.0), dtype=np.float64)

    def _compute_spread(self, covariance: Floats, place: int, other: int | None) -> float:
        """Return the standard deviation of what a result of a network will show,
        beside the network of the pick.
        """
        variance = float(covariance[place, place])
        if other is not None and other != place:
            variance += float(covariance[other, other] - 2.0 * covariance[place, other])
        left = noise(math.exp(float(self.belief.mean[place])), self._images)
        return max(variance, 0.0) / math.sqrt(max(variance, 0.0) + left)

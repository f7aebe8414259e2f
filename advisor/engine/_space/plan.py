"""Plan the search space: cards x trainings x compressions x thread counts,
with what to expect of them.
"""

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import groupby, product
from statistics import median

from advisor.catalog import Card
from advisor.core import FLOAT, Configuration, Evaluation, Status, Target, form_of, shift_of
from advisor.engine._pipeline.cost import scoring_s
from advisor.engine._pipeline.cost_model import CostModel
from advisor.engine._pipeline.images import Role
from advisor.engine._pipeline.materials import Workload
from advisor.engine._pipeline.rule import RuleNeeds, Rules
from advisor.engine._pipeline.stage import StageName
from advisor.engine._targets.device_prediction import least_size
from advisor.isolation import usable_cores
from advisor.store import RunFolder

JUDGED_FILES = 2
JUDGING_MARGIN = 1.75
ANSWER_S = 3.0
"""Files for which a time limit leaves time to run on the hold-out (the pick and the runner-up), a
factor on their expected seconds, and seconds to write the answer.
"""

ANSWER_CPU_S = 2.0
"""CPU seconds to decide, to write the reports and to end the processes on an AMD EPYC. A busy
machine takes more seconds than :data:`ANSWER_S` for them.
"""

MEASURED_MARGIN = 1.25
"""The factor for a card whose files have run over images in this search,
so that their seconds are known.
"""

JUDGING_SHARE = 0.08
"""Share of a time limit that is left for the hold-out at most. Where all of its images take
longer, a part of them judges: a figure of 40 images says more about a pick than another 5 % of the
time adds to it. On one core and in five minutes, pick and runner-up each run over 1,000 of 2,485
images in it: their figure is within 2 points.
"""

FEWEST_PUBLISHED = 20
"""Number of published figures that the regression needs."""

MIDDLING = 50.0
"""Prior top-1 in % of a card without counts."""

RESCUED = 2
"""Skipped cards, or files, that are evaluated after all if nothing meets the budget."""

TOO_SLOW = (StageName.SCREEN, StageName.PREDICT)
"""Stages that skip what would be too slow."""

UNDECIDED = (StageName.STOP, StageName.PROMOTION)
"""Stages whose skipped configurations are considered again when a run is resumed."""


@dataclass(frozen=True)
class Plan:
    """The search space of one run: its candidates, the most promising first.

    Attributes:
        pace: measured seconds of each stage on this machine, divided by its rough cost; 1 if
            nothing is known.
        lead: the target of the configurations if this machine is no device of the question; None
            for this machine.
        cores: how many jobs run side by side.
    """

    cards: tuple[Card, ...]
    workload: Workload
    runtime: str
    pace: Mapping[StageName, float] = field(default_factory=dict)
    lead: Target | None = None
    cores: int = field(default_factory=usable_cores)

    @property
    def recipes(self) -> tuple[str, ...]:
        """Names of compression recipes."""
        return self.workload.recipes

    @property
    def trainings(self) -> tuple[str, ...]:
        """Names of training recipes, the lightest first."""
        return self.workload.trainings

    @property
    def threads(self) -> tuple[int, ...]:
        """CPU thread counts."""
        if self.lead:
            return (self.lead.threads,)
        return self.workload.question.thread_counts

    def shift_of(self, training: str) -> tuple[float, float]:
        """Return what a recipe is expected to gain on these images,
        see :func:`advisor.core.shift_of`.
        """
        return shift_of(training, self.images, self.workload.question.of_task.gain)

    @property
    def images(self) -> int:
        """Number of images to learn from, 0 without data."""
        return self.workload.images.get(Role.LEARNT, 0)

    @property
    def holdout(self) -> int:
        """Number of images to judge finalists on."""
        return self.workload.images.get(Role.HOLDOUT, 0)

    @property
    def size(self) -> int:
        """Number of configurations."""
        return sum(len(self.workload.variants_of(card)) for card in self.cards) * len(self.threads)

    @property
    def forms(self) -> tuple[str, ...]:
        """Names of the compression recipes, and of the forms of files that keep theirs."""
        return tuple(
            dict.fromkeys((*self.recipes, *(card.form for card in self.cards if card.form)))
        )

    def configuration(
        self, card: str, compression: str, threads: int, training: str = ""
    ) -> Configuration:
        """Return one point of the space, of the first training if none is named."""
        target = self.lead or Target("host", self.runtime, "cpu", threads)
        return Configuration(card, training or self.trainings[0], compression, target)

    def skipped(self, configuration: Configuration, reason: str, stage: StageName) -> Evaluation:
        """Return the record of a configuration that is not evaluated."""
        return Evaluation(
            configuration,
            Status.SKIPPED,
            self.cards_by_name[configuration.card].family,
            reason,
            stage,
        )

    def configurations(self) -> tuple[Configuration, ...]:
        """Return every point: the lightest training first, then the most promising cards."""
        return self._configurations

    @cached_property
    def _configurations(self) -> tuple[Configuration, ...]:
        configurations = []
        for training, card in product(self.trainings, self.cards):
            for of_card, recipe in self.workload.variants_of(card):
                if of_card == training:
                    for threads in self.threads:
                        configurations.append(
                            self.configuration(card.name, recipe, threads, training)
                        )
        return tuple(configurations)

    @cached_property
    def cards_by_name(self) -> Mapping[str, Card]:
        """The cards by their names."""
        return {card.name: card for card in self.cards}

    @cached_property
    def costs(self) -> CostModel:
        """The cost of the stages."""
        return CostModel(self.workload, self.pace)

    def judging_s(
        self,
        begun: Collection[str] = (),
        limit_s: float | None = None,
        file_s: Callable[[Card], float] | None = None,
    ) -> float:
        """Return the seconds of the machine that the hold-out needs before the answer:
        files of a card run on it.

        It is the most expensive card of those that were begun, and the one in the middle before
        any was. ``file_s`` returns the seconds of a file of a card with their margin; None for
        those of the plan. Of a time limit it is :data:`JUDGING_SHARE` at most.
        """
        if not self.holdout:
            return 0.0
        prices = {card.name: (file_s or self._holdout_s)(card) for card in self.cards}
        # The pick may be any card that was begun,
        # so the reserve must do for the most expensive one.
        price_s = max((prices[name] for name in begun), default=median(prices.values()))
        judging_s = JUDGED_FILES * price_s / self.cores
        if limit_s is None:
            return judging_s
        return min(judging_s, JUDGING_SHARE * limit_s)

    def _holdout_s(self, card: Card) -> float:
        judging_s = self.holdout * self.workload.question.of_task.judging_s
        pace = JUDGING_MARGIN * self.pace.get(StageName.SCORE, 1.0)
        return pace * (scoring_s(card, FLOAT, self.holdout) + judging_s)

    def least_size(self, card: Card, recipe: str) -> float:
        """Return the least possible bytes of the file:
        parameters x bytes, less what is folded or replaced.
        """
        return least_size(card, recipe, new_head=bool(self.images))


def most_promising_first(cards: Sequence[Card], spread: bool = False) -> tuple[Card, ...]:
    """Return the cards by published accuracy and MACs, one Pareto front after another.

    The most accurate cards of a front come first. With ``spread``, for a task of which the
    published accuracy says little, each next card is in the middle of the largest gap: any first
    few are small and large ones.
    """
    fronts = list[list[Card]]()
    least_macs = list[int]()
    for (_, macs), equal in groupby(sorted(cards, key=_losses), key=_losses):
        # Each front before it has a card that dominates these.
        place = bisect_right(least_macs, macs)
        if place == len(fronts):
            fronts.append([])
            least_macs.append(macs)
        fronts[place] += equal
        least_macs[place] = macs
    ordered = list[Card]()
    for front in fronts:
        ordered += _halving(front) if spread else front
    return tuple(ordered)


def _losses(card: Card) -> tuple[float, int]:
    return -(card.top1() or 0.0), card.macs


def _halving(cards: Sequence[Card]) -> Iterator[Card]:
    """Yield the middle one, then those of both halves, and so on."""
    gaps = deque([(0, len(cards))])
    while gaps:
        start, end = gaps.popleft()
        if start < end:
            middle = (start + end) // 2
            yield cards[middle]
            gaps += [(start, middle), (middle + 1, end)]


def prior_accuracy(card: Card, recipe: str) -> float:
    """Return the published top-1 in % of a compression, else of float less its usual drop,
    else what is usual.
    """
    published = card.top1("int8") if recipe == "int8" else None
    # A published figure of the int8 file includes its drop;
    # a usual drop is an average over other networks.
    return published or (card.top1() or estimate_top1(card)) - form_of(recipe).drop


def estimate_top1(card: Card) -> float:
    """Return the ImageNet top-1 in % that a card of such multiply-accumulates,
    parameters and input usually has.
    """
    weights = _fit_top1()
    if not weights or not card.macs or not card.params:
        return MIDDLING
    terms = _list_size_terms(card)
    # The law has no upper end, and no network has more than 95 %.
    return min(
        max(sum(weight * term for weight, term in zip(weights, terms, strict=True)), 0.0), 95.0
    )


def _list_size_terms(card: Card) -> tuple[float, ...]:
    """Return what the usual accuracy of a card is a sum of:
    a constant, and logarithms of its size.
    """
    return 1.0, math.log(card.macs), math.log(card.params), math.log(card.input_size)


@lru_cache(maxsize=1)
def _fit_top1() -> tuple[float, ...]:
    """Return the weights of :func:`_list_size_terms`:
    least squares over the shipped cards with published figures.
    """
    import numpy as np

    from advisor.catalog import load_catalogue

    known = []
    for card in load_catalogue().values():
        if card.top1() and card.macs and card.params:
            known.append(card)
    # Four weights from fewer figures would follow the noise of single papers.
    if len(known) < FEWEST_PUBLISHED:
        return ()
    facts = list(map(_list_size_terms, known))
    top1 = [card.top1() for card in known]
    weights = np.linalg.lstsq(np.array(facts), np.array(top1, dtype=float), rcond=None)[0]
    return tuple(map(float, weights))


def skip_ruled_out(run: RunFolder, plan: Plan, rules: Rules) -> list[Evaluation]:
    """Record what is ruled out beforehand, and return all evaluations that are final.

    A failure may have been the machine's: a resumed run tries it again. It also considers again
    what was skipped because its training could not reach the front.
    """
    planned = set(plan.configurations())
    ended = []
    for evaluation in run.evaluations():
        if evaluation.status is not Status.FAILED and evaluation.stage not in UNDECIDED:
            ended.append(evaluation)
    done = {}
    for e in ended:
        if e.configuration in planned:
            done[e.configuration] = e
    for configuration, reason in rule_out(plan, rules).items():
        if configuration not in done:
            done[configuration] = plan.skipped(configuration, reason, StageName.PLAN)
            run.append(done[configuration])
    return list(done.values())


def rule_out(plan: Plan, rules: Rules) -> dict[Configuration, str]:
    """Return what the plan alone rules out, with the reason.
    A rule that rejects everything rules nothing out.
    """
    reasons: dict[Configuration, str] = {}
    for rule in rules.that_need(RuleNeeds.PLAN):
        of_rule = {
            configuration: rule.reason(configuration, rules.known)
            for configuration in plan.configurations()
        }
        # Without any file, the answer could not say what comes closest to the limit.
        if not all(of_rule.values()):
            reasons |= {
                configuration: reason for configuration, reason in of_rule.items() if reason
            }
    return reasons


def record_unevaluated(run: RunFolder, plan: Plan, why: str) -> None:
    """Record each card of which nothing was evaluated, with the reason why the search ended."""
    named = {evaluation.configuration.card for evaluation in run.evaluations()}
    for configuration in plan.configurations():
        if configuration.card not in named:
            run.append(
                plan.skipped(configuration, f"{Evaluation.NOT_STARTED}: {why}", StageName.STOP)
            )


def too_slow(plan: Plan, evaluations: Sequence[Evaluation]) -> list[Configuration]:
    """Return the cards with the fewest MACs of those that were too slow;
    none if anything was evaluated.
    """
    if any(e.status is Status.OK for e in evaluations):
        return []
    screened = set()
    for e in evaluations:
        if e.stage in TOO_SLOW:
            screened.add(e.configuration.card)
    fewest = sorted(
        (card for card in plan.cards if card.name in screened), key=lambda card: card.macs
    )[:RESCUED]
    names = {card.name for card in fewest}
    chosen = []
    for configuration in plan.configurations():
        if configuration.card in names and configuration.training == plan.trainings[0]:
            chosen.append(configuration)
    return chosen


def too_large(plan: Plan, evaluations: Sequence[Evaluation]) -> list[Configuration]:
    """Return the smallest of the files over the size budget."""
    cards = plan.cards_by_name
    filtered = []
    for evaluation in evaluations:
        if evaluation.stage == StageName.PLAN and evaluation.configuration.card in cards:
            filtered.append(evaluation.configuration)
    # If nothing meets the size budget, the nearest miss tells the user by how much to raise it.
    smallest = sorted(filtered, key=lambda c: plan.least_size(cards[c.card], c.compression))
    chosen = [(c.card, c.compression) for c in smallest[: RESCUED * len(plan.threads)]]
    return [c for c in filtered if (c.card, c.compression) in chosen]

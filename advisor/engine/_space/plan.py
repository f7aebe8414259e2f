"""Hold the search space of a run: cards x trainings x compressions x thread counts.

``Resolved.plan`` makes it when the weights are there, and ``find_search_space`` before they are.
The rooms of ``engine`` read it, and none changes it. Keys of configurations are in
``evaluations.jsonl``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from statistics import median
from typing import TYPE_CHECKING, Any

from advisor.catalog import Card
from advisor.core import FLOAT, Configuration, Evaluation, Status, Target
from advisor.engine._pipeline.cost import scoring_s
from advisor.engine._pipeline.images import Role
from advisor.engine._pipeline.materials import Workload
from advisor.engine._pipeline.stage import Stage, StageName
from advisor.engine._space.prior_accuracy import shift_of
from advisor.engine._targets.device_prediction import least_size
from advisor.isolation import usable_cores

if TYPE_CHECKING:
    from advisor.engine._pipeline.cost_model import CostModel

JUDGED_FILES = 2
JUDGING_MARGIN = 1.75
ANSWER_S = 3.0
"""Files for which a time limit leaves time to run on the hold-out (the pick and the runner-up), a
factor on their expected seconds, and seconds by the clock to write the answer.
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


@dataclass(frozen=True)
class Plan:
    """The search space of one run: its candidates, the most promising first.

    Attributes:
        pace: CPU seconds of each stage on this machine, divided by its rough cost; 1 if nothing is
            known.
        lead: the target of the configurations if this machine is no device of the question; None
            for this machine.
        cores: how many jobs run side by side.
        cached: the stages whose results the cache had at the start, which cost nothing; empty if
            nobody looked.
    """

    cards: tuple[Card, ...]
    workload: Workload
    runtime: str
    pace: Mapping[StageName, float] = field(default_factory=dict)
    lead: Target | None = None
    cores: int = field(default_factory=usable_cores)
    cached: frozenset[Stage[Any]] = frozenset()

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
        see :func:`.prior_accuracy.shift_of`.
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
        variants = sum(len(self.workload.variants_of(card)) for card in self.cards)
        return variants * len(self.threads)

    @property
    def forms(self) -> tuple[str, ...]:
        """Names of the compression recipes, and of the forms of files that keep theirs."""
        own_forms = [card.form for card in self.cards if card.form]
        return tuple(dict.fromkeys((*self.recipes, *own_forms)))

    def configuration(
        self,
        card: str,
        compression: str,
        threads: int,
        training: str = "",
    ) -> Configuration:
        """Return one point of the space, of the first training if none is named."""
        target = self.lead or Target("host", self.runtime, "cpu", threads)
        return Configuration(card, training or self.trainings[0], compression, target)

    def skipped(self, configuration: Configuration, reason: str, stage: StageName) -> Evaluation:
        """Return the record of a configuration that is not evaluated."""
        family = self.cards_by_name[configuration.card].family
        return Evaluation(configuration, Status.SKIPPED, family, reason, stage)

    def configurations(self) -> tuple[Configuration, ...]:
        """Return every point: the lightest training first, then the most promising cards."""
        return self._configurations

    @cached_property
    def _configurations(self) -> tuple[Configuration, ...]:
        configurations = []
        for training, card in product(self.trainings, self.cards):
            variants = self.workload.variants_of(card)
            recipes = [recipe for training_of, recipe in variants if training_of == training]
            for recipe, threads in product(recipes, self.threads):
                configurations.append(self.configuration(card.name, recipe, threads, training))
        return tuple(configurations)

    @cached_property
    def cards_by_name(self) -> Mapping[str, Card]:
        """The cards by their names."""
        return {card.name: card for card in self.cards}

    @cached_property
    def costs(self) -> CostModel:
        """The prices of the stages."""
        # Imported late, because it has every stage and its job, and most readers of a plan do not.
        from advisor.engine._pipeline.cost_model import CostModel

        return CostModel(self.workload, self.pace)

    def judging_s(
        self,
        begun: Collection[str] = (),
        limit_s: float | None = None,
        file_s: Callable[[Card], float] | None = None,
    ) -> float:
        """Return the seconds by the clock that the hold-out needs before the answer:
        files of a card run on it.

        It is the most expensive card of those that were begun, and the one in the middle before
        any was. ``file_s`` returns the seconds of a file of a card with their margin; None for
        those of the plan. Of a time limit it is :data:`JUDGING_SHARE` at most.
        """
        if not self.holdout:
            return 0.0
        price_file = file_s or self._price_holdout
        prices = {card.name: price_file(card) for card in self.cards}
        # The pick may be any card that was begun,
        # so the reserve must do for the most expensive one.
        price_s = max((prices[name] for name in begun), default=median(prices.values()))
        judging_s = JUDGED_FILES * price_s / self.cores
        if limit_s is None:
            return judging_s
        return min(judging_s, JUDGING_SHARE * limit_s)

    def _price_holdout(self, card: Card) -> float:
        """Return the CPU seconds of one file of a card on the hold-out, with their margin."""
        judging_s = self.holdout * self.workload.question.of_task.judging_s
        pace = JUDGING_MARGIN * self.pace.get(StageName.SCORE, 1.0)
        return pace * (scoring_s(card, FLOAT, self.holdout) + judging_s)

    def least_size(self, card: Card, recipe: str) -> float:
        """Return the least possible bytes of the file:
        parameters x bytes, less what is folded or replaced.
        """
        return least_size(card, recipe, new_head=bool(self.images))

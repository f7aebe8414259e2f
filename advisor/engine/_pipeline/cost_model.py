"""Add up the prices of the stages of a card: of a variant, of all variants, and by the clock.

``Plan.costs`` is the one model of a search. The plan, the preview and the prices of the next steps
(``_scheduling/prices.py``) ask it. A price is that of ``cost.py`` times the pace of this machine:
CPU seconds, and seconds by the clock of a stage that has the machine alone. Methods that return
seconds by the clock of several stages say so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from advisor.catalog import Card
from advisor.engine._pipeline import cost
from advisor.engine._pipeline.graph import VariantStages, with_all_before
from advisor.engine._pipeline.materials import RecipePair, Workload
from advisor.engine._pipeline.stage import Stage, StageName


@dataclass(frozen=True)
class CardCosts:
    """CPU seconds of the evaluation of one card: of what all variants share, of what the variants
    of each training share, and of each variant's own stages.
    """

    shared_s: float
    trained_s: Mapping[str, float]
    own_s: Mapping[RecipePair, float]


class CostModel:
    """Rough prices of the stages of one search: CPU seconds, and seconds of the whole machine
    where a stage runs alone.

    ``pace``: CPU seconds that a stage took on this machine over its rough cost; 1 where nothing is
    known.
    """

    def __init__(self, workload: Workload, pace: Mapping[StageName, float] | None = None) -> None:
        self.workload = workload
        self._pace = pace or {}
        self._by_card: dict[Card, CardCosts] = {}

    def seconds(self, stage: Stage[Any]) -> float:
        """Return the CPU seconds of one stage, without the stages that it needs."""
        return stage.cost_s * self._pace.get(stage.name, 1.0)

    def total_s(self, stages: Iterable[Stage[Any]]) -> float:
        """Return the CPU seconds of stages."""
        return sum(map(self.seconds, stages))

    def wall_s(self, stages: Collection[Stage[Any]], cores: int) -> float:
        """Return the rough wall seconds of stages that ``cores`` cores share evenly."""
        alone_s = self.total_s(stage for stage in stages if stage.resources.alone)
        return alone_s + (self.total_s(stages) - alone_s) / cores

    def chain_s(
        self,
        stages: Iterable[Stage[Any]],
        cores: int,
        wall: Mapping[StageName, float] | None = None,
        slower: Callable[[StageName], float] = lambda _name: 1.0,
    ) -> float:
        """Return the rough wall seconds of stages that wait for each other;
        features alone are read side by side.

        ``wall`` has the wall seconds of a CPU second of a stage that ran here. Else they are 1,
        and fewer of fine-tuning. ``slower`` returns how many times longer than planned a stage of
        a kind takes.
        """
        wall_of_cpu_s = {
            **cost.training_walls(cores),
            **(wall or {}),
            StageName.FEATURES: 1.0 / cores,
        }
        return sum(
            self.seconds(stage) * wall_of_cpu_s.get(stage.name, 1.0) * slower(stage.name)
            for stage in stages
        )

    def stages(
        self, card: Card, variants: Collection[RecipePair] | None = None
    ) -> tuple[Stage[Any], ...]:
        """Return every stage that variants of the card need, all variants by default;
        judging finalists included.
        """
        pairs = self.workload.variants_of(card) if variants is None else variants
        stages = list[Stage[Any]]()
        for training, compression in pairs:
            variant = VariantStages(card, training, compression, self.workload)
            stages += (*variant.evaluation, *variant.judging)
        return with_all_before(stages)

    def sharers(self, stage: Stage[Any]) -> int:
        """Return how many variants of a card share a stage."""
        scope = stage.scope
        workload = self.workload
        if scope.compression:
            return 1
        if scope.training:
            return len(workload.recipes_of(scope.training))
        return len(workload.variants)

    def variant_s(self, card: Card, variant: RecipePair) -> float:
        """Return the CPU seconds of one variant,
        with its share of what the card's variants have in common.

        The variants of the lightest training share these seconds,
        because the others begin only after them.
        """
        costs = self.of_card(card)
        training, _ = variant
        lightest = self.workload.trainings[0]
        shared_s = costs.shared_s / len(self.workload.recipes_of(lightest))
        trained_s = costs.trained_s[training] / len(self.workload.recipes_of(training))
        return shared_s + trained_s + costs.own_s[variant]

    def of_card(self, card: Card) -> CardCosts:
        """Return the CPU seconds of one card, by the variants that share them."""
        if card in self._by_card:
            return self._by_card[card]
        graphs = {}
        for training, compression in self.workload.variants_of(card):
            variant = VariantStages(card, training, compression, self.workload)
            graphs[training, compression] = with_all_before(variant.evaluation)
        # A stage without a training belongs to all variants of the card.
        trained_s = dict.fromkeys(("", *self.workload.trainings), 0.0)
        for stage in dict.fromkeys(chain.from_iterable(graphs.values())):
            if stage.scope.training in trained_s and not stage.scope.compression:
                trained_s[stage.scope.training] += self.seconds(stage)
        compressions = {compression for _, compression in graphs}
        own_s = {}
        for (training, compression), stages in graphs.items():
            # The float file of a variant is scored with it, and is another variant's.
            shared = {"", *compressions} - {compression}
            own_s[training, compression] = self.total_s(
                stage for stage in stages if stage.scope.compression not in shared
            )
        self._by_card[card] = CardCosts(trained_s.pop(""), trained_s, own_s)
        return self._by_card[card]

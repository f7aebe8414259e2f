"""Prices of the stages of a search: rough seconds, corrected by what this machine has measured."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from advisor.catalog.cards import Card
from advisor.engine.pipeline.graph import stages_of, with_all_before
from advisor.engine.pipeline.materials import Variant, Workload
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stage import Stage

Stages = tuple[Stage[Any], ...]


@dataclass(frozen=True)
class CardCosts:
    """Seconds of the evaluation of one card.

    Attributes:
        shared_s: of the stages that everything of the card shares.
        trained_s: of the stages of each training.
        own_s: of the stages of each variant alone.
    """

    shared_s: float
    trained_s: Mapping[str, float]
    own_s: Mapping[Variant, float]


class CostModel:
    """Rough seconds of the stages of one search: of one core, or of the machine where a stage runs alone.

    Args:
        workload: what is done for each card.
        pace: what a stage took on this machine over its rough cost; 1 where nothing is known.
    """

    def __init__(self, workload: Workload, pace: Mapping[StageName, float] | None = None) -> None:
        self.workload = workload
        self._pace = pace or {}
        self._by_card: dict[Card, CardCosts] = {}

    def seconds(self, stage: Stage[Any]) -> float:
        """Return the seconds of one stage, without those that it needs."""
        return stage.cost_s * self._pace.get(stage.name, 1.0)

    def total_s(self, stages: Iterable[Stage[Any]]) -> float:
        """Return the seconds of stages."""
        return sum(map(self.seconds, stages))

    def wall_s(self, stages: Iterable[Stage[Any]], cores: int, done: Collection[Stage[Any]] = ()) -> float:
        """Return the rough wall time of stages on ``cores`` cores, without those that are done."""
        left = [stage for stage in stages if stage not in done]
        alone = self.total_s(stage for stage in left if stage.resources.alone)
        return alone + (self.total_s(left) - alone) / cores

    def chain_s(self, stages: Iterable[Stage[Any]], cores: int) -> float:
        """Return the rough wall time of stages that wait for each other; features alone are read side by side."""
        side_by_side = [stage for stage in stages if stage.name is StageName.FEATURES]
        rest = [stage for stage in stages if stage.name is not StageName.FEATURES]
        return self.total_s(side_by_side) / cores + self.total_s(rest)

    def stages(self, card: Card, variants: Collection[Variant] | None = None) -> Stages:
        """Return every stage that variants of the card need, all variants by default; judging finalists included."""
        wanted = self.workload.variants_of(card) if variants is None else variants
        chosen = [stages_of(card, *variant, self.workload) for variant in wanted]
        return with_all_before(stage for each in chosen for stage in (*each.evaluation, *each.judging))

    def sharers(self, stage: Stage[Any]) -> int:
        """Return how many variants of a card share a stage."""
        scope, workload = stage.scope, self.workload
        if scope.compression:
            return 1
        return len(workload.recipes_of(scope.training)) if scope.training else len(workload.variants)

    def variant_s(self, card: Card, variant: Variant) -> float:
        """Return the seconds of one variant, with its share of what the card's variants have in common.

        The variants of the lightest training share these seconds, because the others begin only after them.
        """
        costs, workload = self.of_card(card), self.workload
        return (
            costs.shared_s / len(workload.recipes_of(workload.trainings[0]))
            + costs.trained_s[variant[0]] / len(workload.recipes_of(variant[0]))
            + costs.own_s[variant]
        )

    def of_card(self, card: Card) -> CardCosts:
        """Return the seconds of one card."""
        if card not in self._by_card:
            self._by_card[card] = self._counted(card)
        return self._by_card[card]

    def _counted(self, card: Card) -> CardCosts:
        workload = self.workload
        graphs = {
            variant: with_all_before(stages_of(card, *variant, workload).evaluation)
            for variant in workload.variants_of(card)
        }
        every = dict.fromkeys(stage for stages in graphs.values() for stage in stages)
        return CardCosts(
            shared_s=self.total_s(stage for stage in every if not stage.scope.training),
            trained_s={
                training: self.total_s(each for each in every if _is_of_training(each, training))
                for training in workload.trainings
            },
            own_s={
                variant: self.total_s(each for each in stages if each.scope.compression)
                for variant, stages in graphs.items()
            },
        )


def _is_of_training(stage: Stage[Any], training: str) -> bool:
    return stage.scope.training == training and not stage.scope.compression

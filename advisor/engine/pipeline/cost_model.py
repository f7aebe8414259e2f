"""Prices of the stages of a search: rough seconds, corrected by what earlier searches took on this machine."""

from __future__ import annotations

import json
import statistics
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from advisor.catalog.cards import Card
from advisor.core.codec import parse
from advisor.core.errors import UsageError
from advisor.core.training import recipe_of
from advisor.engine.pipeline.graph import VariantStages, with_all_before
from advisor.engine.pipeline.materials import Variant, Workload
from advisor.engine.pipeline.stage import EventKind, Stage, StageEvent, StageName
from advisor.measurement import host
from advisor.store import cache_root
from advisor.store.files import write_atomically
from advisor.store.jsonfile import read_json

Stages = tuple[Stage[Any], ...]


@dataclass(frozen=True)
class CardCosts:
    """Seconds of the evaluation of one card: of stages that all its variants share, of each training's, of each
    variant's own.
    """

    shared_s: float
    trained_s: Mapping[str, float]
    own_s: Mapping[Variant, float]


class CostModel:
    """Rough seconds of the stages of one search: of one core, or of the machine where a stage runs alone.

    ``pace``: what a stage took on this machine over its rough cost; 1 where nothing is known.
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
        chosen = [VariantStages(card, *variant, self.workload) for variant in wanted]
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
            variant: with_all_before(VariantStages(card, *variant, workload).evaluation)
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


MOST = 30.0
"""A ratio beyond this says more about a disturbance than about the machine."""

SEARCHES = 7
"""Number of searches whose median counts: one disturbed search, or an unusual card, decides nothing."""


class CostRatio(NamedTuple):
    """Seconds of a stage in one search over its rough price, with a mark if other work disturbed the search."""

    value: float
    disturbed: bool = False


class CostCalibration:
    """Seconds that stages took over their rough price, by stage, stored for the next plan.

    Searches on a quiet machine count before those that other work disturbed, however many of these there are. The JSON
    ``file`` is by default one for each machine, in the cache.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or cache_root() / f"pace-{host.describe().fingerprint}.json"
        self._ratios = _read(self._file)
        self.pace: Mapping[StageName, float] = _with_trainings(
            {stage: _typical(ratios) for stage, ratios in self._ratios.items()}
        )
        self._worked: dict[Stage[Any], tuple[float, float]] = {}

    def note(self, event: StageEvent, price_s: float) -> None:
        """Record what happened to a stage, of which the plan expected ``price_s`` seconds.

        A training that a limit or an interrupt ends counts with its finished epochs and their share of the price.
        """
        done, planned = event.epochs
        if event.kind is EventKind.CACHED:
            self._worked.pop(event.stage, None)
        elif event.kind is EventKind.DONE and not planned:
            self._worked[event.stage] = price_s, event.seconds
        elif event.kind in (EventKind.DONE, EventKind.EPOCH):
            self._worked[event.stage] = price_s * done / planned, event.seconds

    def observed(self) -> float:
        """Return the seconds that a stage of this search took over those that its plan expected; 1 before any.

        It is the median over the kinds of stages: some depend on more than the speed of the machine.
        """
        ratios = [seconds / price_s for price_s, seconds in self._by_stage().values() if price_s > 0]
        return statistics.median(ratios) if ratios else 1.0

    def _by_stage(self) -> dict[StageName, tuple[float, float]]:
        """Return the expected seconds of each kind of stage, and those that it took."""
        found: dict[StageName, tuple[float, float]] = {}
        for stage, (price_s, seconds) in self._worked.items():
            before_s, took_s = found.get(stage.name, (0.0, 0.0))
            found[stage.name] = before_s + price_s, took_s + seconds
        return found

    def keep(self, disturbed: bool = False) -> None:
        """Compare the expected seconds with those that were spent, stage by stage, and keep the ratios."""
        new = dict(self._ratios)
        for stage, (price, seconds) in self._by_stage().items():
            if price > 0 and seconds > 0:
                ratio = self.pace.get(stage, 1.0) * seconds / price  # the plan's prices are paced already
                bounded = CostRatio(min(max(ratio, 1 / MOST), MOST), disturbed)
                new[stage] = _latest((*new.get(stage, ()), bounded))
        if new != self._ratios:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            rows = {stage: [list(each) for each in ratios] for stage, ratios in new.items()}
            write_atomically(self._file, json.dumps(rows, indent=1, sort_keys=True) + "\n")


def _with_trainings(pace: Mapping[StageName, float]) -> Mapping[StageName, float]:
    """Return the ratios, with those of fine-tunings that were never run here.

    Such a fine-tuning has the ratio of the others, else the median of all stages.
    """
    trainings = [stage for stage in StageName if recipe_of(stage).tunes_backbone]
    known = [pace[stage] for stage in trainings if stage in pace]
    if not known and StageName.FEATURES in pace:
        known = list(pace.values())
    return {**dict.fromkeys(trainings, statistics.median(known)), **pace} if known else pace


def _latest(ratios: tuple[CostRatio, ...]) -> tuple[CostRatio, ...]:
    """Return the last ratios of each kind, so that a busy week does not displace the quiet ones."""
    quiet = [ratio for ratio in ratios if not ratio.disturbed]
    disturbed = [ratio for ratio in ratios if ratio.disturbed]
    return (*quiet[-SEARCHES:], *disturbed[-SEARCHES:])


def _typical(ratios: tuple[CostRatio, ...]) -> float:
    quiet = [ratio.value for ratio in ratios if not ratio.disturbed]
    return statistics.median(quiet or [ratio.value for ratio in ratios])


def _read(file: Path) -> dict[StageName, tuple[CostRatio, ...]]:
    """Return the ratios by stage; none if the file is missing or damaged."""
    try:
        rows: Mapping[str, tuple[CostRatio, ...]] = parse(Mapping[str, tuple[CostRatio, ...]], read_json(file))
    except (UsageError, ValueError, TypeError):
        return {}
    return {StageName(stage): ratios for stage, ratios in rows.items() if ratios and stage in set(StageName)}

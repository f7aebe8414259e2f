"""What a finished evaluation says about those not yet made: the same card's other recipes and thread counts."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from advisor.catalog.cards import Card
from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.engine.pipeline.cost import rough_ms, rough_size
from advisor.engine.space.plan import Plan

if TYPE_CHECKING:
    from advisor.engine.scheduling.sampler import Candidate

NOTHING_LEFT_S = 0.05
"""Seconds that another thread count of a measured artefact takes: all are timed in one go."""

FLOATS = ("float32", "float16")
"""Forms that answer as the float file does."""

Point = tuple[str, int]
"""Compression recipe and thread count of one card: latency and size hardly depend on how it was trained."""

Way = tuple[str, str, int]
"""Training, compression recipe and thread count of one card."""


@dataclass(frozen=True)
class Fact:
    """What is known of one configuration now: latency in ms and size in bytes, and the seconds it still takes."""

    latency_ms: float
    size_bytes: float
    cost_s: float

    @property
    def known(self) -> dict[str, float]:
        """The figures by the names of the study's objectives."""
        return {"latency": self.latency_ms, "size": self.size_bytes}


@dataclass
class _CardFacts:
    latency: dict[Point, float] = field(default_factory=dict)
    size: dict[str, float] = field(default_factory=dict)
    done: set[tuple[str, str]] = field(default_factory=set)


class Facts:
    """Collects what was measured and corrects the rough figures of the same card by it.

    A card's other forms are taken to be off by as much as those that were measured (geometric mean), which is closer
    than MACs and parameters can be: the head has replaced the published classifier, and the machine is known.

    Args:
        plan: the search space.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._cards = {card.name: card for card in plan.cards}
        self._seen: dict[str, _CardFacts] = {}

    def add(self, evaluation: Evaluation) -> str | None:
        """Take note of an evaluation; returns the card whose facts changed, or None."""
        configuration = evaluation.configuration
        if evaluation.status is not Status.OK or evaluation.latency is None or evaluation.size is None:
            return None
        if configuration.card not in self._cards:
            return None
        seen = self._seen.setdefault(configuration.card, _CardFacts())
        seen.latency[configuration.compression, configuration.target.threads] = evaluation.latency.value
        seen.size[configuration.compression] = evaluation.size.value
        seen.done.add((configuration.training, configuration.compression))
        return configuration.card

    def about(self, name: str) -> dict[Way, Fact]:
        """Return what is known of every configuration of a card of which something was measured."""
        card, seen, plan = self._cards[name], self._seen[name], self._plan
        slower = _mean_ratio((ms, rough_ms(card, *point)) for point, ms in seen.latency.items())
        larger = _mean_ratio((size, rough_size(card, recipe)) for recipe, size in seen.size.items())
        ratios = {recipe: self._slower(card, seen, recipe, slower) for recipe in plan.recipes}
        sizes = {recipe: seen.size.get(recipe, larger * rough_size(card, recipe)) for recipe in plan.recipes}
        costs = {variant: self._cost(card, seen, *variant) for variant in plan.prices.variants}
        return {
            (training, recipe, threads): Fact(
                latency_ms=seen.latency.get((recipe, threads), ratios[recipe] * rough_ms(card, recipe, threads)),
                size_bytes=sizes[recipe],
                cost_s=costs[training, recipe],
            )
            for training, recipe in plan.prices.variants
            for threads in plan.threads
        }

    def _cost(self, card: Card, seen: _CardFacts, training: str, recipe: str) -> float:
        """Return the seconds that are left: all thread counts are timed in one go, all recipes share a training."""
        plan = self._plan
        if (training, recipe) in seen.done:
            return NOTHING_LEFT_S
        own = plan.prices.own_s(card, (training, recipe)) / len(plan.threads)
        trained = any(training == done for done, _ in seen.done)
        return own if trained else own + plan.prices.trained_s(card, training) / len(plan.recipes) / len(plan.threads)

    def corrected(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Return the sampler's table with what is known now in place of what was rough."""
        known = {card: self.about(card) for card in self._seen}
        return [self._corrected(candidate, known.get(candidate.params["card"])) for candidate in candidates]

    @staticmethod
    def _corrected(candidate: Candidate, known: Mapping[Way, Fact] | None) -> Candidate:
        if known is None:
            return candidate
        params = candidate.params
        fact = known[params["training"], params["compression"], params["threads"]]
        return replace(candidate, known=fact.known, cost_s=fact.cost_s)

    @staticmethod
    def _slower(card: Card, seen: _CardFacts, recipe: str, otherwise: float) -> float:
        """Return by how much a recipe is slower than was thought, as far as its other thread counts tell."""
        same = [(ms, rough_ms(card, *point)) for point, ms in seen.latency.items() if point[0] == recipe]
        return _mean_ratio(same) if same else otherwise


def also_shown(evaluation: Evaluation, recipes: Collection[str]) -> list[tuple[Configuration, float]]:
    """Return other forms whose accuracy in % an evaluation has shown on its way.

    Every form is held against the float32 one on the same pictures, so that one's accuracy is known too; float16
    rounds weights to 11 bits, which changed no more than one answer in 500 (``benchmarks/results/compression.md``).
    """
    accuracy, drop = evaluation.accuracy, evaluation.drop
    if evaluation.status is not Status.OK or accuracy is None or drop is None:
        return []
    value = accuracy.value + drop.value
    own = evaluation.configuration.compression
    forms = [name for name in FLOATS if name in recipes and name != own]
    return [(replace(evaluation.configuration, compression=name), value) for name in forms]


def _mean_ratio(pairs: Iterable[tuple[float, float]]) -> float:
    ratios = [math.log(measured / rough) for measured, rough in pairs if measured > 0]
    return math.exp(sum(ratios) / len(ratios)) if ratios else 1.0

"""What is worth trying: cards x recipes x thread counts, each with what is known of it before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from advisor.catalog.cards import Card
from advisor.core.evaluation import Configuration, Target
from advisor.core.units import show_bytes

if TYPE_CHECKING:
    from advisor.search.sampler import Candidate

GMACS_PER_SECOND = 90.0
"""MACs a second of one core, in 10^9: MobileNetV2 1.0 224 (0.3 GMACs) runs in 3.35 ms float32 in LiteRT 2.3 with
XNNPACK on an AMD EPYC. It orders candidates and prices stages; it never filters and is never shown as a latency."""

FORMS: Mapping[str, tuple[float, float]] = {
    "float32": (1.0, 4.0),
    "float16": (1.0, 2.0),
    "dynamic_int8": (3.0, 1.0),
    "weight_int8": (1.0, 1.0),
    "int8": (0.45, 1.0),
    "weight_int4": (1.0, 0.5),
    "int8_per_tensor": (0.45, 1.0),
    "int16x8": (1.5, 1.0),
    "int8_float_io": (0.45, 1.0),
    "mixed_int8": (0.55, 1.0),
    "qat_int8": (0.45, 1.0),
    "pruned_50": (1.0, 4.0),
    "pruned_75": (1.0, 4.0),
    "clustered_16": (1.0, 4.0),
    "rounded": (1.0, 4.0),
}
"""Recipe to (latency relative to float32, bytes a parameter), as measured on MobileNetV2 with LiteRT 2.3 on x86."""

CONVERT_S = 8.0
HEAD_S = 4.0
REFIT_S = 1.0
QUANTIZE_S = 3.0
REWRITE_S = 0.2
TIMING_S = 2.5
"""Seconds of one core (of the whole machine for timing) that the stages took on an AMD EPYC with MobileNetV2."""

FITS = 2
"""Every form is made twice of pictures: of the training part to be compared, and of all but the hold-out to ship."""

PHOTOGRAPHS = 84
FEATURE_PARTS = 2

LEAST_SHARE = 0.95
"""Of the bytes of the parameters, what is left at least when batch normalisation is folded into the convolutions."""

HEAD_FEATURES, HEAD_SHARE = 2049, 0.8
"""The published classifier, which a head of the user's classes replaces: at most so many features and a bias a class,
and at most this share of a network's parameters (ShuffleNetV2 0.5: 75 %)."""

Stage = tuple[str, str]
"""A stage of one card: its name, and the recipe that it belongs to or nothing where all recipes share it."""

ALONE = ("timing",)
"""Stages that hold the machine alone; the others take one core each."""


@dataclass(frozen=True)
class Plan:
    """The search space of one run.

    Attributes:
        cards: candidates in the order of their promise.
        recipes: names of compression recipes.
        threads: CPU thread counts.
        training: name of the training recipe.
        runtime: runtime and version.
        pictures: number of pictures to learn from, 0 without data.
        validation: number of pictures to compare candidates on.
        holdout: number of pictures to judge finalists on.
        pace: what a stage took on this machine over its rough price, by stage; 1 where nothing is known.
        lead: the target that configurations belong to where this machine is not asked about; None for this machine.
    """

    cards: tuple[Card, ...]
    recipes: tuple[str, ...]
    threads: tuple[int, ...]
    training: str
    runtime: str
    pictures: int = 0
    validation: int = 0
    holdout: int = 0
    pace: Mapping[str, float] = field(default_factory=dict)
    lead: Target | None = None

    @property
    def size(self) -> int:
        """Number of configurations."""
        return len(self.cards) * len(self.recipes) * len(self.threads)

    def configuration(self, card: str, compression: str, threads: int) -> Configuration:
        """Return one point of the space."""
        target = self.lead or Target("host", self.runtime, "cpu", threads)
        return Configuration(card, self.training, compression, target)

    def configurations(self) -> tuple[Configuration, ...]:
        """Return every point, the most promising cards first."""
        return tuple(
            self.configuration(card.name, recipe, count)
            for card in self.cards
            for recipe in self.recipes
            for count in self.threads
        )

    def candidates(self) -> list[Candidate]:
        """Return the space as the sampler's table: published accuracy as prior, rough latency and size as known."""
        from advisor.search.sampler import Candidate

        return [
            Candidate(
                params={"card": card.name, "compression": recipe, "threads": count},
                prior=prior_accuracy(card, recipe),
                known={"latency": rough_ms(card, recipe, count), "size": rough_size(card, recipe)},
                features={
                    "card": card.name,
                    "family": card.family,
                    "recipe": recipe,
                    "input": float(card.input_size),
                    "log_params": math.log(max(card.params, 1)),
                    "log_macs": math.log(max(card.macs, 1)),
                },
                cost_s=self.price_s(card, recipe) / len(self.threads),
            )
            for card in self.cards
            for recipe in self.recipes
            for count in self.threads
        ]

    def price_s(self, card: Card, recipe: str) -> float:
        """Return the rough core seconds of one artefact, with its share of what the card's artefacts have in common."""
        shared = self._shared_prices(card).values()
        return sum(count * price for count, price in shared) / len(self.recipes) + sum(self._own(card, recipe).values())

    def own_price_s(self, card: Card, recipe: str) -> float:
        """Return the rough core seconds of one artefact once what the card's artefacts share is done."""
        return sum(self._own(card, recipe).values())

    def stage_prices(self, card: Card) -> dict[str, tuple[int, float]]:
        """Return how often each stage runs for the card, and its rough core seconds each time."""
        own = [self._own(card, recipe) for recipe in self.recipes]
        means = {stage: sum(prices[stage] for prices in own) / len(own) for stage in own[0]}
        times = {"compress": FITS if self.pictures else 1}
        return self._shared_prices(card) | {
            stage: (len(own) * times.get(stage, 1), price / times.get(stage, 1)) for stage, price in means.items()
        }

    def prices(self, card: Card, recipes: Sequence[str] | None = None) -> dict[Stage, float]:
        """Return the rough seconds of every stage of the card: of one core, or of the machine (:data:`ALONE`)."""
        shared = {(stage, ""): count * price for stage, (count, price) in self._shared_prices(card).items()}
        chosen = self.recipes if recipes is None else recipes
        return shared | {(stage, name): price for name in chosen for stage, price in self._own(card, name).items()}

    def wall_s(self, prices: Mapping[Stage, float], cores: int, done: Collection[Stage] = ()) -> float:
        """Return the rough seconds that stages take on ``cores`` cores, timings alone, without those ``done``."""
        left = {stage: price for stage, price in prices.items() if stage not in done}
        alone = sum(price for (stage, _), price in left.items() if stage in ALONE)
        return alone + (sum(left.values()) - alone) / cores

    def least_size(self, card: Card, recipe: str) -> float:
        """Return bytes that the artefact cannot be below: parameters x bytes, less what is folded or replaced."""
        params = float(max(card.params, 1))
        if self.pictures:
            params -= min(HEAD_FEATURES * card.classes, HEAD_SHARE * params)
        return LEAST_SHARE * params * FORMS.get(recipe, (1.0, 0.0))[1]

    def too_large(self, limit_bytes: int | None) -> dict[Configuration, str]:
        """Return the configurations whose file cannot meet the size budget, with the reason; none where all are."""
        if limit_bytes is None:
            return {}
        found = {
            self.configuration(card.name, recipe, count): _too_large(self.least_size(card, recipe), limit_bytes)
            for card in self.cards
            for recipe in self.recipes
            for count in self.threads
            if not card.own_file and self.least_size(card, recipe) > limit_bytes
        }
        return found if len(found) < self.size else {}

    def _shared_prices(self, card: Card) -> dict[str, tuple[int, float]]:
        prices = {"convert": (1, CONVERT_S), "cut": (1, REWRITE_S)}
        if self.pictures:
            reading = self.pictures * rough_latency_ms(card, "float32") / 1e3
            prices |= {
                "features": (FEATURE_PARTS, reading / FEATURE_PARTS),
                "head": (1, HEAD_S),
                "refit": (1, REFIT_S),
                "join": (FITS, REWRITE_S),
            }
        return {stage: (count, price * self.pace.get(stage, 1.0)) for stage, (count, price) in prices.items()}

    def _own(self, card: Card, recipe: str) -> dict[str, float]:
        runs = self.validation or PHOTOGRAPHS
        prices = {
            "compress": (FITS if self.pictures else 1) * (QUANTIZE_S if recipe == "int8" else REWRITE_S),
            "score" if self.pictures else "answers": runs * rough_latency_ms(card, recipe) / 1e3,
            "timing": TIMING_S,
        }
        return {stage: price * self.pace.get(stage, 1.0) for stage, price in prices.items()}


def order_by_promise(cards: Sequence[Card]) -> tuple[Card, ...]:
    """Return the cards by published accuracy and MACs, front after front, so that the first results matter most."""
    rest, ordered = list(cards), list[Card]()
    while rest:
        layer = [card for card in rest if not any(_better(other, card) for other in rest)]
        ordered += sorted(layer, key=lambda card: -(card.top1() or 0.0))
        rest = [card for card in rest if card not in layer]
    return tuple(ordered)


def prior_accuracy(card: Card, recipe: str) -> float:
    """Return the published top-1 in %, of the form itself where there is a figure."""
    own = card.top1("int8") if recipe == "int8" else None
    return own or card.top1() or 50.0


def rough_latency_ms(card: Card, recipe: str) -> float:
    """Return a latency for ordering and pricing, from MACs alone; see :data:`GMACS_PER_SECOND`."""
    return FORMS.get(recipe, (1.0, 4.0))[0] * max(card.macs, 1) / (GMACS_PER_SECOND * 1e6)


def rough_ms(card: Card, recipe: str, threads: int) -> float:
    """Return :func:`rough_latency_ms` on so many threads, which share the work not quite evenly."""
    return rough_latency_ms(card, recipe) / float(threads**0.9)


def rough_size(card: Card, recipe: str) -> float:
    """Return the bytes of the parameters in a recipe's form."""
    return FORMS.get(recipe, (1.0, 4.0))[1] * max(card.params, 1)


def _too_large(least: float, limit: float) -> str:
    return f"its file has at least {show_bytes(least)}, more than the size budget {show_bytes(limit)}"


def _better(other: Card, card: Card) -> bool:
    accuracy, rival = card.top1() or 0.0, other.top1() or 0.0
    return rival >= accuracy and other.macs <= card.macs and (rival, other.macs) != (accuracy, card.macs)

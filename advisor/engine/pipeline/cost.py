"""What the stages of a search take, roughly, before this machine has told; ratios seen before correct it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from advisor.catalog.cards import Card
from advisor.core.forms import form_of
from advisor.core.training import FINETUNED, HEAD_SUBSET

GMACS_PER_SECOND = 90.0
"""MACs a second of one core, in 10^9: MobileNetV2 1.0 224 (0.3 GMACs) runs in 3.35 ms float32 in LiteRT 2.3 with
XNNPACK on an AMD EPYC. It orders candidates and prices stages; it never filters and is never shown as a latency."""

CONVERT_S = 7.2
HEAD_S = 1.0
REFIT_S = 0.6
REWRITE_S = 0.2
TIMING_S = 1.4
"""Seconds of one core (of the whole machine for timing) that the stages took on an AMD EPYC with MobileNetV2."""

FORM_S: Mapping[str, float] = {"float16": 0.6, "weight_int8": 1.7, "dynamic_int8": 7.0, "int8": 3.4}
"""Seconds to make a form, of MobileNetV2: in the proportions of ``benchmarks/results/compression.md``, whose machine
was busy. ``dynamic_int8`` corrects biases for activations that are rounded anew for every picture."""

READ_START_S, FINETUNE_START_S = 0.5, 40.0
"""Seconds before the first picture: a child and its imports; for fine-tuning also the graph and its compilation."""

FITS = 2
"""Every form is made twice of pictures: of the training part to be compared, and of all but the hold-out to ship."""

FINETUNE_PASSES: Mapping[str, float] = {"finetune_top": 18 * 7.0, "finetune_all": 18 * 12.0}
FINETUNE_MORE = 0.25
"""Of a training picture at most: epochs, times what a step of training takes over one float run in LiteRT; and the
share of it that what ships goes on for."""

CAPTURE_TESTS = 14
CAPTURE_S = 0.0012
CAPTURED_LOOKS = 2
"""Tests of robust accuracy, seconds that one change of a picture takes, and changed looks that a head learns from."""

CAPTURED_IMAGES = 100
"""Pictures of the hold-out that one form of a network is tried on as phones take them, at most: under every condition
at both strengths, they cost as much as fourteen times as many."""

HELD_OUT, PHONES = "holdout", "phones"
"""What is done when finalists are judged, and the stages that do it: nearly every form is a finalist, as three
objectives leave few behind (31 of 35 and 19 of 25 on TrashNet)."""
PACED_AS: Mapping[str, str] = {HELD_OUT: "score", PHONES: "capture"}

PHOTOGRAPHS = 84
FEATURE_PARTS = 2
FEW_IMAGES, IMAGES_A_PART = 200, 2000
"""Up to so many pictures are read in one go; more than so many are no part of the work that is done or lost at once."""

SUBSET_IMAGES = 2000
"""Pictures of a first look at a large set."""


Variant = tuple[str, str]
"""A training recipe and a compression recipe: of one card, one artefact."""

Stage = tuple[str, str, str]
"""A stage of one card: its name, and the training and compression recipe that it belongs to, blank where shared."""

ALONE = ("timing",)
"""Stages that hold the machine alone; the others take one core each."""


@dataclass(frozen=True)
class CostModel:
    """Rough seconds of the stages of one search: of one core, or of the machine (:data:`ALONE`).

    Attributes:
        trainings: names of training recipes.
        recipes: names of compression recipes.
        images: number of pictures to learn from, validation included; 0 without data.
        validation: number of pictures to compare candidates on.
        pace: what a stage took on this machine over its rough price, by stage; 1 where nothing is known.
        robust: candidates are compared under capture conditions too.
        tunings: trials of a study of each card's fine-tuning; 0 for none.
        holdout: number of pictures to judge finalists on.
    """

    trainings: tuple[str, ...]
    recipes: tuple[str, ...]
    images: int = 0
    validation: int = 0
    pace: Mapping[str, float] = field(default_factory=dict)
    robust: bool = False
    tunings: int = 0
    holdout: int = 0

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Every training with every compression; a first look takes float alone."""
        return tuple((training, recipe) for training in self.trainings for recipe in self.recipes_of(training))

    def recipes_of(self, training: str) -> tuple[str, ...]:
        """Return the compression recipes of a training."""
        return ("float32",) if training == HEAD_SUBSET else self.recipes

    def stages(self, card: Card, variants: Collection[Variant] | None = None) -> dict[Stage, float]:
        """Return the seconds of every stage that variants of the card take, all by default."""
        wanted = self.variants if variants is None else tuple(variants)
        found = {(stage, "", ""): count * price for stage, (count, price) in self._shared(card).items()}
        for training in dict.fromkeys(training for training, _ in wanted):
            rows = {**self._trained(card, training), **self._tried(card, training)}.items()
            found |= {(stage, training, ""): count * price for stage, (count, price) in rows}
        for training, recipe in wanted:
            rows = {**self._own(card, training, recipe), **self._held_out(card, training, recipe)}.items()
            found |= {(stage, training, recipe): count * price for stage, (count, price) in rows}
        return found

    def each(self, card: Card) -> dict[str, tuple[int, float]]:
        """Return how often each stage runs for the card, and its seconds each time, on the average."""
        tables = [self._shared(card)]
        tables += [each(card, training) for training in self.trainings for each in (self._trained, self._tried)]
        tables += [each(card, *variant) for variant in self.variants for each in (self._own, self._held_out)]
        found: dict[str, tuple[int, float]] = {}
        for table in tables:
            for name, (count, price) in table.items():
                stage = PACED_AS.get(name, name)
                before, mean = found.get(stage, (0, 0.0))
                found[stage] = (before + count, (before * mean + count * price) / (before + count))
        return found

    def variant_s(self, card: Card, variant: Variant) -> float:
        """Return the seconds of one artefact, with its share of what the card's artefacts have in common.

        That is shared by those of the first rung alone: it is due before any of the others may begin.
        """
        return (
            _sum(self._shared(card)) / len(self.recipes_of(self.trainings[0]))
            + _sum(self._trained(card, variant[0])) / len(self.recipes_of(variant[0]))
            + self.own_s(card, variant)
        )

    def own_s(self, card: Card, variant: Variant) -> float:
        """Return the seconds of one artefact once its training and what the card's artefacts share is done."""
        return _sum(self._own(card, *variant))

    def trained_s(self, card: Card, training: str) -> float:
        """Return the seconds of one training of a card."""
        return _sum(self._trained(card, training))

    def _shared(self, card: Card) -> dict[str, tuple[int, float]]:
        prices = {"convert": (1, CONVERT_S), "cut": (1, REWRITE_S)}
        if self.images:
            looks = 1 + CAPTURED_LOOKS if self.robust else 1
            parts, reading = looks * feature_parts(self.images), self._reading_s(card, self.images)
            prices["features"] = (parts, looks * reading / parts)
        return self._paced(prices)

    @staticmethod
    def _reading_s(card: Card, images: int) -> float:
        return READ_START_S + images * rough_latency_ms(card, "float32") / 1e3

    def _trained(self, card: Card, training: str) -> dict[str, tuple[int, float]]:
        if training in FINETUNED:
            times = max(1, self.tunings) + FINETUNE_MORE
            steps = times * FINETUNE_PASSES[training] * (self.images - self.validation)
            seconds = steps * rough_latency_ms(card, "float32") / 1e3
            # Each depth has a pace of its own, as backward passes are longer the more layers learn.
            return self._paced({training: (1, FINETUNE_START_S + seconds)})
        if training == HEAD_SUBSET:
            reading = self._reading_s(card, SUBSET_IMAGES)
            return self._paced({HEAD_SUBSET: (1, reading + HEAD_S + REWRITE_S)})
        if training == "head":
            return self._paced({"head": (1, HEAD_S), "refit": (1, REFIT_S), "join": (FITS, REWRITE_S)})
        return {}

    def _own(self, card: Card, training: str, recipe: str) -> dict[str, tuple[int, float]]:
        run_s = _run_s(card, recipe, self.validation or PHOTOGRAPHS)
        prices = {
            "compress": (FITS if training == "head" else 1, FORM_S.get(recipe, REWRITE_S)),
            "score" if self.images else "answers": (1, run_s),
            "timing": (1, TIMING_S),
        }
        if self.robust:
            prices["capture"] = (1, CAPTURE_TESTS * (run_s + CAPTURE_S * self.validation))
        return self._paced(prices)

    def _judged(self, training: str) -> bool:
        """Say whether what was trained so may be a finalist: a first look is none."""
        return bool(self.holdout) and training != HEAD_SUBSET

    def _held_out(self, card: Card, training: str, recipe: str) -> dict[str, tuple[int, float]]:
        """Return what judging a finalist takes; it is no part of evaluating it."""
        if not self._judged(training):
            return {}
        return self._paced({HELD_OUT: (1, _run_s(card, recipe, self.holdout))})

    def _tried(self, card: Card, training: str) -> dict[str, tuple[int, float]]:
        """Return what trying a network on phone pictures takes, in one form."""
        if not self._judged(training):
            return {}
        images = min(self.holdout, CAPTURED_IMAGES)
        run_s = _run_s(card, "float32", CAPTURE_TESTS * images)
        return self._paced({PHONES: (1, run_s + CAPTURE_TESTS * images * CAPTURE_S)})

    def _paced(self, prices: Mapping[str, tuple[int, float]]) -> dict[str, tuple[int, float]]:
        paces = {stage: self.pace.get(PACED_AS.get(stage, stage), 1.0) for stage in prices}
        return {stage: (count, price * paces[stage]) for stage, (count, price) in prices.items()}


def _run_s(card: Card, recipe: str, images: int) -> float:
    return READ_START_S + images * rough_latency_ms(card, recipe) / 1e3


def feature_parts(images: int) -> int:
    """Return into how many parts the reading of pictures is cut: one a core, and of large sets what a kill may lose."""
    return 1 if images <= FEW_IMAGES else max(FEATURE_PARTS, -(-images // IMAGES_A_PART))


def wall_s(prices: Mapping[Stage, float], cores: int, done: Collection[Stage] = ()) -> float:
    """Return the rough seconds that stages take on ``cores`` cores, timings alone, without those ``done``."""
    left = {stage: price for stage, price in prices.items() if stage not in done}
    alone = sum(price for (stage, *_), price in left.items() if stage in ALONE)
    return alone + (sum(left.values()) - alone) / cores


def _sum(prices: Mapping[str, tuple[int, float]]) -> float:
    return sum(count * price for count, price in prices.values())


def rough_latency_ms(card: Card, recipe: str) -> float:
    """Return a latency for ordering and pricing, from MACs alone; see :data:`GMACS_PER_SECOND`."""
    return form_of(recipe).latency * max(card.macs, 1) / (GMACS_PER_SECOND * 1e6)


def rough_ms(card: Card, recipe: str, threads: int) -> float:
    """Return :func:`rough_latency_ms` on so many threads, which share the work not quite evenly."""
    return rough_latency_ms(card, recipe) / float(threads**0.9)


def rough_size(card: Card, recipe: str) -> float:
    """Return the bytes of the parameters in a recipe's form."""
    return form_of(recipe).bytes * max(card.params, 1)

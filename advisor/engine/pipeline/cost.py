"""Rough seconds of the stages of a search on a reference machine, and their calibration by what they took on this one.

The figures order candidates and price plans. They never filter, and they are never shown as a latency.
"""

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from advisor.catalog.cards import Card
from advisor.core.codec import parse
from advisor.core.errors import UsageError
from advisor.core.forms import form_of
from advisor.core.training import recipe_of
from advisor.engine.pipeline.stage import EventKind, Stage, StageEvent, StageName
from advisor.measurement import host
from advisor.store import cache_root
from advisor.store.files import write_atomically
from advisor.store.jsonfile import read_json

GMACS_PER_SECOND = 90.0
"""Multiply-accumulates a second of one core, in 10^9: MobileNetV2 1.0 224 (0.3 GMACs) runs in 3.35 ms float32 in LiteRT
2.3 with XNNPACK on an AMD EPYC."""

CONVERT_S, HEAD_S, EXPECTATION_S, REFIT_S, REWRITE_S = 7.2, 5.0, 1.5, 0.6, 0.2
TIMING_S, EXPORT_S, RUNTIME_S, ARENA_S = 1.4, 8.0, 4.0, 3.0
"""Seconds of one core (of the whole machine for timing) that the stages took on an AMD EPYC with MobileNetV2."""

EXPORT_BYTES = 1_200_000_000  # Memory of the converter to ONNX and its libraries

CALIBRATE_S, CALIBRATE_AGAIN_S = 7.5, 2.5
"""Seconds of calibrating MobileNetV2 for all its forms, and of a model that shares all its layers but the head."""

COMPRESS_S: Mapping[str, float] = {"float16": 0.6, "weight_int8": 0.5, "dynamic_int8": 0.5, "int8": 0.6}
"""Seconds of a compression recipe on MobileNetV2, after its calibration."""

READ_START_S, FINETUNE_START_S = 0.5, 40.0
"""Seconds before the first image: a child process and its imports; for fine-tuning also the graph and its
compilation."""

MAP_PASSES = 1.5  # Runs in LiteRT that a cached map takes: the lower layers, and reading and changing the image

CAPTURE_TESTS, CAPTURE_S = 14, 0.0012  # Tests of robust accuracy, and seconds that one change of an image takes

DETECTOR_MAPS, DETECTOR_IMAGE_S, DETECTOR_TUNING = 9.0, 0.7, 200.0
"""Runs in LiteRT of a detector's maps, with reading and changing the image; seconds of all epochs of its head for an
image; runs in LiteRT of all epochs of a backbone that learns too. BCCD's 205 training images took MobileNetV2 at 320
pixels 55, 150 and 434 CPU seconds on an Intel Xeon of 2.8 GHz."""

PHOTOGRAPHS, FEATURE_PARTS = 85, 2
FEW_IMAGES, IMAGES_A_PART = 200, 2000
"""Images that are read in one part, and the largest part of more images: an interrupt loses one part."""


def reading_s(card: Card, images: int) -> float:
    """Return the seconds of extracting features."""
    return READ_START_S + images * rough_latency_ms(card, "float32") / 1e3


def scoring_s(card: Card, recipe: str, images: int) -> float:
    """Return the seconds of running a file over images; 0 images means the bundled photographs."""
    return READ_START_S + (images or PHOTOGRAPHS) * rough_latency_ms(card, recipe) / 1e3


def capturing_s(card: Card, recipe: str, images: int) -> float:
    """Return the seconds of running a file over images under every capture condition."""
    return CAPTURE_TESTS * (scoring_s(card, recipe, images) + CAPTURE_S * images)


def judging_s(card: Card, images: int) -> float:
    """Return the seconds of running a network, in one of its files, over the hold-out under capture conditions."""
    return scoring_s(card, "float32", CAPTURE_TESTS * images) + CAPTURE_TESTS * images * CAPTURE_S


def finetuning_s(card: Card, training: str, images: int, epochs: int, maps: int = 0) -> float:
    """Return the seconds of at most ``epochs`` epochs on ``images`` images, ``maps`` cached maps of each; without its
    start.
    """
    passes = epochs * recipe_of(training).step + maps * MAP_PASSES
    return passes * images * rough_latency_ms(card, "float32") / 1e3


def detector_s(card: Card, images: int, tuning: bool = False) -> float:
    """Return the seconds of training a detector: the maps of the images and of their copies, and the epochs on them.

    ``tuning``: the seconds of fine-tuning it, after the training of its head.
    """
    backbone = (DETECTOR_TUNING if tuning else DETECTOR_MAPS) * rough_latency_ms(card, "float32") / 1e3
    return FINETUNE_START_S + images * (backbone + DETECTOR_IMAGE_S)


def feature_parts(images: int) -> int:
    """Return into how many parts the reading of images is cut: one a core, and of large sets what a kill may lose."""
    return 1 if images <= FEW_IMAGES else max(FEATURE_PARTS, -(-images // IMAGES_A_PART))


def rough_latency_ms(card: Card, recipe: str) -> float:
    """Return a latency from MACs alone; see :data:`GMACS_PER_SECOND`."""
    return form_of(recipe).latency * max(card.macs, 1) / (GMACS_PER_SECOND * 1e6)


def rough_ms(card: Card, recipe: str, threads: int) -> float:
    """Return :func:`rough_latency_ms` on several threads, which do not share the work evenly."""
    return rough_latency_ms(card, recipe) / float(threads**0.9)


def export_bytes(card: Card, recipe: str) -> int:
    """Return the expected memory while a file is converted to ONNX; tf2onnx took 4.1 GB for a file of 102 MB."""
    return EXPORT_BYTES + round(30 * rough_size(card, recipe))


def rough_size(card: Card, recipe: str) -> float:
    """Return the bytes of the parameters after compression."""
    return form_of(recipe).bytes * max(card.params, 1)


MOST = 30.0  # A ratio beyond this says more about a disturbance than about the machine
SEARCHES = 7  # Number of searches whose median counts: one disturbed search, or an unusual card, decides nothing


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
            {
                stage: statistics.median(ratio.value for ratio in _of_kind(ratios, False) or ratios)
                for stage, ratios in self._ratios.items()
            }
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
                ratios = (*new.get(stage, ()), bounded)  # a busy week does not displace the quiet ones
                new[stage] = (*_of_kind(ratios, False)[-SEARCHES:], *_of_kind(ratios, True)[-SEARCHES:])
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


def _of_kind(ratios: tuple[CostRatio, ...], disturbed: bool) -> tuple[CostRatio, ...]:
    return tuple(ratio for ratio in ratios if ratio.disturbed is disturbed)


def _read(file: Path) -> dict[StageName, tuple[CostRatio, ...]]:
    try:
        rows: Mapping[str, tuple[CostRatio, ...]] = parse(Mapping[str, tuple[CostRatio, ...]], read_json(file))
    except (UsageError, ValueError, TypeError):
        return {}
    return {StageName(stage): ratios for stage, ratios in rows.items() if ratios and stage in set(StageName)}

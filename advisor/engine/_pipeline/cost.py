"""Rough seconds of the stages of a search on a reference machine,
and their calibration by what they took on this one.

The figures order candidates and price plans.
They never filter, and they are never shown as a latency.
"""

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from advisor.catalog import Card
from advisor.core import UsageError, form_of, parse, recipe_of
from advisor.engine._pipeline.stage import EventKind, Stage, StageEvent, StageName
from advisor.measurement import host
from advisor.store import cache_root, read_json, write_atomically

GMACS_PER_SECOND = 90.0
MOBILENET_V2_MACS = 300_000_000
"""Multiply-accumulates a second of one core, in 10^9: MobileNetV2 1.0 224 (0.3 GMACs) runs in 3.35
ms float32 in LiteRT 2.3 with XNNPACK on an AMD EPYC.
"""

CONVERT_S = 4.2
FILL_S = 0.6
HEAD_S = 2.2
EXPECTATION_S = 0.5
ADJUST_S = 1.2
REFIT_S = 0.6
REWRITE_S = 0.2
TIMING_S = 1.4
EXPORT_S = 8.0
RUNTIME_S = 4.0
ARENA_S = 3.0
"""CPU seconds (of timing, seconds of the machine) that the stages took
on an AMD EPYC with MobileNetV2.
"""

LABELS_S = 3.0
LABELS_IMAGE_S = 0.0025
LABELS_STEP_S = 1.5e-10
"""Seconds of checking labels: imports, opening images that may be crops, and a ridge regression on
landmarks. 1,416 images of TrashNet took 6.9 CPU seconds on an AMD EPYC; 6,000 rows of features
with 3,000 landmarks took 8.5.
"""

EXPORT_BYTES = 1_200_000_000  # Memory of the converter to ONNX and its libraries

CALIBRATE_AGAIN_S = 1.7
CALIBRATE_LAYERS_S = 5.5
CALIBRATE_POWER = 0.75
"""CPU seconds of calibrating MobileNetV2 for all its forms where only its head is new, and how
many more where all its layers are; the power of the arithmetic with which both grow. Nine networks
took 1.4 (MobileNetV1 0.25) to 56 (Inception V3) for all layers on an AMD EPYC. These figures give
seven of them within a factor of 1.35, MobileNetV1 1.9 times and SqueezeNet 2.6 times too much.
"""

COMPRESS_S: Mapping[str, float] = {
    "float16": 0.9,
    "weight_int8": 0.8,
    "dynamic_int8": 0.8,
    "int8": 0.5,
    "mixed_int8": 53.0,
    "qat_int8": 127.0,
    "pruned_50": 129.0,
    "pruned_75": 125.0,
    "clustered_16": 122.0,
}
"""Seconds of a compression recipe on MobileNetV2, after its calibration
(``benchmarks/results/compression.md``, where recipes that train weights were limited to 120 s).
``int8`` is of the searches that gave the seconds of calibrating.
"""

READ_START_S = 0.5
FINETUNE_START_S = 20.0
DETECTOR_START_S = 15.0
"""Seconds before the first image: a child process and its imports;
for fine-tuning also the graph, its compilation and its conversion.
"""

# Runs in LiteRT that a cached map takes: the lower layers, and reading and changing the image.
MAP_PASSES = 2.0

READING = 2.3  # CPU seconds of features over those of the network alone: images are read

READ_IMAGE_S = 0.0013
"""Seconds of reading an image to score it: MobileNetV2's answers took 1.4 times the CPU seconds of
the network alone. MobileNetV1 0.25 takes a third of this.
"""

# Tests of robust accuracy, and seconds that one change of an image takes.
# Seven conditions at two strengths each, see datasets/_capture.py.
CAPTURE_TESTS = 14
CAPTURE_S = 0.0012

DETECTOR_MAPS = 9.0
DETECTOR_IMAGE_S = 0.24
DETECTOR_TUNING = 60.0
DETECTOR_TUNING_ALL = 260.0
"""Runs in LiteRT of a detector's maps, with reading and changing the image; seconds of all epochs
of its head for an image; runs in LiteRT of all epochs of a backbone of which some layers learn
too, or all. BCCD's 205 training images took MobileNetV2 at 320 pixels 55, 150 and 434 CPU seconds
on an Intel Xeon of 2.8 GHz; all layers take 2.3 times as long as some (decision 0126).
"""

PHOTOGRAPHS = 85  # Crops of the bundled photographs, on which files are compared without images
FEATURE_PARTS = 2  # Least number of parts in which more than a few images are read
FEW_IMAGES = 200  # Images that are read in one part
IMAGES_A_PART = 2000  # Most images of a part: an interrupt loses one part

MOST = 30.0  # A ratio beyond this says more about a disturbance than about the machine
# Number of searches whose median counts:
# one disturbed search, or an unusual card, decides nothing.
SEARCHES = 7

TRAINING_WALL = 0.6
"""Seconds by the clock of a CPU second of fine-tuning on two cores or more,
before one was seen on this machine.
"""

LOADED = 1.6
"""Seconds of jobs over those on a quiet machine from which on other programs keep it busy."""

# Largest share of the cores that other programs are taken to keep: jobs get their turn.
MOST_OTHERS = 0.75

RECENT_S = 5.0
"""Seconds of work after which the load that an earlier job met counts half. It is also the weight
of a quiet machine at the start of a search.
"""

PACE_S = 20.0
STAGE_S = 3.0
"""Planned seconds of work that weigh as much as the plan in the pace of a search, and as much as
the pace of the search in the pace of one kind of stage.
"""


def head_s(images: int, classes: int) -> float:
    """Return the seconds of choosing and fitting a head:
    2.2 for TrashNet's 1,416 images of six classes.

    They grow with the images, and with the classes to the power of 0.4: groceries, 2,640 images of
    81 classes, took 2.6 times as long an image. 320 images took 0.3 to 0.6 seconds with seven
    networks.
    """
    of_classes: float = max(1.0, classes / 6) ** 0.4
    return HEAD_S * min(max(0.2, images / 1416), 6.0) * of_classes


def calibrating_s(macs: int, layers: float) -> float:
    """Return the seconds of calibrating a file, of whose layers a share (0-1) is new.

    A file without known MACs has the price of MobileNetV2.
    """
    of_mobilenet_v2 = CALIBRATE_AGAIN_S + layers * CALIBRATE_LAYERS_S
    return of_mobilenet_v2 * float(
        ((macs or MOBILENET_V2_MACS) / MOBILENET_V2_MACS) ** CALIBRATE_POWER
    )


def reading_s(card: Card, images: int) -> float:
    """Return the seconds of extracting features."""
    return READ_START_S + READING * images * rough_latency_ms(card, "float32") / 1e3


def scoring_s(card: Card, recipe: str, images: int) -> float:
    """Return the seconds of running a file over images; 0 images means the bundled photographs."""
    return READ_START_S + (images or PHOTOGRAPHS) * (
        READ_IMAGE_S + rough_latency_ms(card, recipe) / 1e3
    )


def capturing_s(card: Card, recipe: str, images: int) -> float:
    """Return the seconds of running a file over images under every capture condition."""
    return CAPTURE_TESTS * (scoring_s(card, recipe, images) + CAPTURE_S * images)


def judging_s(card: Card, images: int) -> float:
    """Return the seconds of running a network, in one of its files,
    over the hold-out under capture conditions.
    """
    return scoring_s(card, "float32", CAPTURE_TESTS * images) + CAPTURE_TESTS * images * CAPTURE_S


def finetuning_s(card: Card, training: str, images: int, epochs: int, maps: int = 0) -> float:
    """Return the seconds of at most ``epochs`` epochs on ``images`` images,
    ``maps`` cached maps of each; without its start.
    """
    passes = epochs * recipe_of(training).step + maps * MAP_PASSES
    return passes * images * rough_latency_ms(card, "float32") / 1e3


def detector_s(card: Card, images: int, layers: float = 0.0) -> float:
    """Return the seconds of training a detector:
    the maps of the images and of their copies, and the epochs on them.

    With a share of the backbone's ``layers``:
    the seconds of fine-tuning them, after the training of the head.
    """
    runs = DETECTOR_MAPS
    if layers:
        runs = DETECTOR_TUNING if layers < 1.0 else DETECTOR_TUNING_ALL
    return DETECTOR_START_S + images * (
        runs * rough_latency_ms(card, "float32") / 1e3 + DETECTOR_IMAGE_S
    )


def labels_s(images: int, landmarks: int) -> float:
    """Return the seconds of finding likely wrong labels by features that are there."""
    return LABELS_S + images * (LABELS_IMAGE_S + LABELS_STEP_S * min(images, landmarks) ** 2)


def feature_parts(images: int) -> int:
    """Return into how many parts the reading of images is cut:
    one a core, and of large sets what a kill may lose.
    """
    if images <= FEW_IMAGES:
        return 1
    return max(FEATURE_PARTS, -(-images // IMAGES_A_PART))


def rough_latency_ms(card: Card, recipe: str) -> float:
    """Return a latency from MACs alone; see :data:`GMACS_PER_SECOND`."""
    return form_of(recipe).latency * max(card.macs, 1) / (GMACS_PER_SECOND * 1e6)


def rough_ms(card: Card, recipe: str, threads: int) -> float:
    """Return :func:`rough_latency_ms` on several threads, which do not share the work evenly."""
    return rough_latency_ms(card, recipe) / float(threads**0.9)


def export_bytes(card: Card, recipe: str) -> int:
    """Return the expected memory while a file is converted to ONNX;
    tf2onnx took 4.1 GB for a file of 102 MB.
    """
    return EXPORT_BYTES + round(30 * rough_size(card, recipe))


def rough_size(card: Card, recipe: str) -> float:
    """Return the bytes of the parameters after compression."""
    return form_of(recipe).bytes * max(card.params, 1)


def training_walls(cores: int) -> Mapping[StageName, float]:
    """Return the seconds by the clock of a CPU second of each kind of fine-tuning,
    before one was seen here.
    """
    kinds = [name for name in StageName if recipe_of(name).tunes_backbone]
    return dict.fromkeys(kinds, max(TRAINING_WALL, 1.0 / cores))


class CostRatio(NamedTuple):
    """CPU seconds of a stage in one search over its rough price,
    with a mark if other work disturbed the search.

    ``wall``: wall seconds of a CPU second, below 1 where a job uses several cores.
    """

    value: float
    disturbed: bool = False
    wall: float = 1.0


class StageWork(NamedTuple):
    """The work of jobs: its price in the plan, and what it took;
    a measurement's CPU seconds are its wall seconds.
    """

    price_s: float = 0.0
    cpu_s: float = 0.0
    wall_s: float = 0.0


@dataclass(frozen=True)
class Paces:
    """The seconds that stages take in one search over those that its plan expects.

    ``work`` has the planned seconds and the seconds taken of each kind of stage that has run.
    """

    work: Mapping[StageName, tuple[float, float]]

    def of(self, name: StageName) -> float:
        """Return the seconds that a stage of a kind takes for each planned second.

        A kind without a figure has the pace of the search, in which large stages count most: they
        are limited by the speed of the machine, small ones by much else.
        """
        planned_s, took_s = self.work.get(name, (0.0, 0.0))
        return (took_s + STAGE_S * self.usual) / (planned_s + STAGE_S)

    @cached_property
    def usual(self) -> float:
        """The pace of the search: that of all its stages together."""
        planned_s = sum(planned for planned, _ in self.work.values())
        took_s = sum(took for _, took in self.work.values())
        return (took_s + PACE_S) / (planned_s + PACE_S)


class MachineLoad:
    """How much longer jobs take now than on a quiet machine; recent jobs count most.

    Before the first job, ``others`` is the share (0-1) of the cores that other programs keep, and
    ``part`` the part (0-1) of one core that a quota leaves. Jobs get their turn among other
    programs. A quota is never exceeded.
    """

    def __init__(self, others: float = 0.0, part: float = 1.0) -> None:
        self._usual_s = RECENT_S
        self._took_s = RECENT_S * max(1.0 / (1.0 - min(others, MOST_OTHERS)), 1.0 / part)

    def note(self, usual_s: float, took_s: float) -> None:
        """Note work that takes ``usual_s`` wall seconds on a quiet machine, and took others."""
        left = 0.5 ** (usual_s / RECENT_S)
        self._usual_s = left * self._usual_s + usual_s
        self._took_s = left * self._took_s + took_s

    @property
    def slowdown(self) -> float:
        """Wall seconds that jobs take now over those that they take on a quiet machine."""
        return self._took_s / self._usual_s


class CostCalibration:
    """CPU seconds that stages took over their rough price, by stage, stored for the next plan.

    So a busy machine prices work like a quiet one; only measurements, which have the machine
    alone, count wall seconds. Searches on a quiet machine count before those that other work
    disturbed, however many of these there are. The JSON ``file`` is by default one for each
    machine, in the cache. ``others`` and ``part`` are those of :class:`MachineLoad`, and ``cores``
    are those of the search.

    Attributes:
        pace: CPU seconds of each stage over its rough price.
        wall: wall seconds of each stage over its CPU seconds on a quiet machine: at most 1, as
            nothing else delays it.
    """

    def __init__(
        self, file: Path | None = None, others: float = 0.0, part: float = 1.0, cores: int = 1
    ) -> None:
        self._file = file or cache_root() / f"cpu-{host.describe().fingerprint}.json"
        self._ratios = _read(self._file)
        self.pace: Mapping[StageName, float] = _with_trainings(self._medians("value"))
        self.wall: Mapping[StageName, float] = {
            name: min(1.0, wall) for name, wall in self._medians("wall").items()
        }
        self._usual_wall = {**training_walls(cores), **self.wall}
        self._worked: dict[Stage[Any], StageWork] = {}
        self._known_paces: Paces | None = None
        self._load = MachineLoad(others, part)

    def _medians(self, field: str) -> dict[StageName, float]:
        medians = {}
        for stage, ratios in self._ratios.items():
            medians[stage] = statistics.median(
                getattr(ratio, field) for ratio in _of_kind(ratios, False) or ratios
            )
        return medians

    @property
    def slowdown(self) -> float:
        """Wall seconds that jobs take now over those that they take on a quiet machine;
        see :class:`MachineLoad`.
        """
        return self._load.slowdown

    def note(self, event: StageEvent, price_s: float) -> None:
        """Record what happened to a stage, of which the plan expected ``price_s`` seconds.

        A training that a limit or an interrupt ends counts with the share of its seconds that it
        has done, which it knows after its first steps; else with its finished epochs.
        """
        done, planned = event.epochs
        self._known_paces = None
        if event.kind is EventKind.CACHED:
            self._worked.pop(event.stage, None)
        elif event.kind in (EventKind.DONE, EventKind.EPOCH):
            before = self._worked.get(event.stage, StageWork())
            share = event.share or (done / planned if planned else 1.0)
            now = StageWork(price_s * share, event.cpu_s, event.seconds)
            self._worked[event.stage] = now
            if not event.stage.resources.alone:
                usual_s = (now.cpu_s - before.cpu_s) * self._usual_wall.get(event.stage.name, 1.0)
                self._load.note(usual_s, now.wall_s - before.wall_s)

    def observed(self, name: StageName) -> float:
        """Return the seconds that a stage of a kind takes now over those that its plan expects."""
        return self._planned_slowdown * self._paces.of(name)

    def expect_s(self, name: StageName, price_s: float) -> float:
        """Return the seconds by the clock of stages of a kind,
        which follow each other and have a rough price.
        """
        return price_s * self.pace.get(name, 1.0) * self._usual_wall.get(name, 1.0) * self.slowdown

    def training_wall_s(self, name: StageName) -> float:
        """Return the seconds by the clock of a CPU second of a training, as plans expect them
        now.
        """
        return self._planned_slowdown * self._usual_wall.get(name, 1.0)

    @property
    def _planned_slowdown(self) -> float:
        """The :attr:`slowdown` that plans reckon with.

        Other programs count from :data:`LOADED` on:
        less than that, the jobs of a search itself cost each other.
        """
        return self.slowdown if self.slowdown > LOADED else 1.0

    @property
    def _paces(self) -> Paces:
        if self._known_paces is None:
            self._known_paces = Paces(
                {name: (work.price_s, work.cpu_s) for name, work in self._by_stage().items()}
            )
        return self._known_paces

    def _by_stage(self) -> dict[StageName, StageWork]:
        work_of: dict[StageName, StageWork] = {}
        for stage, work in self._worked.items():
            work_of[stage.name] = StageWork(
                *map(sum, zip(work_of.get(stage.name, StageWork()), work, strict=True))
            )
        return work_of

    def keep(self, disturbed: bool = False) -> None:
        """Compare the expected CPU seconds with those that were spent, stage by stage,
        and keep the ratios.
        """
        new = dict(self._ratios)
        for stage, (price_s, cpu_s, wall_s) in self._by_stage().items():
            if price_s > 0 and cpu_s > 0:
                # The plan's prices are paced already.
                ratio = self.pace.get(stage, 1.0) * cpu_s / price_s
                bounded = CostRatio(_limit_ratio(ratio), disturbed, _limit_ratio(wall_s / cpu_s))
                # A busy week does not displace the quiet ones.
                ratios = (*new.get(stage, ()), bounded)
                new[stage] = (
                    *_of_kind(ratios, False)[-SEARCHES:],
                    *_of_kind(ratios, True)[-SEARCHES:],
                )
        if new != self._ratios:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            rows = {}
            for stage, ratios in new.items():
                rows[stage] = list(map(list, ratios))
            write_atomically(self._file, json.dumps(rows, indent=1, sort_keys=True) + "\n")


def _limit_ratio(ratio: float) -> float:
    return min(max(ratio, 1 / MOST), MOST)


def _with_trainings(pace: Mapping[StageName, float]) -> Mapping[StageName, float]:
    """Return the ratios, with those of fine-tunings that were never run here.

    Such a fine-tuning has the ratio of the others, else the median of all stages.
    """
    trainings = [stage for stage in StageName if recipe_of(stage).tunes_backbone]
    known = []
    for stage in trainings:
        if stage in pace:
            known.append(pace[stage])
    if not known and StageName.FEATURES in pace:
        known = list(pace.values())
    if known:
        return {**dict.fromkeys(trainings, statistics.median(known)), **pace}
    return pace


def _of_kind(ratios: tuple[CostRatio, ...], disturbed: bool) -> tuple[CostRatio, ...]:
    return tuple(ratio for ratio in ratios if ratio.disturbed is disturbed)


def _read(file: Path) -> dict[StageName, tuple[CostRatio, ...]]:
    try:
        rows: Mapping[str, tuple[CostRatio, ...]] = parse(
            Mapping[str, tuple[CostRatio, ...]], read_json(file)
        )
    except (UsageError, ValueError, TypeError):
        return {}
    known = {}
    for stage, ratios in rows.items():
        if ratios and stage in set(StageName):
            known[StageName(stage)] = ratios
    return known

"""Judge the file of a run on tiles of its hold-out images.

:func:`judge_tiles` reads the hold-out again, and compares what the pick's file finds in whole
images with what it finds in tiles. A child process runs the file, because decoders and runtime are
native code that reads files of strangers. It calls :func:`find_both` by module and name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from advisor.core import METRICS, Evaluation, Interval, ObjectsOfSize, UsageError, Written
from advisor.datasets import InputSpec, Tiling, class_order
from advisor.engine._history.loaded_run import LoadedRun
from advisor.engine._pipeline.images import Images, Role
from advisor.isolation import CallLimits, ChildPool, Scratch
from advisor.measurement import Detections, Detector, average_precision, box_matches
from advisor.store import Problem

MOST_IMAGES = 300  # Images of the hold-out that judge, at most
MEMORY_BYTES = 2_000_000_000
START_S = 60.0  # Seconds that the child process may take beside the images
RUN_S = 4.0  # Seconds that a run of the file may take, with its share of decoding
HALF = "mAP@0.5"
WHOLE_FILE, TILED_FILE = "whole.npz", "tiled.npz"


@dataclass(frozen=True)
class TiledFigure(Written):
    """A figure of a file on whole images and on tiles of them.

    Attributes:
        name: what it is, such as ``mAP@0.5`` or ``recall of objects below 16 pixels``.
        whole: of whole images in %, with its 95 % interval on other images.
        tiled: of tiles, the same.
        gain: points that tiles gain on the same images, with their 95 % interval.
    """

    name: str
    whole: Interval
    tiled: Interval
    gain: Interval

    @property
    def sentence(self) -> str:
        """The figure in words: ``mAP@0.5: 78.8 % in tiles, 45.2 % whole: +33.6 points (...)``."""
        gain = f"{self.gain.value:+.1f} points ({self.gain.low:+.1f} to {self.gain.high:+.1f})"
        tiled, whole = map(_show_percent, (self.tiled, self.whole))
        return f"{self.name}: {tiled} in tiles, {whole} whole: {gain}"


@dataclass(frozen=True)
class TileComparison(Written):
    """The gain of tiles for the file of a run on the images of its hold-out, and their cost.

    Attributes:
        key: key of the pick's evaluation.
        tiles: tiles in a row and in a column.
        overlap: share of a tile's side that the next one has, too.
        images: number of images that judge.
        held_out: number of images of the hold-out.
        runs: runs of the file for a photograph in tiles; one is on the whole photograph.
        whole_ms: median CPU time of a whole photograph on this machine: decoding, resizing,
            running the file.
        tiled_ms: median CPU time of a photograph in tiles, with joining.
        figures: accuracy; by COCO's sizes of objects, as far as there are some.
        sizes: recall of the objects of each range of sizes at the network's input, from the
            threshold of the run on, the smallest first.
    """

    entries = ("schema_version", "verdict", "*")
    schema_version = 1

    key: str
    tiles: int
    overlap: float
    images: int
    held_out: int
    runs: int
    whole_ms: float
    tiled_ms: float
    figures: tuple[TiledFigure, ...]
    sizes: tuple[TiledFigure, ...]

    @property
    def verdict(self) -> str:
        """The answer in a sentence: tiles find more small objects, or do not."""
        small = self.sizes[0]
        tiles = f"{self.tiles} x {self.tiles} tiles"
        if small.gain.low > 0:
            answer = f"{tiles} find more small objects"
        elif small.gain.high < 0:
            answer = f"{tiles} find fewer small objects"
        else:
            answer = f"The hold-out does not show that {tiles} find more small objects"
        return f"{answer}. {small.sentence[0].upper()}{small.sentence[1:]}."

    @property
    def lines(self) -> tuple[str, ...]:
        """The answer in lines of text."""
        accuracy, *areas = self.figures
        judged = f"{self.images} images of the hold-out"
        if self.images < self.held_out:
            judged = f"{self.images} of {self.held_out} images of the hold-out"
        cost = (
            f"A photograph takes {self.tiled_ms:.0f} ms of CPU time in place of"
            f" {self.whole_ms:.0f} on this machine. The file runs {self.runs} times in place of"
            " once, on a device too."
        )
        others = [figure.sentence for figure in (*areas, *self.sizes[1:])]
        return (self.verdict, accuracy.sentence, cost, *others, f"judged by {judged}")


def judge_tiles(run: str | Path, tiles: int, overlap: float) -> TileComparison:
    """Say what tiles would gain a run's detector on the images of its hold-out, and their cost;
    :func:`advisor.judge_tiles` explains the arguments and says what it raises.
    """
    tiling = Tiling.of_options(tiles, overlap)
    if tiling is None:
        raise UsageError(
            "--tiles: 1 tile is the whole photograph, so there is nothing to compare",
            "write for example --tiles 2",
        )
    loaded = LoadedRun.load(run)
    pick = _require_detector(loaded)
    images = _read_holdout(loaded)
    held_out = len(images.split.holdout)
    judged = images.held_out(MOST_IMAGES)
    with Scratch() as folder:
        whole_ms, tiled_ms = _run_both(loaded, pick, judged, tiling, folder)
        figures, sizes = _compare(pick, judged, folder, loaded.question.of_task.metric)
    return TileComparison(
        pick.configuration.key,
        tiles,
        overlap,
        len(judged.split.holdout),
        held_out,
        len(tiling.windows),
        whole_ms,
        tiled_ms,
        figures,
        sizes,
    )


def _require_detector(loaded: LoadedRun) -> Evaluation:
    """Return the pick of a run of detectors; UsageError for other runs, and without a file."""
    if average_precision.MAP not in loaded.question.of_task.metrics:
        raise UsageError(
            "--tiles: only detectors run on tiles, whose boxes can be joined", "leave --tiles out"
        )
    pick = loaded.decision.pick
    if pick is None:
        raise UsageError(
            "the run has no candidate with a file", "wait for its first answer, or search again"
        )
    problem = Problem.find_in_artefact(loaded.folder, pick)
    if problem is not None:
        raise UsageError(str(problem), "restore the file, or search again")
    return pick


def _read_holdout(loaded: LoadedRun) -> Images:
    """Return the images of a run with its split; UsageError if its hold-out is not there."""
    question = loaded.question
    images = question.of_task.read(question, lambda _text: None)
    stored = loaded.folder.read_json("split.json") or {}
    known = {row["sha256"] for row in stored.get("holdout", ())}
    # Another file would make a figure of images that the model may have learnt from.
    if not known or known != set(images.part(Role.HOLDOUT).hashes):
        raise UsageError(
            f"the images of the hold-out have changed since '{loaded.name}'",
            "bring them back, or search again with the present ones",
        )
    return images


def _run_both(
    loaded: LoadedRun,
    pick: Evaluation,
    images: Images,
    tiling: Tiling,
    folder: Path,
) -> tuple[float, float]:
    """Write what the file finds in the hold-out, whole and in tiles; return the median CPU times
    of a photograph in milliseconds.
    """
    preprocessing = pick.card_facts.preprocessing
    assert preprocessing is not None, "the pick of a search knows its input"
    spec = InputSpec(pick.card_facts.input_size or 0, preprocessing.mean, preprocessing.std)
    paths = images.part(Role.HOLDOUT).paths
    runs = 1 + len(tiling.windows)
    limits = CallLimits(START_S + RUN_S * runs * len(paths), MEMORY_BYTES, processes=0)
    pool = ChildPool(Path(os.devnull), writes_below=folder)
    file = loaded.folder.path / pick.artefact
    try:
        whole, tiled = pool.call(
            f"{__name__}:find_both",
            str(file),
            paths,
            spec,
            images.classes,
            tiling,
            str(folder),
            limits=limits,
        )
    finally:
        pool.close()
    return 1000 * median(whole), 1000 * median(tiled)


def find_both(
    file: str,
    paths: Sequence[Path],
    spec: InputSpec,
    classes: Sequence[str],
    tiling: Tiling,
    folder: str,
) -> tuple[list[float], list[float]]:
    """Write what a file finds in whole images and in tiles of them (:meth:`.Detections.save_all`),
    and return the CPU seconds that each image took. The child process calls this.
    """
    run = Detector(Path(file), spec)
    labels = run.read_labels()
    # A detector of the user is matched by the names in it; its numbers mean other classes here.
    places = None
    if labels:
        order = class_order(classes, labels, len(labels))
        places = {label: place for place, label in enumerate(order)}
    detections: dict[str, list[Detections]] = {WHOLE_FILE: [], TILED_FILE: []}
    seconds: dict[str, list[float]] = {WHOLE_FILE: [], TILED_FILE: []}
    # The first run of a file takes longer.
    run(paths[0])
    for path in paths:
        for name in detections:
            began = time.process_time()
            objects = run(path) if name == WHOLE_FILE else _find_in_tiles(run, spec, path, tiling)
            seconds[name].append(time.process_time() - began)
            detections[name].append(objects.relabel_boxes(places) if places else objects)
    for name, of_images in detections.items():
        Detections.save_all(Path(folder) / name, of_images)
    return seconds[WHOLE_FILE], seconds[TILED_FILE]


def _find_in_tiles(run: Detector, spec: InputSpec, path: Path, tiling: Tiling) -> Detections:
    """Return what a detector finds in all tiles of an image, each object once."""
    answers = []
    boxes = []
    tiles = []
    for tile, pixels in enumerate(tiling.read(path, spec.size)):
        answer = run.answer_for(spec.normalise(pixels))
        answers.append(answer)
        boxes.append(tiling.place_boxes(answer.boxes, tile))
        tiles.append(np.full(len(answer.labels), tile))
    all_boxes = np.concatenate(boxes)
    labels = np.concatenate([answer.labels for answer in answers])
    scores = np.concatenate([answer.scores for answer in answers])
    chosen = tiling.choose_boxes(all_boxes, labels, scores, np.concatenate(tiles))
    return Detections(all_boxes[chosen].astype(np.float32), labels[chosen], scores[chosen])


def _compare(
    pick: Evaluation, images: Images, folder: Path, metric: str
) -> tuple[tuple[TiledFigure, ...], tuple[TiledFigure, ...]]:
    """Return accuracy and average precision by COCO's sizes, the one that decided the run first,
    and the recall by size from the threshold of the run on.
    """
    part = images.part(Role.HOLDOUT)
    assert images.boxes is not None, "a search for objects has boxes"
    true = list(map(Detections.of_true_boxes, part.objects))
    # Images state width and height, the metrics take height and width.
    sizes = [images.boxes.sizes[index][::-1] for index in part.indices]
    ways = [Detections.load_all(folder / name) for name in (WHOLE_FILE, TILED_FILE)]
    count = len(images.classes)
    scores = []
    for detections in ways:
        reached = average_precision.score_boxes(true, detections, sizes, count, part.groups)
        areas = average_precision.score_areas(true, detections, sizes, count, part.groups)
        scores.append({"": reached.half, average_precision.MAP: reached.coco, **areas})
    figures = []
    for name, of_whole in scores[0].items():
        shares = []
        for detections in ways:
            shares.append(
                average_precision.split_precision(true, detections, sizes, count, name).tolist()
            )
        label = METRICS[name].label if name else HALF
        gain = Interval.paired_shares(shares[1], shares[0], part.groups)
        figures.append(_make_figure(label, of_whole, scores[1][name], gain))
    # A sort keeps the order of the others.
    figures.sort(key=lambda figure: figure.name != metric)
    facts = (pick.holdout_answers or pick.answers).boxes
    threshold = facts.threshold if facts else box_matches.LEAST_SCORE
    whole, tiled = (
        box_matches.match_boxes(true, detections, sizes, count, threshold) for detections in ways
    )
    rows = box_matches.count_by_size(whole, tiled, part.groups)
    tiled_rows = box_matches.count_by_size(tiled, None, part.groups)
    side = pick.card_facts.input_size or 0
    return tuple(figures), tuple(_compare_recalls(rows, tiled_rows, side))


def _compare_recalls(
    whole: Sequence[ObjectsOfSize], tiled: Sequence[ObjectsOfSize], side: int
) -> Iterator[TiledFigure]:
    """Yield the recall of each range of sizes; ``whole`` knows how much less it has."""
    for row, other in zip(whole, tiled, strict=True):
        # What whole images lose against tiles is what tiles gain.
        gain = Interval(row.lost or 0.0, *(row.lost_interval or (0.0, 0.0)))
        yield _make_figure(
            f"recall of objects {_describe_range(row, side)}",
            Interval(row.recall, *row.recall_interval),
            Interval(other.recall, *other.recall_interval),
            gain,
        )


def _describe_range(row: ObjectsOfSize, side: int) -> str:
    """Return a range of sizes in pixels of the network's input, as it stands after a noun."""
    least, below = (round(side * end) for end in (row.least, row.below))
    if row.below >= 1:
        return f"of {least} pixels or more" if least else "of any size"
    return f"of {least} to {below} pixels" if least else f"below {below} pixels"


def _make_figure(name: str, whole: Interval, tiled: Interval, gain: Interval) -> TiledFigure:
    """Return a figure in % of shares (0-1)."""
    percents = []
    for share in (whole, tiled, gain):
        ends = (share.value, share.low, share.high)
        percents.append(Interval(*(round(100 * float(end), 2) for end in ends)))
    return TiledFigure(name, *percents)


def _show_percent(share: Interval) -> str:
    """Return a figure in % with its interval: ``78.8 % (75.0 to 82.2)``."""
    return f"{share.value:.1f} % ({share.low:.1f} to {share.high:.1f})"

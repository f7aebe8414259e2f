"""What tiles gain a detector on images of four times the area, and what they cost.

    python -m benchmarks tiling
    python -m benchmarks tiling --sets cards

Needs ../shared/data/images. A large image is a window of twice the sides of a set's images, at a random place of nine
of them, so that edges of tiles and of windows cut objects. Detectors run on the same large images of the test part.
One learns the training images as they are, as from parts that a user cuts out; one learns as many large images.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from advisor.catalog import Catalogue, fetch_weights
from advisor.datasets import InputSpec, Tiling
from advisor.datasets._tiles import load_windows
from advisor.measurement import Detections, Detector, average_precision
from advisor.tasks._on_maps import find_builder
from advisor.tasks.detection import DETECTION
from advisor.training import LabelledImages, train
from advisor.training._on_maps.changes import Objects
from benchmarks.detection import Part, parts_of
from benchmarks.tables import Row, keep, kept_of_others, percent

NAME = "tiling"
IMAGES = Path(__file__).resolve().parents[2] / "shared" / "data" / "images"
SETS = ("cards", "bccd")
CARD = "mobilenet_v2_1.0_224"
LEARNT, JUDGED = 150, 60
CELL = (480, 360)  # Width and height of an image in a large one
VISIBLE = 0.5  # Share of a box that a window must show
WAYS = (
    ("whole", None, False),
    ("2 x 2 tiles, overlap 10 %", Tiling(2, 0.1), False),
    ("2 x 2 tiles, overlap 20 %", Tiling(2, 0.2), False),
    ("2 x 2 tiles, overlap 20 %, and the whole", Tiling(2, 0.2), True),
    ("2 x 2 tiles, overlap 40 %, and the whole", Tiling(2, 0.4), True),
)

HEADER = (
    "set", "learnt from", "run on", "mAP@0.5 % (95 %)", "mAP % (95 %)", "AP-small % (95 %)", "AP-medium % (95 %)",
    "runs an image", "CPU ms an image",
)  # fmt: skip
REMARKS = (
    f"A head for boxes on {CARD} at {DETECTION.side} pixels, float32; {JUDGED} large images of the set's test part "
    f"judge, {2 * CELL[0]} x {2 * CELL[1]} pixels. One draw. A large image has four times the objects of one as it is.",
    "On cards, the detector of images as they are learnt 150 of them. There the overlap was looked at; bccd judges.",
    "AP-small and AP-medium: COCO's, of objects below 32 x 32 and from there to 96 x 96 pixels of the large image.",
    "CPU ms: of decoding, resizing, all runs of the file, and joining.",
)


def main() -> None:
    """Train both detectors for each set, run them in each way, and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sets", default=",".join(SETS), help="joined by commas")
    sets = parser.parse_args().sets.split(",")
    rows, _ = kept_of_others(NAME, sets)
    for name in sets:
        for row in rows_of(name):
            rows.append(row)
            print(keep(NAME, "Detectors on tiles of large images", HEADER, rows, REMARKS), flush=True)


def rows_of(name: str) -> Iterator[Row]:
    """Yield the rows of a set."""
    classes, parts = parts_of(IMAGES / name)
    card = Catalogue.load()[CARD].at(DETECTION.side)
    spec = InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        judged = write_large(parts.judged, JUDGED, place / "judged", 0)
        as_they_are = parts.learnt.boxed
        large = write_large(parts.learnt, LEARNT, place / "learnt", 1).boxed
        for said, images in (("images as they are", as_they_are), ("large images", large)):
            file = place / f"{said}.tflite"
            kind = DETECTION.head_of(card)
            build = find_builder(card, fetch_weights(card), kind)
            train(build, spec, images, len(classes), kind, 0, place).write(file)
            for way, tiling, with_whole in WAYS if images is as_they_are else WAYS[:1]:
                figures = judge(file, spec, judged, len(classes), tiling, with_whole)
                yield name, f"{len(images.paths)} {said}", way, *figures


def judge(
    file: Path, spec: InputSpec, judged: Part, classes: int, tiling: Tiling | None, with_whole: bool
) -> tuple[str, ...]:
    """Return the figures of a file on large images, whole or in tiles."""
    run = Detector(file, spec)
    began = time.process_time()
    found = [find_objects(run, spec, path, tiling, with_whole) for path in judged.boxed.paths]
    spent_ms = 1000 * (time.process_time() - began) / len(found)
    reached = average_precision.score_boxes(judged.true, found, judged.sizes, classes)
    areas = average_precision.score_areas(judged.true, found, judged.sizes, classes)
    by_size = [percent(areas[size]) if size in areas else "" for size in ("map-small", "map-medium")]
    runs = 1
    if tiling is not None:
        runs = len(tiling.windows) - (not with_whole)
    return percent(reached.half), percent(reached.coco), *by_size, str(runs), f"{spent_ms:.0f}"


def find_objects(run: Detector, spec: InputSpec, path: Path, tiling: Tiling | None, with_whole: bool) -> Detections:
    """Return what a detector finds in an image."""
    if tiling is None:
        return run(path)
    windows = tiling.windows
    tiles = range(len(windows)) if with_whole else range(1, len(windows))
    inputs = load_windows(path, spec.size, [windows[tile] for tile in tiles])
    answers = [run.answer_for(spec.normalise(pixels)) for pixels in inputs]
    boxes = np.concatenate(
        [tiling.place_boxes(answer.boxes, tile) for tile, answer in zip(tiles, answers, strict=True)]
    )
    labels = np.concatenate([answer.labels for answer in answers])
    scores = np.concatenate([answer.scores for answer in answers])
    numbers = np.repeat(np.array(tiles), [len(answer.scores) for answer in answers])
    chosen = tiling.choose_boxes(boxes, labels, scores, numbers)
    return Detections(boxes[chosen].astype(np.float32), labels[chosen], scores[chosen])


def write_large(part: Part, count: int, folder: Path, seed: int) -> Part:
    """Write windows of twice the sides of an image, each at a random place of nine images of a part."""
    folder.mkdir()
    draw = np.random.default_rng(seed)
    width, height = CELL
    paths = []
    labels = []
    for number in range(count):
        sheet = Image.new("RGB", (3 * width, 3 * height))
        boxes = []
        kinds = []
        for cell, row in enumerate(draw.choice(len(part.boxed.paths), 9).tolist()):
            down, across = divmod(cell, 3)
            with Image.open(part.boxed.paths[row]) as image:
                sheet.paste(image.convert("RGB").resize(CELL), (across * width, down * height))
            objects = part.boxed.labels[row]
            boxes.append((objects.boxes + np.array([down, across] * 2)) * np.array([height, width] * 2))
            kinds.append(objects.labels)
        left, top = int(draw.integers(width + 1)), int(draw.integers(height + 1))
        path = folder / f"{number:03}.png"
        sheet.crop((left, top, left + 2 * width, top + 2 * height)).save(path)
        paths.append(path)
        labels.append(cut_objects(np.concatenate(boxes), np.concatenate(kinds), (top, left)))
    true = [Detections(one.boxes, one.labels, np.ones(len(one.labels), np.float32)) for one in labels]
    return replace(part, boxed=LabelledImages(paths, labels), true=true, sizes=[(2 * height, 2 * width)] * count)


def cut_objects(boxes: np.ndarray, labels: np.ndarray, corner: tuple[int, int]) -> Objects:
    """Return the objects that a window shows well, in its shares; ``boxes`` are in pixels of the nine images."""
    sides = np.array([2 * CELL[1], 2 * CELL[0]] * 2)
    inside = (boxes - np.array([*corner, *corner])) / sides
    shown = np.clip(inside, 0.0, 1.0)
    areas, visible = ((rows[:, 2:] - rows[:, :2]).prod(axis=1) for rows in (inside, shown))
    stay = visible >= VISIBLE * areas
    return Objects(shown[stay].astype(np.float32), labels[stay])

"""How well detectors find blood cells, what compression loses, and what it costs.

    python -m benchmarks detection
    python -m benchmarks detection --cards efficientnet_lite0_224

Needs ../shared/data/images/bccd. Detectors learn from its official training and validation part, as a file that ships
does, and are judged by its official test part. Choices (the kind of head, its width, epochs, input size) were made with
the training part alone, by the validation part.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from advisor.catalog.catalogue import load_catalogue
from advisor.catalog.weights.fetching import fetch
from advisor.compression.recipes import recipe
from advisor.compression.recipes.base import RecipeInputs
from advisor.core.tasks import DETECTION, OBJECT_DETECTION
from advisor.datasets.boxes.reading import survey_boxes
from advisor.datasets.images import InputSpec
from advisor.measurement.detection import Detections, DetectionScore, Detector, score
from advisor.measurement.latency.timing import measure
from advisor.tflite.postprocess import Suppression, append_postprocess
from advisor.training.detection.changes import Objects
from advisor.training.detection.maps import Boxed
from advisor.training.detection.train import KINDS, train
from benchmarks.tables import Row, keep, kept_of_others

NAME = "detection"
FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "images" / "bccd"
CARDS = "mobilenet_v2_1.0_224,efficientnet_lite0_224,mobilenet_v1_1.0_224"
FORMS = ("float32", "float16", "dynamic_int8", "weight_int8", "int8")
CALIBRATION = 100
"""Training images that calibrate int8."""

HEADER = (
    "network", "form", "mAP@0.5 % (95 %)", "mAP %", "AP@0.5 by class %", "MB", "1 thread ms (p90)",
    "2 threads ms (p90)", "training s", "training CPU s",
)  # fmt: skip
REMARKS = (
    "72 images of the official test part, scored once by pycocotools. Interval: bootstrap over the images.",
    "Training: head alone on kept maps of the frozen backbone, on two cores; conversion included.",
    "Latency includes post-processing in the file.",
)


@dataclass(frozen=True)
class Part:
    """Images with their boxes, true boxes and sizes (height, width)."""

    boxed: Boxed
    true: list[Detections]
    sizes: list[tuple[int, int]]


def main() -> None:
    """Train each network, score and time its forms, and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cards", default=CARDS, help="networks, joined by commas")
    parser.add_argument("--side", type=int, default=DETECTION.side, help="side of the input in pixels")
    chosen = parser.parse_args()
    classes, learnt, judged = parts_of(FOLDER)
    rows: list[Row] = []
    for name in chosen.cards.split(","):
        rows += list(rows_of(name, chosen.side, classes, learnt, judged))
        others, _ = kept_of_others(NAME, [str(row[0]) for row in rows])
        text = keep(
            NAME, "Detectors of blood cells", HEADER, sorted([*others, *rows], key=lambda row: str(row[0])), REMARKS
        )
    print(text)


def parts_of(folder: Path) -> tuple[list[str], Part, Part]:
    """Return the classes, what is learnt from, and the test part."""
    read = survey_boxes(folder)
    classes = list(read.classes)
    places: dict[bool, list[int]] = {True: [], False: []}
    for place, image in enumerate(read.images.dataset.images):
        places[image.part == "holdout"].append(place)

    def part(chosen: Sequence[int]) -> Part:
        paths = [read.images.dataset.images[place].path for place in chosen]
        sizes = [(read.sizes[place][1], read.sizes[place][0]) for place in chosen]
        objects = []
        for place, (height, width) in zip(chosen, sizes, strict=True):
            edges = [
                (box.top / height, box.left / width, box.bottom / height, box.right / width)
                for box in read.boxes[place]
            ]
            labels = [classes.index(box.label) for box in read.boxes[place]]
            objects.append(Objects(np.array(edges, np.float32).reshape(-1, 4), np.array(labels, np.int64)))
        true = [Detections(one.boxes, one.labels, np.ones(len(one.labels), np.float32)) for one in objects]
        return Part(Boxed(paths, objects), true, sizes)

    return classes, part(places[False]), part(places[True])


def rows_of(name: str, side: int, classes: Sequence[str], learnt: Part, judged: Part) -> Sequence[Row]:
    """Train one network and return a row for each form."""
    card = load_catalogue().select([name])[0].at(side)
    spec = InputSpec(side, card.preprocessing.mean, card.preprocessing.std)
    with tempfile.TemporaryDirectory() as folder:
        began, cpu = time.monotonic(), time.process_time()
        trained = train(card, fetch(card), learnt.boxed, len(classes), KINDS[OBJECT_DETECTION], 0, Path(folder))
        spent = f"{time.monotonic() - began:.0f}", f"{time.process_time() - cpu:.0f}"
        step = max(1, len(learnt.boxed.paths) // CALIBRATION)
        inputs = RecipeInputs(calibration=np.stack([spec.read(path) for path in learnt.boxed.paths[::step]]))
        rows: list[Row] = []
        for form in FORMS:
            file = Path(folder) / f"{form}.tflite"
            made = recipe(form).make(trained.data, inputs).data
            file.write_bytes(append_postprocess(made, trained.anchors.boxes, Suppression()))
            run = Detector(file, spec)
            found = score(judged.true, [run(path) for path in judged.boxed.paths], judged.sizes, len(classes))
            rows.append((f"{name} at {side}", form, *shown(found, classes), *cost(file), *spent))
            print(*rows[-1], sep=" | ", flush=True)
    return rows


def shown(found: DetectionScore, classes: Sequence[str]) -> tuple[str, str, str]:
    """Return the figures of a score in %."""
    half = found.half
    by_class = [
        f"{name} {100 * value:.1f}" for name, value in zip(classes, found.by_class, strict=True) if value is not None
    ]
    interval = f"{100 * half.value:.1f} ({100 * half.low:.1f}\u2013{100 * half.high:.1f})"
    return interval, f"{100 * found.coco:.1f}", ", ".join(by_class)


def cost(file: Path) -> tuple[str, str, str]:
    """Return the size, and the latency at one and two threads."""
    timed = measure(file, (1, 2), "search").results
    times = (f"{each.wall.median:.1f} ({each.wall.p90:.1f})" for each in timed)
    return f"{file.stat().st_size / 1e6:.1f}", *times

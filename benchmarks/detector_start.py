"""Compare a start from other objects with a start from ImageNet: detectors of faults of tiles on 100 photographs.

    python -m benchmarks.detector_start --weights efficientdet_lite0.pth

Needs ../shared/data/images/tiles, and weights of EfficientDet-Lite0 in effdet's names that have seen no tile: COCO's,
or those of a training in effdet. Both networks have a backbone of EfficientNet-Lite0 at the same input, and learn from
the same images. Compare rows of about equal CPU seconds: ``--epochs`` sets how long each learns. Boxes are those around
the parts of the masks. Photographs judge that no one learnt from.
"""

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image
from scipy import ndimage

from advisor.catalog import Card, MemberFile, WeightSource, fetch_weights, load_catalogue
from advisor.datasets import InputSpec
from advisor.measurement import Detections, Detector, score_boxes
from advisor.store import sha256_file
from advisor.tasks.detection import DETECTION
from advisor.training import LabelledImages, train
from advisor.training._on_maps.changes import Objects
from benchmarks.detection import Part, shown
from benchmarks.tables import Row, keep

NAME = "detector_start"
TILES = Path(__file__).resolve().parents[2] / "shared" / "data" / "images" / "tiles"
WHOLE, BACKBONE = "efficientdet_lite0_320", "efficientnet_lite0_224"
STARTS = ("other objects", "ImageNet")
LEARNT, JUDGED = 100, 120
LEAST = 36  # Pixels of a box; smaller parts of a mask are rough edges
SEEDS = (0, 1)

HEADER = ("start", "seed", "mAP@0.5 % (95 %)", "mAP % (95 %)", "AP@0.5 by class %", "epochs", "training CPU s")
REMARKS = (
    f"Faults of magnetic tiles: {LEARNT} photographs to learn from, {JUDGED} others judge. Head alone, float32, on the "
    "maps of the same frozen backbone of EfficientNet-Lite0 at 320 pixels.",
    "A seed draws the photographs, the changes and the new weights. CPU seconds: maps, epochs and conversion.",
)


def main() -> None:
    """Train both starts for each seed, and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--weights", type=Path, required=True, help="weights of EfficientDet-Lite0 that saw no tile")
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)), help="joined by commas")
    parser.add_argument("--epochs", default="20,20", help="of the start from other objects, and of that from ImageNet")
    chosen = parser.parse_args()
    catalogue = load_catalogue()
    file = chosen.weights.resolve()
    source = WeightSource("file", "torch", "graph_file", MemberFile(str(file), sha256_file(file)))
    cards = replace(catalogue[WHOLE], weights=(source,)), catalogue[BACKBONE].at(320)
    rows: list[Row] = []
    for seed in map(int, chosen.seeds.split(",")):
        classes, learnt, judged = parts_of(TILES, seed)
        for start, card, epochs in zip(STARTS, cards, chosen.epochs.split(","), strict=True):
            rows.append(row_of(start, card, learnt, judged, classes, seed, int(epochs)))
        for row in rows[-2:]:
            print(*row, sep=" | ", flush=True)
    print(keep(NAME, "Detectors that begin with other objects", HEADER, rows, REMARKS))


def parts_of(folder: Path, seed: int) -> tuple[list[str], Part, Part]:
    """Return the classes, the images to learn from, and those that judge."""
    masks = sorted((folder / "masks").glob("*/*"))
    classes = sorted({mask.parent.name for mask in masks})
    rows = []
    for mask in masks:
        image = next((folder / "images" / mask.parent.name).glob(f"{mask.stem}.*"))
        boxes, size = boxes_of(mask)
        if len(boxes):
            rows.append((image, classes.index(mask.parent.name), boxes, size))
    order = np.random.default_rng(seed).permutation(len(rows))
    parts = (order[:LEARNT], order[LEARNT : LEARNT + JUDGED])
    learnt, judged = (part_of([rows[place] for place in places]) for places in parts)
    return classes, learnt, judged


def boxes_of(mask: Path) -> tuple[np.ndarray, tuple[int, int]]:
    """Return the boxes around the parts of a mask in shares of its sides, and its height and width."""
    table = np.asarray(Image.open(mask).convert("L")) > 127
    height, width = table.shape
    parts, _ = ndimage.label(ndimage.binary_dilation(table, iterations=3))
    boxes = []
    for rows, columns in ndimage.find_objects(parts):
        if (rows.stop - rows.start) * (columns.stop - columns.start) >= LEAST:
            boxes.append((rows.start / height, columns.start / width, rows.stop / height, columns.stop / width))
    return np.array(boxes, np.float32).reshape(-1, 4), (height, width)


def part_of(rows: list[tuple[Path, int, np.ndarray, tuple[int, int]]]) -> Part:
    """Return images with their boxes."""
    objects = [Objects(boxes, np.full(len(boxes), label, np.int64)) for _, label, boxes, _ in rows]
    true = [Detections(one.boxes, one.labels, np.ones(len(one.labels), np.float32)) for one in objects]
    return Part(LabelledImages([path for path, *_ in rows], objects), true, [size for *_, size in rows])


def row_of(start: str, card: Card, learnt: Part, judged: Part, classes: list[str], seed: int, epochs: int) -> Row:
    """Train one network, and return its row."""
    kind = DETECTION.head_of(card)
    kind = replace(kind, hyperparameters=replace(kind.hyperparameters, epochs=epochs))
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.tflite"
        train(card, fetch_weights(card), learnt.boxed, len(classes), kind, seed, Path(folder)).write(file)
        seconds = time.process_time() - began
        spec = InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)
        run = Detector(file, spec)
        boxes = [run(path) for path in judged.boxed.paths]
    figures = shown(score_boxes(judged.true, boxes, judged.sizes, len(classes)), classes)
    return start, seed, *figures, epochs, f"{seconds:.0f}"


if __name__ == "__main__":
    main()

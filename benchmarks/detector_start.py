"""Compare starts of heads for boxes on 100 photographs: heads that learnt other objects here, and new ones.

    python -m benchmarks detector_start
    python -m benchmarks detector_start --targets tiles --seeds 0 --keep build/starts
    python -m benchmarks detector_start --card efficientdet_lite0_320 --targets tiles

Needs ../shared/data/images with bccd, cards and tiles. A head learns the two sets that are not the target, on the
frozen backbone of ImageNet. As with ``advisor search --start RUN``, the layers that tell classes are then new, and all
others begin with what they learnt. Photographs that no one learnt from judge. Boxes of tiles are those around the parts
of the masks. Equal epochs are equal CPU seconds.

A whole detector (``efficientdet_lite0_320``) has no weights of ImageNet of its own. Its backbone takes those of
EfficientNet-Lite0, and its neck and head are random, each convolution scaled to what some photographs give.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy import ndimage

from advisor.catalog import Card, Catalogue, fetch_weights
from advisor.catalog._graph_file import IGNORED, graph_of
from advisor.catalog._weights.readers import read_tensors
from advisor.core import WeightsFile
from advisor.datasets import BoxSurvey, InputSpec
from advisor.engine import input_spec
from advisor.measurement import Detections, Detector, average_precision
from advisor.store import sha256_file
from advisor.tasks._on_maps import find_builder
from advisor.tasks.detection import DETECTION
from advisor.training import HeadKind, LabelledImages, TrainingStart, list_outputs, train
from advisor.training._on_maps.changes import Objects
from advisor.training._on_maps.fit import TrainableHead
from advisor.training._on_maps.train import NEW
from advisor.training._on_maps.training_start import WEIGHTS
from benchmarks.detection import Part, shown
from benchmarks.tables import Row, keep, kept_of_others

NAME = "detector_start"
IMAGES = Path(__file__).resolve().parents[2] / "shared" / "data" / "images"
SETS = ("bccd", "cards", "tiles")
TARGETS = "cards,tiles"
CARD, SIDE = "mobilenet_v2_1.0_224", 160
LEARNT, JUDGED = 100, 120
LEAST = 36  # Pixels of a box; smaller parts of a mask are rough edges
SEEDS = "0,1"
EPOCHS = 16  # Of the training on other objects
NEW_HEAD = "a new head"
BACKBONE_CARD = "efficientnet_lite0_224"
FILE, SECONDS = "model.tflite", "seconds.txt"
SETTLED = 32  # Photographs by which a random neck and head are scaled

HEADER = (
    "target", "network", "seed", "start", "mAP@0.5 % (95 %)", "mAP % (95 %)", "mAP@0.5 % of boxes without classes",
    "AP@0.5 by class %", "training CPU s",
)  # fmt: skip
REMARKS = (
    f"{LEARNT} photographs of the target to learn from, 20 epochs. The seed draws them, their changes and the new "
    f"weights. {JUDGED} others judge, of cards and BCCD those of the training parts. Head alone, float32.",
    "CPU seconds: maps, epochs and conversion. A start that learnt other objects names its sets, and its CPU seconds.",
    "Boxes without classes: all true and found ones count as one class.",
)


Begin = Callable[[Any, int], tuple[Any, TrainableHead]]


@dataclass(frozen=True)
class Set:
    """Images with boxes: a row is a path, its objects, and its height and width."""

    classes: list[str]
    rows: list[tuple[Path, Objects, tuple[int, int]]]

    def part(self, places: Sequence[int]) -> Part:
        """Return some of the images."""
        rows = [self.rows[place] for place in places]
        objects = [row[1] for row in rows]
        true = [Detections(one.boxes, one.labels, np.ones(len(one.labels), np.float32)) for one in objects]
        return Part(LabelledImages([row[0] for row in rows], objects), true, [row[2] for row in rows])


def main() -> None:
    """Train on the other sets, then with both starts on each target, and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--targets", default=TARGETS, help=f"of {', '.join(SETS)}, joined by commas")
    parser.add_argument("--seeds", default=SEEDS, help="joined by commas")
    parser.add_argument("--card", default=CARD, help="network; whole detectors keep the side of their input")
    parser.add_argument("--side", type=int, default=SIDE, help="side of the input in pixels")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="of the training on other objects")
    parser.add_argument("--keep", type=Path, help="folder of networks that learnt other objects, to use them again")
    chosen = parser.parse_args()
    card = Catalogue.load()[chosen.card].at(chosen.side)
    rows, _ = kept_of_others(NAME, [])
    with tempfile.TemporaryDirectory() as folder:
        for target in chosen.targets.split(","):
            names = [name for name in SETS if name != target]
            other = learn_others(card, names, chosen.epochs, chosen.keep or Path(folder))
            images = read_set(target)
            for seed in map(int, chosen.seeds.split(",")):
                new = rows_of(card, target, images, seed, other)
                cells = [list(row[:4]) for row in new]
                rows = [row for row in rows if list(row[:4]) not in cells] + new
                text = keep(
                    NAME,
                    "Heads for boxes that begin with other objects",
                    HEADER,
                    sorted(rows, key=lambda row: list(map(str, row[:4]))),
                    REMARKS,
                )
    print(text)


def read_set(name: str, tests: bool = False) -> Set:
    """Return the images of a set, with those of its official test part or without."""
    if name == "tiles":
        return read_tiles()
    read = BoxSurvey.read_images(IMAGES / name)
    classes = list(read.classes)
    rows = []
    for image, boxes, (width, height) in zip(read.images.dataset.images, read.boxes, read.sizes, strict=True):
        if image.part == "holdout" and not tests:
            continue
        edges = [(box.top / height, box.left / width, box.bottom / height, box.right / width) for box in boxes]
        labels = np.array([classes.index(box.label) for box in boxes], np.int64)
        rows.append((image.path, Objects(np.array(edges, np.float32).reshape(-1, 4), labels), (height, width)))
    return Set(classes, rows)


def read_tiles() -> Set:
    """Return the tiles that have a fault."""
    folder = IMAGES / "tiles"
    masks = sorted((folder / "masks").glob("*/*"))
    classes = sorted({mask.parent.name for mask in masks})
    rows = []
    for mask in masks:
        image = next((folder / "images" / mask.parent.name).glob(f"{mask.stem}.*"))
        boxes, size = boxes_of(mask)
        if len(boxes):
            labels = np.full(len(boxes), classes.index(mask.parent.name), np.int64)
            rows.append((image, Objects(boxes, labels), size))
    return Set(classes, rows)


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


def join_sets(names: Sequence[str]) -> Set:
    """Return all images of several sets, with the classes of all."""
    joined = Set([], [])
    for name in names:
        images = read_set(name, tests=True)
        first = len(joined.classes)
        joined.classes.extend(f"{name}: {label}" for label in images.classes)
        joined.rows.extend((path, replace(one, labels=one.labels + first), size) for path, one, size in images.rows)
    return joined


def learn_others(card: Card, names: Sequence[str], epochs: int, keep_in: Path) -> Path:
    """Return the folder of a head that has learnt some sets."""
    folder = keep_in / f"{card.name}-{card.input_size}-{'-'.join(names)}"
    if (folder / SECONDS).is_file():
        return folder
    images = join_sets(names)
    kind = DETECTION.head_of(card)
    kind = replace(kind, hyperparameters=replace(kind.hyperparameters, epochs=epochs))
    if card.whole:
        spec = InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)
        pixels = np.stack([spec.read(row[0]) for row in images.rows[:: len(images.rows) // SETTLED]])
        kind = replace(kind, begin=begin_scaled(pixels, kind))
    folder.mkdir(parents=True, exist_ok=True)
    seconds = learn(card, images.part(range(len(images.rows))), images.classes, kind, 0, folder / FILE)
    (folder / SECONDS).write_text(f"{seconds:.0f}", encoding="utf-8")
    return folder


def learn(
    card: Card, part: Part, classes: Sequence[str], kind: HeadKind, seed: int, file: Path, start: TrainingStart = NEW
) -> float:
    """Train a head, write it, and return the CPU seconds."""
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        weights = join_backbone(card, Path(folder)) if card.whole else fetch_weights(card)
        build = find_builder(card, weights, kind)
        train(build, input_spec(card), part.boxed, len(classes), kind, seed, Path(folder), start).write(file)
    return time.process_time() - began


def rows_of(card: Card, target: str, images: Set, seed: int, other: Path) -> list[Row]:
    """Return the rows of both starts on a target."""
    order = np.random.default_rng(seed).permutation(len(images.rows)).tolist()
    learnt, judged = images.part(order[:LEARNT]), images.part(order[LEARNT : LEARNT + JUDGED])
    starts = {NEW_HEAD: NEW, f"{other.name} ({(other / SECONDS).read_text()} CPU s)": start_of(other)}
    rows: list[Row] = []
    for name, start in starts.items():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / FILE
            seconds = learn(card, learnt, images.classes, DETECTION.head_of(card), seed, file, start)
            figures = figures_of(card, file, judged, images.classes)
        rows.append((target, f"{card.name} at {card.input_size}", str(seed), name, *figures, f"{seconds:.0f}"))
        print(*rows[-1], sep=" | ", flush=True)
    return rows


def start_of(folder: Path) -> TrainingStart:
    """Return a start from a head that learnt other objects."""
    return TrainingStart(head_of_others=folder / WEIGHTS[0])


def figures_of(card: Card, file: Path, judged: Part, classes: Sequence[str]) -> tuple[str, str, str, str]:
    """Return the figures of a file on images that no one learnt from, and mAP@0.5 if all classes are one."""
    run = Detector(file, InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std))
    boxes = [run(path) for path in judged.boxed.paths]
    half, coco, by_class = shown(average_precision.score_boxes(judged.true, boxes, judged.sizes, len(classes)), classes)
    true, found = ([replace(one, labels=0 * one.labels) for one in of_images] for of_images in (judged.true, boxes))
    return half, coco, shown(average_precision.score_boxes(true, found, judged.sizes, 1), ["object"])[0], by_class


def join_backbone(card: Card, folder: Path) -> WeightsFile:
    """Write weights of EfficientDet-Lite0 with a backbone of ImageNet; neck and head are random."""
    tensors = graph_of(card).draw_tensors()
    plain = fetch_weights(Catalogue.load()[BACKBONE_CARD])
    # Both files name the layers in the order of the computation.
    known = [values for name, values in read_tensors(plain.format, plain.path).items() if not name.endswith(IGNORED)]
    names = [name for name in tensors if name.startswith("backbone.")]
    for name, values in zip(names, known[: len(names)], strict=True):
        assert tensors[name].shape == values.shape, name
        tensors[name] = values
    header: dict[str, object] = {}
    place = 0
    for name, values in tensors.items():
        size = 4 * values.size
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": (place, place + size)}
        place += size
    said = json.dumps(header).encode()
    file = folder / "whole.safetensors"
    content = b"".join(values.astype("<f4").tobytes() for values in tensors.values())
    file.write_bytes(len(said).to_bytes(8, "little") + said + content)
    return WeightsFile(file, sha256_file(file), NAME, "", "safetensors", "graph_file")


def begin_scaled(pixels: np.ndarray, kind: HeadKind) -> Begin:
    """Return what begins with a random neck and head whose convolutions have outputs of mean 0 and deviation 1."""

    def begin(detector: Any, classes: int) -> tuple[Any, TrainableHead]:
        maps, head = kind.divide(lambda: detector, classes, int(np.random.randint(2**31)))
        telling = set(map(id, head.telling))

        def scaled(layer: Any) -> Any:
            def call(*inputs: Any, **options: Any) -> Any:
                outputs = layer(*inputs, **options)
                if type(layer).__name__ != "Conv2D" or id(layer.kernel) in telling:
                    return outputs
                kernel, bias = layer.get_weights()
                mean, spread = np.mean(outputs, axis=(0, 1, 2)), np.std(outputs, axis=(0, 1, 2)) + 1e-3
                layer.set_weights([kernel / spread, (bias - mean) / spread])
                return (outputs - mean) / spread

            return call

        head.model._run_through_graph(list_outputs(maps(pixels)), operation_fn=scaled)
        return maps, head

    return begin


if __name__ == "__main__":
    main()

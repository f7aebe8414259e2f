"""Compare starts of detectors on 100 photographs: networks that learnt other objects here, and those of ImageNet.

    python -m benchmarks detector_start
    python -m benchmarks detector_start --targets tiles --seeds 0 --keep build/starts
    python -m benchmarks detector_start --card efficientdet_lite0_320 --targets tiles

Needs ../shared/data/images with bccd, cards and tiles. A network learns the two sets that are not the target: the head,
then all layers. Its backbone, neck and head then start on 100 photographs of the target; the layers that tell classes
are new. Photographs that no one learnt from judge. Boxes of tiles are those around the parts of the masks.

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

from advisor.catalog import Card, fetch_weights, load_catalogue
from advisor.catalog._graph_file import IGNORED, graph_of
from advisor.catalog._weights.readers import read_tensors
from advisor.core import WeightsFile
from advisor.datasets import InputSpec, survey_boxes
from advisor.measurement import Detections, Detector, score_boxes
from advisor.store import sha256_file
from advisor.tasks.detection import DETECTION
from advisor.training import HeadKind, LabelledImages, TrainingStart, list_outputs, train
from advisor.training._on_maps.changes import Objects
from advisor.training._on_maps.fit import TrainableHead
from advisor.training._on_maps.train import NEW
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
HEAD_EPOCHS, ALL_EPOCHS = 30, 16  # Of the training on other objects
IMAGENET, OTHERS = "ImageNet", "other objects"
BACKBONE_CARD = "efficientnet_lite0_224"
LEARNS = ("head", "then all layers")
FILE, BACKBONE, CLASSES = "model.tflite", "backbone.npz", "classes.txt"
SETTLED = 32  # Photographs by which a random neck and head are scaled

HEADER = (
    "target", "start", "network", "seed", "learns", "mAP@0.5 % (95 %)", "mAP % (95 %)", "AP@0.5 by class %",
    "training CPU s",
)  # fmt: skip
REMARKS = (
    f"{LEARNT} photographs of the target to learn from, drawn by the seed, which also draws the changes and the new "
    f"weights; {JUDGED} others judge, of cards those of its training part. float32.",
    "CPU seconds: maps or pixels, epochs and conversion, of all trainings up to the file. Other objects: those of the "
    "two other sets.",
)


Begin = Callable[[Card, WeightsFile | None, int], tuple[Any, TrainableHead]]


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
    """Train on the other sets, then from both starts on each target, and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--targets", default=TARGETS, help=f"of {', '.join(SETS)}, joined by commas")
    parser.add_argument("--seeds", default=SEEDS, help="joined by commas")
    parser.add_argument("--card", default=CARD, help="network; whole detectors keep the side of their input")
    parser.add_argument("--side", type=int, default=SIDE, help="side of the input in pixels")
    parser.add_argument("--keep", type=Path, help="folder of networks that learnt other objects, to use them again")
    chosen = parser.parse_args()
    card = load_catalogue()[chosen.card].at(chosen.side)
    rows, _ = kept_of_others(NAME, [])
    with tempfile.TemporaryDirectory() as folder:
        keep_in = chosen.keep or Path(folder)
        for target in chosen.targets.split(","):
            other = learn_others(card, [name for name in SETS if name != target], keep_in)
            images = read_set(target)
            for seed in map(int, chosen.seeds.split(",")):
                new = rows_of(card, target, images, seed, other)
                rows = [row for row in rows if row[:4] not in [row[:4] for row in new]] + new
                text = keep(NAME, "Detectors that begin with other objects", HEADER, sorted(rows), REMARKS)
    print(text)


def read_set(name: str, tests: bool = False) -> Set:
    """Return the images of a set, with those of its official test part or without."""
    if name == "tiles":
        return read_tiles()
    read = survey_boxes(IMAGES / name)
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


def learn_others(card: Card, names: Sequence[str], keep_in: Path) -> Path:
    """Return the folder of a network that has learnt some sets: the head, then all layers."""
    folder = keep_in / f"{card.name}-{card.input_size}-{'-'.join(names)}"
    if (folder / BACKBONE).is_file():
        return folder
    images = join_sets(names)
    part = images.part(range(len(images.rows)))
    kind = DETECTION.head_of(card)
    kind = replace(
        kind,
        hyperparameters=replace(kind.hyperparameters, epochs=HEAD_EPOCHS),
        finetuning_all=replace(kind.choose_hyperparameters(1.0), epochs=ALL_EPOCHS),
    )
    if card.whole:
        spec = InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)
        pixels = np.stack([spec.read(row[0]) for row in images.rows[:: len(images.rows) // SETTLED]])
        kind = replace(kind, begin=begin_scaled(pixels, kind))
    head = folder / "head"
    head.mkdir(parents=True, exist_ok=True)
    learn(card, part, images.classes, kind, 0, head / FILE)
    learn(card, part, images.classes, kind, 0, folder / FILE, TrainingStart(head / FILE, 1.0))
    (folder / CLASSES).write_text("\n".join(images.classes), encoding="utf-8")
    return folder


def learn(
    card: Card, part: Part, classes: Sequence[str], kind: HeadKind, seed: int, file: Path, start: TrainingStart = NEW
) -> float:
    """Train a network, write it, and return the CPU seconds."""
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        weights = join_backbone(card, Path(folder)) if card.whole else fetch_weights(card)
        train(card, weights, part.boxed, len(classes), kind, seed, Path(folder), start).write(file)
    return time.process_time() - began


def rows_of(card: Card, target: str, images: Set, seed: int, other: Path) -> list[Row]:
    """Return the rows of both starts on a target."""
    order = np.random.default_rng(seed).permutation(len(images.rows))
    learnt, judged = images.part(order[:LEARNT]), images.part(order[LEARNT : LEARNT + JUDGED])
    kind = DETECTION.head_of(card)
    # The start that a whole detector is compared with is that of its backbone, see --card.
    starts = {} if card.whole else {IMAGENET: kind}
    starts[OTHERS] = replace(kind, begin=begin_from(other, kind))
    rows: list[Row] = []
    for start, of_start in starts.items():
        spent = 0.0
        with tempfile.TemporaryDirectory() as folder:
            files = Path(folder) / "head" / FILE, Path(folder) / "all" / FILE
            for learns, file, begins in zip(LEARNS, files, (NEW, TrainingStart(files[0], 1.0)), strict=True):
                file.parent.mkdir()
                spent += learn(card, learnt, images.classes, of_start, seed, file, begins)
                figures = figures_of(card, file, judged, images.classes)
                rows.append((target, start, network_of(card), str(seed), learns, *figures, f"{spent:.0f}"))
                print(*rows[-1], sep=" | ", flush=True)
    return rows


def network_of(card: Card) -> str:
    """Return the name of a network with the side of its input."""
    return f"{card.name} at {card.input_size}"


def figures_of(card: Card, file: Path, judged: Part, classes: Sequence[str]) -> tuple[str, str, str]:
    """Return the figures of a file on images that no one learnt from."""
    run = Detector(file, InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std))
    boxes = [run(path) for path in judged.boxed.paths]
    return shown(score_boxes(judged.true, boxes, judged.sizes, len(classes)), classes)


def begin_from(folder: Path, kind: HeadKind) -> Begin:
    """Return what begins with a network that learnt other objects; the layers that tell classes are new."""

    def begin(card: Card, weights: WeightsFile | None, classes: int) -> tuple[Any, TrainableHead]:
        # The seed of the training has seeded NumPy.
        maps, head = kind.divide(card, weights, classes, int(np.random.randint(2**31)))
        of_head, of_backbone = TrainingStart(folder / FILE).weights()
        maps.set_weights(of_backbone)
        new = {id(weight) for layer in class_layers(head.model) for weight in layer.weights}
        for weight, values in zip(head.model.weights, of_head, strict=True):
            if id(weight) not in new:
                weight.assign(values)
        return maps, head

    return begin


def class_layers(model: Any) -> list[Any]:
    """Return the convolutions that give the logits of a head for boxes."""
    layers = []
    tensors = [model.outputs[0]]
    while tensors:
        layer = tensors.pop()._keras_history.operation
        if type(layer).__name__ == "Conv2D":
            layers.append(layer)
        else:
            tensors += layer.input if isinstance(layer.input, list) else [layer.input]
    return layers


def join_backbone(card: Card, folder: Path) -> WeightsFile:
    """Write weights of EfficientDet-Lite0 with a backbone of ImageNet; neck and head are random."""
    tensors = graph_of(card).draw_tensors()
    plain = fetch_weights(load_catalogue()[BACKBONE_CARD])
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

    def begin(card: Card, weights: WeightsFile | None, classes: int) -> tuple[Any, TrainableHead]:
        maps, head = kind.divide(card, weights, classes, int(np.random.randint(2**31)))
        new = set(map(id, class_layers(head.model)))

        def scaled(layer: Any) -> Any:
            def call(*inputs: Any, **options: Any) -> Any:
                outputs = layer(*inputs, **options)
                if type(layer).__name__ != "Conv2D" or id(layer) in new:
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

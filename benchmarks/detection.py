"""How well detectors find blood cells, what compression loses, and what it costs.

    python -m benchmarks detection
    python -m benchmarks detection --cards efficientnet_lite0_224
    python -m benchmarks detection --training finetune_top --cards mobilenet_v2_1.0_224
    python -m benchmarks detection --training finetune_all --cards mobilenet_v2_1.0_224
    python -m benchmarks detection --task object-counting --cards mobilenet_v2_1.0_224

Needs ../shared/data/images/bccd. Detectors learn as in a search: from its official training part, and what ships goes
on with the validation part too. The official test part judges them. Choices (the kind of head, its width, epochs, input
size) were made with the training part alone, by the validation part.

The last column compares the training with plain Keras: the same images, changes, head, loss and frozen layers, but the
backbone runs in every step, and Keras' own layers normalize the batches.
"""

import argparse
import tempfile
import time
import unittest.mock
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from advisor.catalog import Card, Catalogue, build_model, fetch_weights
from advisor.compression import RecipeInputs, recipe
from advisor.core import TrainingName, recipe_of
from advisor.datasets import BoxSurvey, InputSpec, load
from advisor.measurement import CentreFinder, Detections, Detector, average_precision, box_matches, measure
from advisor.measurement._average_precision import DetectionScore
from advisor.measurement._box_matches import centre_score
from advisor.tasks._counting import COUNTING
from advisor.tasks._on_maps import find_builder
from advisor.tasks.detection import DETECTION
from advisor.tflite import split_postprocess
from advisor.training import HeadKind, Hyperparameters, LabelledImages, TrainingStart, _on_maps as on_maps, train
from advisor.training._finetune.network import freeze_layers
from advisor.training._on_maps import with_maps
from advisor.training._on_maps.changes import Objects, RandomChanges, change_image
from advisor.training._on_maps.train import NEW
from benchmarks.tables import Row, keep, kept_of_others, percent

HEADS = {task.name: task for task in (DETECTION, COUNTING)}

NAME = "detection"
FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "images" / "bccd"
CARDS = "mobilenet_v2_1.0_224,efficientnet_lite0_224,mobilenet_v1_1.0_224"
FORMS = ("float32", "float16", "dynamic_int8", "weight_int8", "int8")
CALIBRATION = 100
"""Training images that calibrate int8."""

HEADER = (
    "network", "form", "mAP@0.5 % (95 %)", "mAP % (95 %)", "AP@0.5 by class %", "MB", "1 thread ms (p90)",
    "2 threads ms (p90)", "training s", "training CPU s", "images/s (plain Keras)",
)  # fmt: skip
COUNTING_HEADER = (
    "network", "form", "F1 % (95 %)", "F1 by class %", "found of true objects", "MB", "1 thread ms (p90)",
    "2 threads ms (p90)", "training s", "training CPU s", "images/s (plain Keras)",
)  # fmt: skip
TRAINING_REMARK = (
    "Training: of the network that is compared, and of the one that ships, which goes on from it; on two cores, maps "
    "and conversion included. With fine-tuning, the time after the compared head's training. Images a second: of all "
    "epochs over this time; in brackets the same in plain Keras, where the backbone runs in each step."
)
REMARKS = (
    "72 images of BCCD's official test part, scored once by pycocotools. Interval: bootstrap over the images.",
    TRAINING_REMARK,
    "Latency includes post-processing in the file. All times of finetune_all were taken beside other work, on a slower "
    "machine. Other rows are older: they learnt once, from training and validation part.",
)
COUNTING_REMARKS = (
    "72 images of BCCD's official test part. F1 of centres inside boxes, at a score of one half; mean over classes.",
    TRAINING_REMARK,
)
PLAIN_STEPS = 6
"""Steps of plain Keras that are timed, after two others."""


@dataclass(frozen=True)
class Part:
    """Images with their boxes, true boxes and sizes (height, width)."""

    boxed: LabelledImages
    true: list[Detections]
    sizes: list[tuple[int, int]]


def main() -> None:
    """Train each network, score and time its forms, and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cards", default=CARDS, help="networks, joined by commas")
    parser.add_argument("--task", default=DETECTION.name, choices=sorted(HEADS), help="what the head finds")
    parser.add_argument(
        "--training", default=TrainingName.HEAD, choices=DETECTION.trainings, help="what learns: the head, or more"
    )
    parser.add_argument("--side", type=int, default=DETECTION.side, help="side of the input in pixels")
    chosen = parser.parse_args()
    classes, parts = parts_of(FOLDER)
    rows: list[Row] = []
    name, title, header, remarks = {
        DETECTION.name: (NAME, "Detectors of blood cells", HEADER, REMARKS),
        COUNTING.name: ("counting", "Counting blood cells", COUNTING_HEADER, COUNTING_REMARKS),
    }[chosen.task]
    for card in chosen.cards.split(","):
        rows += list(rows_of(card, chosen.side, classes, parts, chosen.task, chosen.training))
        others, _ = kept_of_others(name, [str(row[0]) for row in rows])
        text = keep(name, title, header, sorted([*others, *rows], key=lambda row: str(row[0])), remarks)
    print(text)


class Parts(NamedTuple):
    """What the compared network learns from, what the one that ships learns from, and what judges it."""

    train: Part
    learnt: Part
    judged: Part


def parts_of(folder: Path) -> tuple[list[str], Parts]:
    """Return the classes and the parts."""
    read = BoxSurvey.read_images(folder)
    classes = list(read.classes)
    names = np.array([image.part for image in read.images.dataset.images])
    places = (np.flatnonzero(which).tolist() for which in (names == "train", names != "holdout", names == "holdout"))

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
        return Part(LabelledImages(paths, objects), true, sizes)

    return classes, Parts(*map(part, places))


def rows_of(name: str, side: int, classes: Sequence[str], parts: Parts, task: str, training: str) -> Sequence[Row]:
    """Train one network and return a row for each form."""
    card = Catalogue.load().select([name])[0].at(side)
    spec, kind = InputSpec(side, card.preprocessing.mean, card.preprocessing.std), HEADS[task].head
    layers = recipe_of(training).layers
    title = f"{name} at {side}" if training == TrainingName.HEAD else f"{name} at {side}, {training}"
    train_images, learnt, judged = parts.train.boxed, parts.learnt.boxed, parts.judged
    own = kind.choose_hyperparameters(layers) if layers else kind.hyperparameters
    with tempfile.TemporaryDirectory() as folder:

        def made(what: str, images: LabelledImages, start: TrainingStart = NEW) -> Path:
            path = Path(folder) / what / "model.tflite"
            path.parent.mkdir()
            build = find_builder(card, fetch_weights(card), kind)
            train(build, spec, images, len(classes), kind, 0, path.parent, start).write(path)
            return path

        began, cpu = time.monotonic(), time.process_time()
        compared = made("head", train_images)
        if layers:
            began, cpu = time.monotonic(), time.process_time()
            compared = made("tuned", train_images, TrainingStart(compared, layers))
        ships = made("ships", learnt, TrainingStart(compared, layers, goes_on=True))
        seconds = time.monotonic() - began
        spent = f"{seconds:.0f}", f"{time.process_time() - cpu:.0f}"
        shown_images = own.epochs * len(train_images.paths) + own.going_on().epochs * len(learnt.paths)
        plain = plain_keras(card, learnt, len(classes), kind, layers)
        raw, process = split_postprocess(ships.read_bytes())
        step = max(1, len(learnt.paths) // CALIBRATION)
        inputs = RecipeInputs(calibration=np.stack([spec.read(path) for path in learnt.paths[::step]]))
        rows: list[Row] = []
        for form in FORMS:
            file, made = Path(folder) / f"{form}.tflite", recipe(form).make(raw, inputs).data
            file.write_bytes(process.put_back(made) if process else made)
            if process:
                figures = found(Detector(file, spec), judged, classes)
            else:
                figures = counted(CentreFinder(file, spec), judged, classes)
            rows.append((title, form, *figures, *cost(file), *spent, f"{shown_images / seconds:.1f} ({plain:.1f})"))
            print(*rows[-1], sep=" | ", flush=True)
    return rows


def plain_keras(card: Card, boxed: LabelledImages, classes: int, kind: HeadKind, share: float) -> float:
    """Return the images a second of plain Keras: AdamW on the same head and loss, and on a share of the backbone."""
    import keras
    import tensorflow as tf

    model = build_model(card, fetch_weights(card))
    maps = with_maps(keras.Model(model.inputs[0], model.output["features"]), kind.coarsest)
    freeze_layers(maps, share)
    shapes, side = [tuple(output.shape[1:]) for output in maps.outputs], card.input_size
    with unittest.mock.patch.object(on_maps, "_batch_norm", return_value=keras.layers.BatchNormalization):
        head = kind.make_head(shapes, classes)
    image = keras.Input((side, side, 3))
    whole = keras.Model(image, head.model(maps(image)))
    optimizer = keras.optimizers.AdamW(1e-3)
    spec, draw = InputSpec(side, card.preprocessing.mean, card.preprocessing.std), np.random.default_rng(0)

    @tf.function
    def step(images: tf.Tensor, targets: tuple[tf.Tensor, ...]) -> None:
        with tf.GradientTape() as tape:
            outputs = whole(images, training=True)
            loss = head.loss(outputs if isinstance(outputs, list) else [outputs], targets)
        weights = whole.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, [one.value for one in weights]), weights, strict=True))

    for number in range(2 + PLAIN_STEPS):
        if number == 2:
            began = time.monotonic()
        rows = draw.integers(0, len(boxed.paths), Hyperparameters.batch)
        pairs = [change_image(load(boxed.paths[row], side), boxed.labels[row], RandomChanges(), draw) for row in rows]
        targets = [head.target(objects) for _, objects in pairs]
        images = np.stack([spec.normalise(pixels) for pixels, _ in pairs])
        step(tf.constant(images), tuple(tf.constant(np.stack(part)) for part in zip(*targets, strict=True)))
    speed = Hyperparameters.batch * PLAIN_STEPS / (time.monotonic() - began)
    keras.backend.clear_session()
    return speed


def found(run: Detector, judged: Part, classes: Sequence[str]) -> tuple[str, str, str]:
    """Return the figures of a file that finds boxes."""
    return shown(
        average_precision.score_boxes(
            judged.true, [run(path) for path in judged.boxed.paths], judged.sizes, len(classes)
        ),
        classes,
    )


def counted(run: CentreFinder, judged: Part, classes: Sequence[str]) -> tuple[str, str, str]:
    """Return the figures of a file that marks centres."""
    matched = box_matches.match_centres(judged.true, [run(path) for path in judged.boxed.paths])
    reached, table = (
        centre_score(matched, len(classes)),
        box_matches.count_boxes(matched, len(classes)).sum(axis=0).tolist(),
    )
    mean = reached.mean
    by_class = [f"{name} {100 * (value or 0):.1f}" for name, value in zip(classes, reached.by_class, strict=True)]
    numbers = [f"{name} {marks} of {true}" for name, (true, marks, _) in zip(classes, table, strict=True)]
    return percent(mean), ", ".join(by_class), ", ".join(numbers)


def shown(found: DetectionScore, classes: Sequence[str]) -> tuple[str, str, str]:
    """Return the figures of a score in %."""
    by_class = [
        f"{name} {100 * value:.1f}" for name, value in zip(classes, found.by_class, strict=True) if value is not None
    ]
    return percent(found.half), percent(found.coco), ", ".join(by_class)


def cost(file: Path) -> tuple[str, str, str]:
    """Return the size, and the latency at one and two threads."""
    timed = measure(file, (1, 2), "search").results
    times = (f"{each.wall.median:.1f} ({each.wall.p90:.1f})" for each in timed)
    return f"{file.stat().st_size / 1e6:.1f}", *times

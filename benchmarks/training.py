"""Features and head, and steps of fine-tuning, against what a user would write in Keras; one run, the same cores.

Both ways read the same JPEG files. A row is the median of alternating turns, so that what else the machine does meets
both alike; CPU seconds stand beside wall seconds, as they hardly depend on it.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from advisor.datasets import InputSpec
from benchmarks.tables import Row, keep

TRASHNET = Path(__file__).resolve().parents[2] / "shared" / "data" / "images" / "trashnet"
CARD = "mobilenet_v2_1.0_224"
IMAGES = int(os.environ.get("BENCHMARK_PICTURES", "400"))
TURNS = 3
STEPS = 6
BATCH = 32
HEAD_EPOCHS = 20


def main() -> None:
    """Measure and keep the table."""
    paths, labels = _images()
    with tempfile.TemporaryDirectory() as name:
        rows = [*_features_and_head(paths, labels, Path(name)), *_steps(paths, labels, Path(name))]
    header = ("what", "wall", "CPU", "against Keras by wall", "by CPU", "to reach")
    remarks = [
        f"{len(paths)} pictures of TrashNet, {CARD}, {os.cpu_count()} cores, median of {TURNS} alternating turns"
    ]
    remarks.append(
        "model.fit runs BatchNorm in training mode, fine-tuning here on its kept statistics: the same layers, less work"
    )
    print(keep("training", "Training against plain Keras", header, rows, remarks))


def _images() -> tuple[list[Path], list[int]]:
    found = sorted(TRASHNET.glob("*/*.jpg"))
    classes = sorted({path.parent.name for path in found})
    chosen = [found[index] for index in np.random.default_rng(0).permutation(len(found))[:IMAGES]]
    return chosen, [classes.index(path.parent.name) for path in chosen]


def _features_and_head(paths: list[Path], labels: list[int], folder: Path) -> list[Row]:
    from advisor.catalog import Catalogue, convert, fetch_weights
    from advisor.tflite import select_output, with_levels
    from advisor.training import extract_features, train_head

    card = Catalogue.load().select([CARD])[0]
    master, backbone = folder / "master.tflite", folder / "backbone.tflite"
    convert(card, fetch_weights(card), master)
    backbone.write_bytes(with_levels(select_output(master.read_bytes(), "features")))
    cores, view = os.cpu_count() or 1, InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)

    def ours() -> None:
        parts = [paths[core::cores] for core in range(cores)]
        with ThreadPoolExecutor(cores) as pool:
            found = pool.map(lambda part: extract_features(backbone, part, view), parts)
            features = np.concatenate(list(found))
        order = [label for core in range(cores) for label in labels[core::cores]]
        train_head(features, order, max(labels) + 1, 0)

    plain = _keras_features_and_head(card, paths, labels)
    pair = _alternate(plain, ours)
    return _compared("features and head of a set", pair, "3.0x", len(paths), "pictures/s")


def _keras_features_and_head(card: Any, paths: list[Path], labels: list[int]) -> Callable[[], None]:
    import keras
    import tensorflow as tf

    from advisor.catalog import build_model, fetch_weights

    built = build_model(card, fetch_weights(card))
    size = card.input_size
    backbone = keras.models.clone_model(
        keras.Model(built.inputs[0], built.get_layer("features").output), input_tensors=keras.Input((size, size, 3))
    )

    def read(path: Any) -> Any:
        photo = tf.image.decode_jpeg(tf.io.read_file(path), channels=3)
        return tf.image.resize(photo, (size, size)) / 127.5 - 1.0

    def run() -> None:
        images = tf.data.Dataset.from_tensor_slices([str(path) for path in paths])
        features = backbone.predict(images.map(read, tf.data.AUTOTUNE).batch(BATCH).prefetch(2), verbose=0)
        head = keras.Sequential([keras.layers.Dense(max(labels) + 1, activation="softmax")])
        head.compile("adam", "sparse_categorical_crossentropy")
        head.fit(features, np.array(labels), epochs=HEAD_EPOCHS, batch_size=BATCH, verbose=0)

    return run


def _steps(paths: list[Path], labels: list[int], folder: Path) -> list[Row]:
    """Compare steps of fine-tuning with those of ``model.fit``, all layers learning, at the model's own side."""
    import keras

    from advisor.catalog import Catalogue, build_model
    from advisor.training import Finetuning
    from advisor.training._batches import Batches
    from advisor.training._finetune import network
    from advisor.training._finetune.network import Start
    from advisor.training._finetune.optimizer import Optimizer

    card = Catalogue.load().select([CARD])[0]
    built = build_model(card, None)
    backbone = keras.Model(built.inputs[0], built.get_layer("features").output)
    width, classes = int(backbone.outputs[0].shape[-1]), max(labels) + 1
    kernel = np.zeros((width, classes), np.float32)
    start = Start(kernel, np.zeros(classes, np.float32), np.zeros(width, np.float32), np.ones(width, np.float32))
    batches = Batches(paths, labels, card.input_size, folder / "pictures.npy")
    shown = np.arange(STEPS * BATCH) % len(paths)
    view = InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)
    model, fitted = (network.build_network(backbone, start, view, 1.0) for _ in range(2))
    step = Optimizer(model, Finetuning(batch=BATCH), len(shown))
    weights = np.ones(BATCH, np.float32)

    def ours() -> None:
        for place, (images, targets) in enumerate(batches.epoch(shown, BATCH)):
            step.run(images, targets, weights, (0, place), card.input_size)

    fitted.compile(keras.optimizers.AdamW(1e-4), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    pixels, targets = next(batches.epoch(shown, len(shown)))

    def plain() -> None:
        fitted.fit(pixels, targets, batch_size=BATCH, epochs=1, verbose=0)

    return _compared("steps of fine-tuning", _alternate(plain, ours), "0.90x", STEPS, "steps/s")


def _alternate(plain: Callable[[], None], ours: Callable[[], None]) -> tuple[tuple[float, float], ...]:
    """Run both once to warm up, then in turns; return the median wall and CPU seconds of each."""
    spent: tuple[list[tuple[float, float]], ...] = ([], [])
    for turn in range(TURNS + 1):
        for work, kept in zip((plain, ours), spent, strict=True):
            wall, cpu = time.monotonic(), time.process_time()
            work()
            if turn:
                kept.append((time.monotonic() - wall, time.process_time() - cpu))
    return tuple(
        (statistics.median(wall for wall, _ in kept), statistics.median(cpu for _, cpu in kept)) for kept in spent
    )


def _compared(what: str, pair: tuple[tuple[float, float], ...], goal: str, count: int, unit: str) -> list[Row]:
    (wall, cpu), (our_wall, our_cpu) = pair
    return [
        (f"{what}, Keras", f"{count / wall:.1f} {unit}", f"{cpu:.1f} s", "", "", ""),
        (
            f"{what}, advisor", f"{count / our_wall:.1f} {unit}", f"{our_cpu:.1f} s", f"{wall / our_wall:.2f}x",
            f"{cpu / our_cpu:.2f}x", goal,
        ),
    ]  # fmt: skip


if __name__ == "__main__":
    main()

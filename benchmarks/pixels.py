"""How well pixels are told: a segmenter beside plain Keras in equal time, and an anomaly detector beside two others.

    python -m benchmarks pixels
    python -m benchmarks pixels --seeds 2,3 --only segmentation

Needs ../shared/data/images/tiles. Each seed is another split, with near copies on one side. Files learn from all but
the hold-out, those of the product as in a search: from the training part, and then from the validation part too. The
hold-out judges them. Loss, rates, adjustment and width were chosen on validation parts of seeds 0 and 1, the epochs of
what ships on the hold-outs of seeds 0 and 1, and what the student needs on the hold-out of seed 1.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.catalog import Card, Catalogue, _architectures as architectures, build_model, fetch_weights
from advisor.compression import RecipeInputs, make_file
from advisor.core import TrainingName, recipe_of
from advisor.datasets import CalibrationImages, InputSpec, choose_images, load
from advisor.engine import Images, Part, Role, resolve
from advisor.engine._space.question_images import read_images
from advisor.tasks import Task
from advisor.tasks._on_maps import train
from advisor.tasks.anomaly import ANOMALY
from advisor.tasks.anomaly._jobs import HEAT, mark
from advisor.tasks.anomaly._judging import Marked, pixel_auroc
from advisor.tasks.segmentation import SEGMENTATION
from advisor.tasks.segmentation._jobs import resize_labels, segment
from advisor.tasks.segmentation._judging import compare_masks
from advisor.training import TrainingStart, learn_usual
from advisor.training._on_maps import with_maps
from advisor.training._on_maps.pixels import _loss
from advisor.training._on_maps.train import NEW
from advisor.training._usual_maps import _blur_maps, _even_light
from benchmarks.tables import Row, keep, kept_of_others, percent

NAME = "pixels"
FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "images" / "tiles"
CARD = "mobilenet_v2_1.0_224"
HEADER = ("task", "method", "split", "figure % (95 %)", "by class, or pixels %", "CPU s of learning")
REMARKS = (
    "Segmentation: mean IoU on the hold-out. LR-ASPP is plain Keras on the same backbone with its pretrained weights, "
    "all layers learning, BatchNorm frozen, Adam at 1e-4: the same images, loss (not adjusted) and mirroring, "
    "for as many CPU seconds. U-Net begins from new weights: a quarter of the channels, BatchNorm (momentum 0.9), Adam "
    "at 1e-3.",
    "Anomaly: AUROC of images on the hold-out, learnt from good tiles alone. PatchCore (K. Roth et al., 2022) has maps "
    "of the strides 8 and 16, averaged over 3 x 3 cells, and a memory of 4,000 patches by greedy choice among 40,000.",
    "Student of a frozen teacher (G. Wang et al., 2021): MobileNetV2 of width 0.35 with new weights learns both maps "
    "of evened images. The score is the largest blurred distance of the maps of stride 16, as split 1 chose.",
    "CPU seconds depend on what else the machine does: on a quiet one, the Gaussians of splits 2 and 3 took 20 and 10. "
    "Segmentation ran beside other work. On a faster and quiet machine, split 3 had 105 CPU seconds: LR-ASPP reached "
    "38.9 in them, the decoder 47.1.",
)
MEMORY, POOL, PROJECTED = 4000, 40_000, 64
SECONDS, WIDTH, RATE, BATCH = (100, 300), 0.35, 0.01, 8  # of the student
Floats = NDArray[np.float32]
Heat = Callable[[Path], Floats]
Learner = Callable[[Card, Sequence[Path], int], Heat]


def main() -> None:
    """Learn, judge, and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", default="2,3", help="splits, joined by commas")
    parser.add_argument("--only", choices=RUNS, help="one of the groups of methods; the others' rows stay")
    chosen = parser.parse_args()
    found: list[Row] = []
    for seed in map(int, chosen.seeds.split(",")):
        for task, run in [RUNS[chosen.only]] if chosen.only else RUNS.values():
            asked = resolve({"task": task.name, "data": str(FOLDER), "seed": seed}).question
            images = read_images(asked, lambda _: None)
            assert images is not None
            with tempfile.TemporaryDirectory() as folder:
                for row in run(images, seed, Path(folder)):
                    found.append((task.name, row[0], str(seed), *row[1:]))
                    print(*found[-1], sep=" | ", flush=True)
    measured = {_what(row) for row in found}
    rows = [*(row for row in kept_of_others(NAME, ())[0] if _what(row) not in measured), *found]
    print(
        keep(
            NAME,
            "Classes of pixels, and anomalies",
            HEADER,
            sorted(rows, key=lambda row: [*map(str, row[:3])]),
            REMARKS,
        )
    )


def _what(row: Row) -> tuple[object, ...]:
    """Return the task, the method without its details, and the split of a row."""
    return row[0], str(row[1]).split(",")[0], row[2]


def spec_of(card: Card) -> InputSpec:
    """Return how images become the card's input."""
    return InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)


def segmenters(tuned: bool, images: Images, seed: int, folder: Path) -> Iterator[Row]:
    """Yield the product's decoder, or both it and its backbone ``tuned``, and networks in plain Keras in equal time."""
    card, judged = Catalogue.load()[CARD].at(SEGMENTATION.side), images.part(Role.HOLDOUT)
    parts = {role: images.part(role) for role in (Role.TRAIN, Role.LEARNT)}
    learnt = {role: list(zip(part.paths, part.objects, strict=True)) for role, part in parts.items()}
    classes = len(images.classes)

    def row(name: str, model: Path, seconds: float) -> Row:
        segment(False, model, judged.paths, spec_of(card), folder / "masks.npz", ())
        with np.load(folder / "masks.npz", allow_pickle=False) as kept:
            reached = compare_masks(kept["masks"], judged.objects, classes)
        by_class = ", ".join(
            f"{each} {100 * own:.0f}" for each, own in zip(images.classes, reached.by_class, strict=True)
        )
        return name, percent(reached.figure), by_class, round(seconds)

    def trained(name: str, role: Role, start: TrainingStart = NEW) -> Path:
        path = folder / name / "model.tflite"
        path.parent.mkdir()
        train(card, fetch_weights(card), learnt[role], classes, SEGMENTATION.name, seed, path, path.parent, start)
        return path

    began, layers = time.process_time(), recipe_of(TrainingName.FINETUNE_ALL).layers if tuned else 0.0
    made = trained("head", Role.TRAIN)
    if tuned:
        made = trained("tuned", Role.TRAIN, TrainingStart(made, layers))
    made = trained("ships", Role.LEARNT, TrainingStart(made, layers, goes_on=True))
    seconds = time.process_time() - began
    yield row(f"decoder {'and backbone' if tuned else 'on kept maps'} (advisor)", made, seconds)
    longer = " as long as decoder and backbone" if tuned else ""
    shown = SEGMENTATION.learns_from(learnt[Role.LEARNT], seed)
    for name, network in (("LR-ASPP", lraspp), ("U-Net", unet)):
        began, path = time.process_time(), folder / "plain.tflite"
        plain(network(card, classes), card, shown, seconds, path)
        yield row(f"{name}{longer}, plain Keras", path, time.process_time() - began)


def unet(card: Card, classes: int) -> tuple[Any, float, bool]:
    """Return a new U-Net (O. Ronneberger et al., 2015) with a quarter of its channels: for :func:`plain`."""
    import keras

    layers, kept = keras.layers, []

    def twice(maps: Any, width: int) -> Any:
        for _ in range(2):
            maps = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(layers.Conv2D(width, 3, padding="same")(maps)))
        return maps

    image = keras.Input((card.input_size, card.input_size, 3))
    maps = image
    for width in (16, 32, 64, 128):
        kept.append(twice(maps, width))
        maps = layers.MaxPooling2D()(kept[-1])
    maps = twice(maps, 256)
    for before in reversed(kept):
        maps = layers.Conv2DTranspose(before.shape[-1], 2, 2)(maps)
        maps = twice(layers.Concatenate()([before, maps]), before.shape[-1])
    return keras.Model(image, layers.Conv2D(classes, 1)(maps)), 1e-3, True


def lraspp(card: Card, classes: int) -> tuple[Any, float, bool]:
    """Return the head LR-ASPP (A. Howard et al., 2019) on the card's backbone: for :func:`plain`."""
    import keras

    side = card.input_size
    model = build_model(card, fetch_weights(card))
    maps = with_maps(keras.Model(model.inputs[0], model.output["features"]))
    image, layers = keras.Input((side, side, 3)), keras.layers
    low, *_, high = maps(image)
    gate = layers.Conv2D(128, 1, activation="sigmoid")(layers.GlobalAveragePooling2D(keepdims=True)(high))
    merged = layers.Multiply()([layers.Conv2D(128, 1, activation="relu")(high), gate])
    merged = layers.Conv2D(classes, 1)(layers.Resizing(side // 8, side // 8)(merged))
    logits = layers.Add()([merged, layers.Conv2D(classes, 1)(low)])
    return keras.Model(image, layers.Resizing(side, side, name="scores")(logits)), 1e-4, False


def plain(
    made: tuple[Any, float, bool], card: Card, learnt: Sequence[tuple[Path, Any]], seconds: float, path: Path
) -> None:
    """Train a network for some CPU seconds by Adam and write its file.

    ``made`` is the network, its rate, and whether its BatchNorm learns.
    """
    import keras
    import tensorflow as tf

    from advisor.training import convert_to_flatbuffer

    (whole, rate, new), side, draw = made, card.input_size, np.random.default_rng(0)
    optimizer, classes = keras.optimizers.Adam(rate), whole.outputs[0].shape[-1]
    pixels = np.stack([load(each, side) for each, _ in learnt])
    masks = np.stack([resize_labels(mask.labels(), (side, side)) for _, mask in learnt])

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = _loss(whole(images, training=new), labels, np.zeros(classes, np.float32))
        weights = list(whole.trainable_variables)
        optimizer.apply_gradients(zip(tape.gradient(loss, [each.value for each in weights]), weights, strict=True))
        return loss

    began = time.process_time()
    while time.process_time() - began < seconds:
        rows, mirror = draw.integers(0, len(pixels), 8), slice(None, None, int(draw.choice((-1, 1))))
        given = np.stack([spec_of(card).normalise(pixels[each]) for each in rows])[:, :, mirror]
        step(tf.constant(given), tf.constant(masks[rows][:, :, mirror]))
    one = keras.Input((side, side, 3), batch_size=1)
    path.write_bytes(convert_to_flatbuffer(keras.Model(one, {"scores": whole(one)})))


def good_of(part: Part) -> tuple[list[Path], list[int]]:
    """Return the good images of a part, and their groups."""
    good = np.flatnonzero(np.array(part.labels) == 0)
    return [part.paths[row] for row in good], [part.groups[row] for row in good]


def judged_row(name: str, heats: Path, judged: Part, seconds: float) -> Row:
    """Return the row of a method whose heats are in a file."""
    marked = Marked.of(heats, judged)
    pixels = pixel_auroc(marked.heats, judged) or 0.0
    return name, percent(marked.figure), f"{100 * pixels:.1f}", round(seconds)


def gaussians(images: Images, seed: int, folder: Path) -> Iterator[Row]:
    """Yield the product's Gaussians as float32 and as int8."""
    card, judged = Catalogue.load()[CARD], images.part(Role.HOLDOUT)
    began, heats = time.process_time(), folder / "heats.npz"
    good = list(zip(*good_of(images.part(Role.LEARNT)), strict=True))
    build = partial(build_model, card, fetch_weights(card))
    learn_usual(build, spec_of(card), good, seed, folder / "heat.tflite", HEAT)
    seconds = time.process_time() - began
    train = images.part(Role.TRAIN)
    drawn = choose_images(train.labels, CalibrationImages.USUAL, seed)
    calibration = CalibrationImages(tuple(train.paths[row] for row in drawn), spec_of(card), seed)
    for form in ("float32", "int8"):
        file = folder / f"{form}.tflite"
        make_file(folder / "heat.tflite", form, calibration, RecipeInputs(), None, file)
        mark(False, file, judged.paths, spec_of(card), heats, ())
        size = f"{file.stat().st_size / 1e6:.1f} MB"
        yield judged_row(f"Gaussian at each place (advisor), {form}, {size}", heats, judged, seconds)


def others(methods: Mapping[str, Learner], images: Images, seed: int, folder: Path) -> Iterator[Row]:
    """Yield other methods, each of which learns from good images and returns what gives the heats of images."""
    card, judged, heats = Catalogue.load()[CARD], images.part(Role.HOLDOUT), folder / "heats.npz"
    paths, _ = good_of(images.part(Role.LEARNT))
    for name, method in methods.items():
        began = time.process_time()
        heat = method(card, paths, seed)
        seconds = time.process_time() - began
        found = np.stack([heat(path) for path in judged.paths])
        np.savez(heats, own=found / found.max(), drawn=found)
        yield judged_row(name, heats, judged, seconds)


def two_maps(model: Any) -> Any:
    """Return a MobileNetV2 with its last sums of the strides 8 and 16 as outputs."""
    import keras

    return keras.Model(model.inputs[0], [model.get_layer(name).output for name in ("block_5_add", "block_12_add")])


def patch_core(card: Card, paths: Sequence[Path], seed: int) -> Heat:
    """Return what gives the distance of each place of an image, (28, 28), from a memory of patches of good images."""
    import keras

    maps = two_maps(build_model(card, fetch_weights(card)))

    def patches(path: Path) -> Floats:
        fine, coarse = (
            np.asarray(keras.ops.average_pool(each, 3, 1, "same"))[0]
            for each in maps(spec_of(card).read(path)[None], training=False)
        )
        return np.concatenate([fine, coarse.repeat(2, axis=0).repeat(2, axis=1)], axis=-1)

    draw = np.random.default_rng(seed)
    every = np.concatenate([patches(path).reshape(-1, 128) for path in paths])
    pool = every[draw.choice(len(every), min(POOL, len(every)), replace=False)]
    small = pool @ draw.normal(size=(pool.shape[1], PROJECTED)).astype(np.float32)
    squares, chosen = (small**2).sum(axis=1), [0]
    nearest = np.full(len(pool), np.inf, np.float32)
    for _ in range(MEMORY - 1):
        nearest = np.minimum(nearest, squares + squares[chosen[-1]] - 2 * small @ small[chosen[-1]])
        chosen.append(int(nearest.argmax()))
    memory = pool[chosen]
    sizes = (memory**2).sum(axis=1)

    def heat(path: Path) -> Floats:
        found = patches(path)
        rows = found.reshape(-1, found.shape[-1])
        apart = (rows**2).sum(axis=1)[:, None] + sizes - 2 * rows @ memory.T
        return np.sqrt(np.maximum(apart.min(axis=1), 0)).reshape(found.shape[:2]).astype(np.float32)

    return heat


def student(seconds: float, card: Card, paths: Sequence[Path], seed: int) -> Heat:
    """Teach a narrower MobileNetV2 the maps of good images for some CPU seconds (G. Wang et al., 2021).

    Return what gives the distance of its map of stride 16 from the frozen network's, (14, 14). It learns both maps.
    """
    import keras
    import tensorflow as tf

    began, draw, side = time.process_time(), np.random.default_rng(seed), card.input_size
    keras.utils.set_random_seed(seed)
    frozen = two_maps(build_model(card, fetch_weights(card)))
    means = [keras.layers.AveragePooling2D(3, 1, padding="same")(each) for each in frozen.outputs]
    teacher = keras.Model(frozen.inputs[0], means)
    narrow = two_maps(architectures.build(card.architecture, side, card.classes, {"width": WIDTH}))
    for layer in narrow.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.9
    image = keras.Input((side, side, 3))
    maps = [
        keras.layers.Conv2D(own.shape[-1], 1)(each) for own, each in zip(teacher.outputs, narrow(image), strict=True)
    ]
    learner, optimizer = keras.Model(image, maps), keras.optimizers.Adam(RATE)

    def read(path: Path) -> tf.Tensor:
        return _even_light(spec_of(card).read(path)[None], spec_of(card))

    def apart(own: Sequence[tf.Tensor], known: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Return half the squared distances of the maps, each place with a length of 1."""
        units = [[tf.math.l2_normalize(each, axis=-1) for each in maps] for maps in (own, known)]
        return [tf.reduce_sum((one - other) ** 2, axis=-1) / 2 for one, other in zip(*units, strict=True)]

    @tf.function
    def step(images: tf.Tensor, known: Sequence[tf.Tensor]) -> None:
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_mean(each) for each in apart(learner(images, training=True), known)])
        weights = list(learner.trainable_variables)
        optimizer.apply_gradients(zip(tape.gradient(loss, [each.value for each in weights]), weights, strict=True))

    @tf.function
    def distances(image: Any) -> Any:
        return apart(learner(image, training=False), teacher(image, training=False))

    images = np.concatenate([read(path) for path in paths])
    parts = (teacher(images[at : at + BATCH], training=False) for at in range(0, len(images), BATCH))
    fine, coarse = (np.concatenate(each) for each in zip(*parts, strict=True))
    while (share := (time.process_time() - began) / seconds) < 1:
        rows = draw.integers(0, len(images), BATCH)
        optimizer.learning_rate = RATE * (1 + np.cos(np.pi * share)) / 2
        step(tf.constant(images[rows]), [tf.constant(fine[rows]), tf.constant(coarse[rows])])

    def heat(path: Path) -> Floats:
        found = distances(read(path))[1].numpy()
        return np.asarray(_blur_maps(found) / _blur_maps(np.ones_like(found)))[0]

    return heat


RUNS: Mapping[str, tuple[Task, Callable[[Images, int, Path], Iterator[Row]]]] = {
    "segmentation": (SEGMENTATION, partial(segmenters, False)),
    "fine-tuned": (SEGMENTATION, partial(segmenters, True)),
    "gaussian": (ANOMALY, gaussians),
    "patchcore": (ANOMALY, partial(others, {"PatchCore": patch_core})),
    "student": (
        ANOMALY,
        partial(others, {f"student of a frozen teacher, {each} CPU s": partial(student, each) for each in SECONDS}),
    ),
}

if __name__ == "__main__":
    main()

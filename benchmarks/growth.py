"""How the cost of each stage grows with images and classes: seconds, CPU seconds, peak memory, disk, exponent.

``python -m benchmarks growth [--images 1000,10000] [--classes 10,100] [--until STAGE]``. Every stage runs in its own
process. With ``--images none``, what the table has is drawn again. Images are augmented copies of TrashNet: each is
cropped, mirrored, brightened and given the colour of its class, so all pixels differ.
"""

import argparse
import csv
import math
import multiprocessing
import pickle
import resource
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.tables import RESULTS, Row, keep

SHARED = Path(__file__).parents[2] / "shared" / "data" / "images" / "trashnet"
CARD = "mobilenet_v1_0.25_224"
SIDE = 160
HEADER = ("stage", "classes", "images", "seconds", "CPU seconds", "peak MB", "disk MB", "exponent of CPU", "of peak")
LEAST = 0.3  # CPU seconds below which the start of the process hides how a stage grows
SHORTEST, GOAL_MB = 0.01, 4000  # Least CPU seconds that a plot shows; most memory that any stage may take
REMARKS = (
    f"augmented copies of TrashNet, {SIDE} pixels a side; features and head of {CARD}; one process a stage",
    "exponent: the slope of the logarithm of CPU seconds, or of peak memory, against that of images",
    "both columns include a process with its imports (0.1 to 0.5 CPU seconds, 48 MB), which flattens small sets",
    "other programs ran beside; CPU seconds count",
    "disk: what the stage keeps in the cache; of images, the files themselves",
    "fine-tuning: learns from 16,000 images at most, as in a search; its maps are on disk until its end",
)


Key = tuple[str, int, int]  # Stage, classes, images
Measured = tuple[float, float, float, float]  # Seconds, CPU seconds, peak and disk in MB


def main() -> None:
    """Measure the stages for every number of images and classes; what the table has of others stays."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", default="1000,10000")
    parser.add_argument("--classes", default="10,100")
    parser.add_argument("--until", default=list(STAGES)[-1], choices=list(STAGES), help="the last stage to measure")
    chosen = parser.parse_args()
    stages = {name: STAGES[name] for name in list(STAGES)[: list(STAGES).index(chosen.until) + 1]}
    counts = [int(count) for count in chosen.images.split(",") if count != "none"]
    if "features" in stages and counts:
        with tempfile.TemporaryDirectory() as folder:  # the backbone is converted before anything is measured
            for stage in (augmented, decoding, features):
                alone(stage, Path(folder), 20, 2)
    found = known()
    for classes in map(int, chosen.classes.split(",")):
        for count in counts:
            with tempfile.TemporaryDirectory() as folder:
                for name, stage in stages.items():
                    found[name, classes, count] = alone(stage, Path(folder), count, classes)
                    print(name, classes, count, *found[name, classes, count], flush=True)
                    keep("growth", "How cost grows", HEADER, rows(found), REMARKS)
    fewest = min(classes for _, classes, _ in found)
    draw(
        "growth", f"images of {fewest} classes",
        ((stage, count, own) for (stage, classes, count), own in found.items() if classes == fewest),
    )  # fmt: skip


def known() -> dict[Key, Measured]:
    """Return what the table has."""
    table = RESULTS / "growth.csv"
    if not table.is_file():
        return {}
    with table.open(newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))[1:]
    return {
        (stage, int(classes), int(images)): (float(seconds), float(cpu_s), float(peak), float(disk))
        for stage, classes, images, seconds, cpu_s, peak, disk, *_ in lines
    }


def rows(found: dict[Key, Measured]) -> list[Row]:
    """Return the rows of the table, each with its exponents against the row before it."""
    table: list[Row] = []
    keys = sorted(found, key=lambda key: (list(STAGES).index(key[0]), *key[1:]))
    for (last_stage, last_classes, last_count), key in pairwise([("", 0, 0), *keys]):
        own, slopes = found[key], ("", "")
        if (last_stage, last_classes) == key[:2]:
            before = found[last_stage, last_classes, last_count]
            slopes = exponent(last_count, before[1], key[2], own[1]), exponent(last_count, before[2], key[2], own[2])
        table.append((*key, *(f"{each:.1f}" for each in own), *slopes))
    return table


def draw(name: str, counted: str, found: Iterable[tuple[str, int, Measured]]) -> None:
    """Write ``results/NAME.svg``: CPU seconds and peak memory of each stage against the count of ``counted``."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": name, "svg.fonttype": "none"})  # equal figures give an equal file
    from matplotlib import pyplot

    curves: dict[str, list[tuple[int, float, float]]] = {}
    for stage, count, (_, cpu_s, peak, _) in sorted(found, key=lambda each: each[1]):
        if "(no " not in stage:
            curves.setdefault(stage, []).append((count, max(cpu_s, SHORTEST), peak))
    counts = sorted({count for points in curves.values() for count, *_ in points})
    figure, (cpu, memory) = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for place, (stage, points) in enumerate(curves.items()):
        line = "o-" if place < 10 else "o--"  # the cycle has ten colours
        own, seconds, peaks = zip(*points, strict=True)
        cpu.plot(own, seconds, line, label=stage, ms=3)
        memory.plot(own, peaks, line, ms=3)
    cpu.plot(counts, [count / counts[0] for count in counts], ":", color="grey", label="in proportion")
    memory.axhline(GOAL_MB, ls=":", color="black", label="goal: at most 4 GB")
    for panel, title in ((cpu, "CPU seconds"), (memory, "peak memory in MB")):
        panel.set(xscale="log", yscale="log", title=title, xlabel=counted)
        panel.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize="small")
    figure.savefig(RESULTS / f"{name}.svg", metadata={"Date": None})
    pyplot.close(figure)


def exponent(count: int, cost: float, next_count: int, next_cost: float) -> str:
    """Return the slope between two measurements; empty if the first is too small to tell."""
    return f"{math.log(next_cost / cost) / math.log(next_count / count):.2f}" if cost >= LEAST else ""


def augmented(folder: Path, count: int, classes: int) -> int:
    """Write the images and their manifest; return the bytes of the images."""
    sources = sorted(SHARED.rglob("*.jpg"))
    (folder / "images").mkdir()
    size = 0
    with (folder / "images.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["path", "label"])
        for number in range(count):
            draw, label = np.random.default_rng(number), number % classes
            path = folder / "images" / f"{number:06d}.jpg"
            one_copy(sources[int(draw.integers(len(sources)))], label / classes, draw).save(path, quality=85)
            size += path.stat().st_size
            table.writerow([path.relative_to(folder), f"class {label}"])
    return size


def one_copy(source: Path, hue: float, draw: np.random.Generator) -> Image.Image:
    """Return a crop of an image, mirrored or not, brighter or darker, in the colour of its class."""
    with Image.open(source) as opened:
        whole = opened.convert("RGB")
    side = float(draw.uniform(0.5, 0.9)) * min(whole.size)
    left, top = (float(draw.uniform(0, length - side)) for length in whole.size)
    part = whole.resize((SIDE, SIDE), Image.Resampling.BILINEAR, (left, top, left + side, top + side))
    pixels = np.asarray(part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if draw.random() < 0.5 else part, np.float32)
    cast = 1 + 0.25 * np.cos(2 * np.pi * (hue + np.arange(3) / 3))
    return Image.fromarray(np.clip(pixels * cast * draw.uniform(0.7, 1.3), 0, 255).astype(np.uint8))


def listing(folder: Path, _count: int, _classes: int) -> int:
    """List the manifest."""
    from advisor.datasets import list_files

    list_files(folder / "images.csv")
    return 0


def decoding(folder: Path, _count: int, _classes: int) -> int:
    """Read, decode, hash and measure every image."""
    from advisor.datasets import Survey

    with (folder / "survey.pickle").open("wb") as file:
        pickle.dump(Survey.read(folder / "images.csv"), file)
    return 0


def read_survey(folder: Path) -> Any:
    """Return what :func:`decoding` found."""
    return unpickled(folder / "survey.pickle")


def unpickled(path: Path) -> Any:
    """Return what an earlier stage of this benchmark wrote."""
    with path.open("rb") as file:
        return pickle.load(file)


def near_duplicate_search(folder: Path, _count: int, _classes: int) -> int:
    """Compare all pairs of images."""
    from advisor.datasets import Pair

    with (folder / "pairs.pickle").open("wb") as file:
        pickle.dump(Pair.find_alike(read_survey(folder).thumbnails), file)
    return 0


def splitting(folder: Path, _count: int, _classes: int) -> int:
    """Look for groups, and divide the images."""
    from advisor.datasets import Division

    Division.of_survey(read_survey(folder), 0, unpickled(folder / "pairs.pickle"))
    return 0


def features(folder: Path, _count: int, _classes: int) -> int:
    """Run the backbone over all images."""
    from advisor.catalog import Catalogue
    from benchmarks.accuracy_head import image_features

    card, dataset = Catalogue.load()[CARD], read_survey(folder).dataset
    backbone, values, last = image_features("growth", card, dataset)
    np.savez(folder / "features.npz", values=values, labels=dataset.labels, last=last)
    kept = backbone.with_name(f"growth-{dataset.fingerprint[:12]}-{card.name}.npy")
    size = kept.stat().st_size
    kept.unlink()
    return size


def held_out(labels: Any) -> Any:
    """Return whether an image is held out: every fifth of each class."""
    return np.arange(len(labels)) // (labels.max() + 1) % 5 == 0


def read_features(folder: Path) -> tuple[Any, Any, int]:
    """Return features and labels of the images to learn from (four of five), and the width of the last layer."""
    found = np.load(folder / "features.npz")
    learnt = ~held_out(found["labels"])
    return found["values"][learnt], found["labels"][learnt], int(found["last"])


def head(folder: Path, _count: int, classes: int) -> int:
    """Choose and fit the head."""
    from advisor.training import train_head

    values, labels, last = read_features(folder)
    fitted = train_head(values, labels.tolist(), classes, 0, last=last)
    np.savez(folder / "head.npz", weights=fitted.weights, bias=fitted.bias)
    return (folder / "head.npz").stat().st_size


def unknown_score(folder: Path, _count: int, _classes: int) -> int:
    """Find the neighbours among the images learnt from, and the rule of the score."""
    from advisor.engine._pipeline.stages.unknown_score import Neighbours, make_rule

    values, _, last = read_features(folder)
    fitted, found = np.load(folder / "head.npz"), np.load(folder / "features.npz")
    judged = found["values"][held_out(found["labels"])]
    near = Neighbours.of(values[:, :last])
    make_rule(judged @ fitted["weights"] + fitted["bias"], near.similarity(judged[:, :last]))
    return 0


def finetuning(folder: Path, _count: int, _classes: int) -> int:
    """Keep the maps of the images that a search fine-tunes on, and learn from them for one epoch."""
    from dataclasses import replace

    from advisor.catalog import Catalogue, build_model, fetch_weights
    from advisor.core import TrainingName
    from advisor.engine import TUNED_IMAGES, input_spec
    from advisor.training import FINETUNING, TuningImages, tune_network

    card, images, found = Catalogue.load()[CARD], read_survey(folder).dataset.images, np.load(folder / "features.npz")
    rows = np.flatnonzero(~held_out(found["labels"]))[: TUNED_IMAGES * 5 // 4]
    np.save(folder / "learnt.npy", found["values"][rows])
    validation = np.flatnonzero(held_out(found["labels"][rows])).tolist()
    given = TuningImages(
        [folder / "learnt.npy"], [images[row].path for row in rows], found["labels"][rows].tolist(), validation
    )
    recipe = replace(FINETUNING[TrainingName.FINETUNE_CACHED], epochs=1)
    build = partial(build_model, card, fetch_weights(card))
    places = (folder / "checkpoints", folder / "model.tflite")
    tune_network(build, input_spec(card), given, recipe, *places, maps=folder / "maps")
    return sum(file.stat().st_size for file in (folder / "maps").rglob("*") if file.is_file())


STAGES: dict[str, Callable[[Path, int, int], int]] = {
    "making the images (no stage)": augmented,
    "listing": listing,
    "decoding": decoding,
    "near-duplicate search": near_duplicate_search,
    "groups and split": splitting,
    "features": features,
    "head": head,
    "unknown score": unknown_score,
    "fine-tuning, one epoch": finetuning,
}


def alone(stage: Callable[[Path, int, int], int], *arguments: Any) -> Measured:
    """Run a stage in its own process; return seconds, CPU seconds, peak memory and what it keeps in MB."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measured, args=(sender, stage, arguments))
    process.start()
    sender.close()
    found: Measured = receiver.recv()
    process.join()
    return found


def _measured(sender: Any, stage: Callable[..., int], arguments: tuple[Any, ...]) -> None:
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    disk = stage(*arguments)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    sender.send((time.perf_counter() - start, cpu_s, after.ru_maxrss * 1024 / 1e6, disk / 1e6))


if __name__ == "__main__":
    main()

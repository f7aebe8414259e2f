"""A large set for the data check: made, read and compared, judged on made features, each in its own process."""

import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.tables import Row, keep

COUNT = 100_000
CLASSES = 10
WIDTH = 1280
SHAPE = (320, 240)
MANIFEST_ROWS, GROUP = 1_000_000, 4


def main() -> None:
    """Make the set, measure, keep the tables; ``--listing`` for the manifest alone."""
    listing()
    if "--listing" in sys.argv:
        return
    with tempfile.TemporaryDirectory() as folder:
        row = measured(Path(folder), COUNT)
    header = ("pictures", "reading, looking, comparing, splitting", "its peak memory", "judging", "its peak memory")
    remarks = (
        f"made pictures of {SHAPE[0]}x{SHAPE[1]} in {CLASSES} classes; to reach: below 3 GB",
        f"judging labels and crops, on made features of {WIDTH} values; extracting real ones is a search's own cost",
    )
    print(keep("data_check_large", "A large set in the data check", header, [row], remarks))


def listing(rows: int = MANIFEST_ROWS) -> None:
    """Measure reading and splitting a manifest, without its pictures, and keep the table."""
    with tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder) / "manifest.csv"
        _alone(write_manifest, manifest, rows)
        _, peak, cpu_s = _alone(list_and_split, manifest)
    row = (f"{rows:,}", f"{cpu_s:.0f} s", f"{peak / 1e9:.2f} GB")
    remark = (
        f"a CSV with path, label and group in {CLASSES} classes, groups of {GROUP}; no picture is opened: reading one "
        "takes what data_check_large says; to reach: below 3 GB"
    )
    print(keep("data_listing", "A manifest listed and split", ("rows", "CPU seconds", "peak memory"), [row], [remark]))


def write_manifest(path: Path, rows: int) -> None:
    """Write a manifest of pictures that are not there."""
    with path.open("w", encoding="utf-8") as file:
        file.write("path,label,group\n")
        file.writelines(
            f"class {row % CLASSES}/{row:07d}.jpg,class {row % CLASSES},{row // GROUP}\n" for row in range(rows)
        )


def list_and_split(manifest: Path) -> None:
    """Do what a search does with a manifest besides reading its pictures."""
    from advisor.datasets import Dataset, LabelledImage, list_files
    from advisor.datasets._dataset import compute_fingerprint
    from advisor.datasets._split import draw_split

    entries = list_files(manifest).entries
    classes = tuple(sorted({entry.label for entry in entries}))
    images = tuple(
        LabelledImage(
            entry.path, classes.index(entry.label), sha256(str(entry.path).encode()).hexdigest(), "", entry.group
        )
        for entry in entries
    )
    parts = draw_split(Dataset(manifest.parent, classes, images, (), compute_fingerprint(classes, images)), 0)
    assert len(parts.train) + len(parts.validation) + len(parts.holdout) == len(entries)


def measured(root: Path, count: int) -> Row:
    """Return the row of a set of ``count`` pictures: each step in a process of its own."""
    _alone(make, root / "pictures", count)
    read_s, read_peak, _ = _alone(read, root / "pictures")
    _alone(features, root, count)
    judge_s, judge_peak, _ = _alone(judge, root, count)
    return (
        f"{count:,}", f"{read_s:.0f} s", f"{read_peak / 1e9:.2f} GB", f"{judge_s:.0f} s", f"{judge_peak / 1e9:.2f} GB",
    )  # fmt: skip


def make(root: Path, count: int) -> None:
    """Write smooth random pictures, all different."""
    draw = np.random.default_rng(0)
    for label in range(CLASSES):
        (root / f"class {label}").mkdir(parents=True)
    for number in range(count):
        coarse = Image.fromarray(draw.integers(0, 256, (6, 8, 3), dtype=np.uint8))
        place = root / f"class {number % CLASSES}" / f"{number:06d}.jpg"
        coarse.resize(SHAPE, Image.Resampling.BICUBIC).save(place, quality=85)


def read(root: Path) -> None:
    """Do what the check does before features come in: read, look, compare, group, split."""
    from advisor.datasets import Division, Pair, Survey, check_survey

    found = Survey.read(root)
    pairs = Pair.find_alike(found.thumbnails)
    check_survey(found, pairs)
    Division.of_survey(found, 0, pairs)


def features(root: Path, count: int) -> None:
    """Write features in which the classes differ, in two parts as a search keeps them."""
    draw = np.random.default_rng(1)
    centres = draw.normal(0, 0.3, (CLASSES, WIDTH)).astype(np.float32)
    for part in range(2):
        rows = np.arange(part * count // 2, (part + 1) * count // 2)
        values = draw.standard_normal((len(rows), WIDTH), np.float32)
        values += centres[labels(count)[rows]]
        np.save(root / f"{part}.npy", values)


def labels(count: int) -> Any:
    """The labels of the made pictures in the order in which they are read: class by class."""
    return np.sort(np.arange(count) % CLASSES)


def judge(root: Path, count: int) -> None:
    """Check labels by the made-up features."""
    from advisor.engine._label_faults import RESULT, find_faults
    from advisor.training import LANDMARKS

    paths = sorted((root / "pictures").rglob("*.jpg"))
    parts = [root / "0.npy", root / "1.npy"]
    find_faults(parts, labels(count).tolist(), list(range(count)), (), paths, LANDMARKS, root / RESULT)


def _alone(function: Callable[..., None], *arguments: Any) -> tuple[float, int, float]:
    """Run a function in a process of its own; return its seconds, peak of resident memory in bytes, CPU seconds."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measured, args=(sender, function, arguments))
    process.start()
    sender.close()
    found: tuple[float, int, float] = receiver.recv()
    process.join()
    return found


def _measured(sender: Any, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    start, before = time.perf_counter(), time.process_time()
    function(*arguments)
    seconds, cpu_s = time.perf_counter() - start, time.process_time() - before
    sender.send((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, cpu_s))


if __name__ == "__main__":
    main()

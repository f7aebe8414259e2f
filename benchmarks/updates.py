"""Judge whether `advisor update` says rightly which file should ship, on draws of TrashNet with a known right answer.

    python -m benchmarks updates
    python -m benchmarks updates --draws 0-4

Needs ../shared/data/images/trashnet. Each draw has a run on 600 photographs and 200 new ones. The kinds take turns:

- better: the run lacks a class that the new photographs have, and 5 % of its labels are wrong, which are corrected.
- worse: half of the new photographs have a wrong label. The new file learns these.
- equal: the new photographs show the same as photographs that the run has learnt from, in other bytes.

Ship is right for better, keep for the others. Both files also answer photographs that no one else saw, with their true
labels: these say whether the draw is what it was made to be.
"""

import argparse
import csv
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

import advisor
from advisor.reporting import predict
from benchmarks.tables import RESULTS, Row, keep

NAME = "updates"
TRASHNET = Path(__file__).resolve().parents[2] / "shared" / "data" / "images" / "trashnet"
CARD = "mobilenet_v1_0.25_224"
KINDS = ("better", "worse", "equal", "better")
OLD = 600
NEW = 200
JUDGED = 400
"""Photographs of a run, new ones, and those that judge the draw itself."""

WRONG_BEFORE = 0.05
WRONG_AFTER = 0.5
"""Shares of wrong labels: in the run of a better draw, and among the new photographs of a worse one."""

HEADER = (
    "draw", "kind", "answer", "right", "points on the old hold-out (95 %)", "points on new images (95 %)",
    "points on images that nobody saw", "CPU s of the update",
)  # fmt: skip
REMARKS = (
    "A head of MobileNetV1 0.25 at 224 pixels, float32. CPU seconds: of the command and its child processes.",
    "Points on images that nobody saw: of the new file over the old one, on 400 photographs with their true labels.",
    "Features of photographs are kept between draws, so later updates computed few of them. Draw 0 began with none.",
)

Labelled = Sequence[tuple[Path, str]]


@dataclass(frozen=True)
class Draw:
    """The photographs of a draw with the labels that the user gives them."""

    kind: str
    old: Labelled
    new: Labelled
    judged: Labelled  # with their true labels


def main() -> None:
    """Make the draws that are asked for, ask for the answers, and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", default="0-19", help="first and last draw")
    first, last = map(int, parser.parse_args().draws.split("-"))
    rows: list[Row] = [row for row in read_rows() if not first <= int(str(row[0])) <= last]
    for number in range(first, last + 1):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(row_of(number, Path(folder)))
        print(*rows[-1], sep=" | ", flush=True)
        keep(NAME, "Answers of advisor update", HEADER, sorted(rows, key=lambda row: int(str(row[0]))), REMARKS)


def read_rows() -> list[list[str]]:
    """Return the rows of earlier draws."""
    table = RESULTS / f"{NAME}.csv"
    if not table.is_file():
        return []
    with table.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


def row_of(number: int, folder: Path) -> Row:
    """Search on the old photographs of a draw, update with the new ones, and return the row."""
    draw = make_draw(number, folder)
    old = advisor.search(
        data=str(write_manifest(draw.old, folder / "old.csv")),
        out=str(folder / "runs"),
        candidates=[CARD],
        training=["head"],
        compressions=["float32"],
        threads=["1"],
        quiet=True,
    )
    began = time.process_time_ns()
    children = child_seconds()
    answer = advisor.update(old.path, write_manifest(draw.new, folder / "new.csv"), quiet=True)
    seconds = (time.process_time_ns() - began) / 1e9 + child_seconds() - children
    shares = [share_right(Path(run), draw.judged) for run in (old.path, answer.run)]
    right = answer.ship == (draw.kind == "better")
    return (
        number, draw.kind, "ship" if answer.ship else "keep", "yes" if right else "NO", answer.old.sentence,
        answer.new.sentence if answer.new else "none", f"{100 * (shares[1] - shares[0]):+.1f}", f"{seconds:.0f}",
    )  # fmt: skip


def child_seconds() -> float:
    """Return the CPU seconds of child processes that have ended."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def share_right(run: Path, judged: Labelled) -> float:
    """Return the share of photographs that the pick of a run has right."""
    answers = predict(run, [path for path, _ in judged])
    right = [
        bool(answer.found) and answer.found[0].label == label
        for answer, (_, label) in zip(answers, judged, strict=True)
    ]
    return float(np.mean(right))


def make_draw(number: int, folder: Path) -> Draw:
    """Return the photographs of a draw; those that are made are written to a folder."""
    draw = np.random.default_rng(number)
    kind = KINDS[number % len(KINDS)]
    images = [(path, path.parent.name) for path in sorted(TRASHNET.glob("*/*.jpg"))]
    images = [images[place] for place in draw.permutation(len(images))]
    classes = sorted({label for _, label in images})
    judged = images[:JUDGED]
    images = images[JUDGED:]
    if kind == "better":
        return make_better(images, judged, classes, draw)
    old = images[:OLD]
    if kind == "worse":
        labels = mislabel(images[OLD : OLD + NEW], classes, WRONG_AFTER, draw)
        new = [(path, labels.get(path, label)) for path, label in images[OLD : OLD + NEW]]
        return Draw(kind, old, new, judged)
    return Draw(kind, old, copy_again(old[:NEW], folder), judged)


def make_better(images: Labelled, judged: Labelled, classes: Sequence[str], draw: np.random.Generator) -> Draw:
    """Return a draw whose run lacks a class and has wrong labels; the new photographs correct both."""
    lacking = classes[draw.integers(len(classes))]
    old = [row for row in images if row[1] != lacking][:OLD]
    seen = {path for path, _ in old}
    new = [row for row in images if row[0] not in seen][:NEW]
    wrong = mislabel(old, [name for name in classes if name != lacking], WRONG_BEFORE, draw)
    before = [(path, wrong.get(path, label)) for path, label in old]
    corrected = [row for row in old if row[0] in wrong]
    return Draw("better", before, [*new, *corrected], judged)


def mislabel(images: Labelled, classes: Sequence[str], share: float, draw: np.random.Generator) -> Mapping[Path, str]:
    """Return wrong labels for a share of photographs."""
    wrong = {}
    for path, label in images:
        if draw.random() < share:
            others = [name for name in classes if name != label]
            wrong[path] = others[draw.integers(len(others))]
    return wrong


def copy_again(images: Labelled, folder: Path) -> Labelled:
    """Return the same photographs in other bytes."""
    copies = []
    for path, label in images:
        target = folder / "again" / label / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(path) as image:
            image.save(target, quality=90)
        copies.append((target, label))
    return copies


def write_manifest(images: Labelled, path: Path) -> Path:
    """Write a table of photographs and labels, and return its path."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "label"])
        rows.writerows([str(image), label] for image, label in images)
    return path


if __name__ == "__main__":
    main()

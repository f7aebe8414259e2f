"""Detectors learn from more images: which boxes count, and which of two files is better."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from advisor.api._updates import compare_answers
from advisor.core import UsageError
from advisor.datasets import Box, BoxSurvey
from advisor.engine import LoadedRun, MergedImages, growth, merge_images, write_merged
from advisor.engine._history.manifest import write_images
from advisor.reporting import Found
from advisor.store import RunFolder
from advisor.tasks._counting import COUNTING
from advisor.tasks.detection import DETECTION
from advisor.tasks.detection._growth import BoxedLabels
from tests.builders import must_fail, write_file
from tests.datasets.boxes.writers import save
from tests.run_folders import aged, write_run
from tests.tables import with_cases

GROWTH = DETECTION.growth()
HEADER = "path,label,xmin,ymin,xmax,ymax"
PLACES = {"cat": 2, "dog": 22, "owl": 38, "Cat": 2, "elk": 22}


def rows_of(number: int, boxes: str) -> list[str]:
    """Return the rows of an image: ``cat dog+9`` is a box of each, the second one 9 pixels to the right."""
    rows = []
    for box in boxes.split():
        label, _, moved = box.partition("+")
        left = PLACES[label] + number % 9 + float(moved or 0)
        rows.append(f"{number:02}.png,{label},{left},5,{left + 16},30")
    return rows or [f"{number:02}.png,,,,,"]


def write_split(folder: Path, table: Path) -> RunFolder:
    """Write a run with the images of a table, as a search divides them."""
    run = write_run(folder, request={"data": str(table), "task": DETECTION.name})
    write_images(run, DETECTION.read(LoadedRun.load(run).question, lambda _: None))
    return run


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run on 60 images, 30 more, a copy of the first of these, and mirrored ones of hold-out and training part."""
    for number in range(90):
        save(tmp_path / f"{number:02}.png", number)
    lines = [HEADER]
    for number in range(60):
        lines += rows_of(number, "cat dog")
    run = write_split(tmp_path / "runs", write_file(tmp_path / "set.csv", "\n".join(lines)))
    (tmp_path / "90.png").write_bytes((tmp_path / "60.png").read_bytes())
    for number, part in ((91, "holdout"), (92, "train")):
        name = run.read_json("split.json")[part][0]["path"]
        ImageOps.mirror(Image.open(tmp_path / name)).save(tmp_path / f"{number}.png")
    return run


def merge(run: RunFolder, rows: Mapping[str, str]) -> MergedImages:
    """Merge a run with a table: ``60-89: cat dog`` are boxes in each of these images."""
    lines = [HEADER]
    for numbers, boxes in rows.items():
        for number in range(int(numbers[:2]), int(numbers[-2:]) + 1):
            lines += rows_of(number, boxes)
    more = write_file(run.path.parents[1] / "more.csv", "\n".join(lines))
    return merge_images(LoadedRun.load(run), more, GROWTH)


@with_cases
def test_the_boxes_of_the_later_table_count(
    run: RunFolder, rows: dict[str, str], old: str, new: str, counts: list[int], said: str
) -> None:
    merged = merge(run, rows)
    stated = {int(image.path.stem): image.labels for image in merged.images}
    for number, expected in ((3, old), (60, new)):
        boxes = [f"{box.label}{box.left:.0f}" for box in stated[number].boxes]
        assert f"{' '.join(boxes)}; {' '.join(sorted(stated[number].unknown))}" == expected
    assert f"new: {' '.join(merged.new_labels)}; {'; '.join(merged.notes)}" == said
    assert [len(merged.corrected), merged.returned, len(merged.list_holdout(new=True))] == counts
    read = BoxSurvey.read_images(write_merged(merged, run.path / "merged.csv", GROWTH))
    for image, labels in zip(read.images.dataset.images, GROWTH.list_labels(read), strict=True):
        assert labels.boxes == stated[int(image.path.stem)].boxes
    later = write_split(run.path, run.path / "merged.csv").read_json("split.json")
    for image in merged.images:
        assert image.path.name in {Path(row["path"]).name for row in later[image.part]}
        assert image.new or image.path.name in {row["path"] for row in run.read_json("split.json")[image.part]}
    aged(run)
    assert merge(run, rows) == merged, "an older version has the same images"


@with_cases
def test_new_boxes_that_cannot_be_learnt_from_are_refused(run: RunFolder, rows: dict[str, str], said: str) -> None:
    must_fail(UsageError, said, merge, run, rows)


def test_the_table_of_the_run_may_grow_and_images_without_boxes_are_none(run: RunFolder) -> None:
    table = run.path.parents[1] / "set.csv"
    first = table.read_text()
    table.write_text("\n".join([first, *(rows_of(number, "cat")[0] for number in range(60, 90))]))
    merged = merge_images(LoadedRun.load(run), table, GROWTH)
    assert (merged.known, sum(image.new for image in merged.images), merged.notes) == (0, 30, ())
    table.write_text(first.replace(",30\n", ",31\n"))
    assert merge(run, {"60-89": "cat dog"}).notes[0].startswith("labels in 'set.csv' were changed since the run")
    must_fail(UsageError, "has no boxes in a known format", merge_images, LoadedRun.load(run), run.artefacts, GROWTH)
    assert COUNTING.growth() is None


@with_cases
def test_the_file_whose_boxes_fit_ships(before: float, after: float, ship: bool, reason: str) -> None:
    draw = np.random.default_rng(0)
    images = []
    answers: list[list[growth.FileAnswer]] = [[], []]
    for number in range(90):
        # Nobody looked for the class c in the first 45 images, which are old ones. The last ones have no box.
        is_new = number >= 45
        edges = {label: draw.uniform(0.1, 0.5, 2) for label in ("ab", "abc")[is_new][: 3 * (number < 85)]}
        boxes = [Box(label, 100 * x, 100 * y, 100 * x + 30, 100 * y + 30) for label, (x, y) in edges.items()]
        labels = BoxedLabels.of_boxes(boxes, (100, 100), frozenset(() if is_new else "c"))
        images.append(growth.GrownImage(Path(f"{number}.jpg"), labels, growth.CLAIMING_PARTS[0], new=is_new))
        for noise, names, file in ((before, "ab", answers[0]), (after, "abc", answers[1])):
            found = []
            for label in names:
                x, y = edges.get(label, (0.3, 0.3)) + draw.normal(0, noise, 2)
                found.append(Found(label, 0.9 - 0.1 * (label not in edges), (y, x, y + 0.3, x + 0.3)))
            file.append(growth.FileAnswer({}, objects=found, least=0.5))
    answer = compare_answers("run", "new", MergedImages(tuple(images), ("c",), 0, 0, ()), GROWTH, *answers)
    assert (answer.ship, reason in "; ".join(answer.lines), answer.to_json()["figure"]) == (ship, True, "mAP@0.5"), (
        answer
    )
    assert not GROWTH.can_judge(images[85:])
    assert GROWTH.judge(images[85:], answers[0][85:], answers[1][85:]).high == 0

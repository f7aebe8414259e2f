"""Detectors learn from more images: which boxes count, and which of two files is better."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from advisor.api._updates import compare_answers
from advisor.core import UsageError
from advisor.datasets import Box
from advisor.engine import LoadedRun, MergedImages, growth, merge_images, write_merged
from advisor.reporting import Found
from advisor.store import RunFolder
from advisor.tasks._counting import COUNTING
from advisor.tasks.detection import DETECTION
from advisor.tasks.detection._growth import BoxedLabels, DetectorGrowth
from tests.builders import must_fail, write_file
from tests.datasets.boxes.writers import save
from tests.run_folders import add_copies, aged, write_split
from tests.tables import with_cases

GROWTH = DetectorGrowth()
PLACES = {"cat": 2, "dog": 22, "owl": 38, "Cat": 2, "elk": 22}


def write_rows(path: Path, rows: Mapping[str, str]) -> Path:
    """Write a table: ``60-89: cat dog+9`` is a cat and a dog in each of these images, the dog 9 pixels to the right."""
    lines = ["path,label,xmin,ymin,xmax,ymax"]
    for numbers, boxes in rows.items():
        for number in range(int(numbers[:2]), int(numbers[-2:]) + 1):
            lines += [f"{number:02}.png,,,,,"] if not boxes else []
            for label, _, moved in (box.partition("+") for box in boxes.split()):
                left = PLACES[label] + number % 9 + int(moved or 0)
                lines.append(f"{number:02}.png,{label},{left},5,{left + 16},30")
    return write_file(path, "\n".join(lines))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run on 60 images, 30 more, a copy of the first of these, and mirrored ones of hold-out and training part."""
    for number in range(90):
        save(tmp_path / f"{number:02}.png", number)
    run = write_split(tmp_path / "runs", write_rows(tmp_path / "set.csv", {"00-59": "cat dog"}), DETECTION)
    add_copies(run, tmp_path)
    return run


def merge(run: RunFolder, rows: Mapping[str, str]) -> MergedImages:
    return merge_images(LoadedRun.load(run), write_rows(run.path.parents[1] / "more.csv", rows), GROWTH)


@with_cases
def test_the_boxes_of_the_later_table_count(
    run: RunFolder, rows: dict[str, str], old: str, new: str, counts: list[int], said: str
) -> None:
    merged = merge(run, rows)
    stated = {image.path.stem: image.labels for image in merged.images}
    for name, expected in (("03", old), ("60", new)):
        assert f"{stated[name].sentence}; {' '.join(stated[name].unknown)}" == expected
    assert f"new: {' '.join(merged.new_labels)}; {'; '.join(merged.notes)}" == said
    assert [len(merged.corrected), merged.returned, len(merged.list_holdout(new=True))] == counts
    table = write_merged(merged, run.path / "merged.csv", GROWTH)
    later = write_split(run.path, table, DETECTION).read_json("split.json")
    for image in merged.images:
        assert image.path.name in {Path(row["path"]).name for row in later[image.part]}
        assert image.new or image.path.name in {row["path"] for row in run.read_json("split.json")[image.part]}
    read = GROWTH.read_table(table)
    for path, labels in zip(read.index, GROWTH.list_labels(read), strict=True):
        assert labels.sentence == stated[path.stem].sentence
    aged(run)
    assert merge(run, rows) == merged, "an older version has the same images"


@with_cases
def test_new_boxes_that_cannot_be_learnt_from_are_refused(run: RunFolder, rows: dict[str, str], said: str) -> None:
    must_fail(UsageError, said, merge, run, rows)


def test_the_table_of_the_run_may_grow(run: RunFolder) -> None:
    table = write_rows(run.path.parents[1] / "set.csv", {"00-59": "cat dog", "60-89": "cat dog"})
    merged = merge_images(LoadedRun.load(run), table, GROWTH)
    assert (merged.known, sum(image.new for image in merged.images), merged.notes) == (0, 30, ())
    must_fail(UsageError, "has no boxes in a known format", merge_images, LoadedRun.load(run), run.artefacts, GROWTH)
    assert (type(DETECTION.growth()), COUNTING.growth()) == (DetectorGrowth, None)


@with_cases
def test_the_file_whose_boxes_fit_ships(before: float, after: float, ship: bool, reason: str) -> None:
    draw = np.random.default_rng(0)
    images = []
    answers: list[list[growth.FileAnswer]] = [[], []]
    for number in range(90):
        # Nobody looked for the class c in the first 45 images, which are old ones. The last five have no box.
        labels = "" if number >= 85 else "ab" if number < 45 else "abc"
        edges = {label: draw.uniform(10, 50, 2) for label in labels}
        boxes = [Box(label, left, top, left + 30, top + 30) for label, (left, top) in edges.items()]
        stated = BoxedLabels.of_boxes(boxes, (100, 100), frozenset("" if number >= 45 else "c"))
        images.append(growth.GrownImage(Path(f"{number}.jpg"), stated, growth.CLAIMING_PARTS[0], new=number >= 45))
        for noise, names, file in ((before, "ab", answers[0]), (after, "abc", answers[1])):
            places = {label: (edges.get(label, 30) + draw.normal(0, noise, 2)) / 100 for label in names}
            found = [Found(label, 0.9, (top, left, top + 0.3, left + 0.3)) for label, (left, top) in places.items()]
            file.append(growth.FileAnswer({}, objects=found, least=0.5))
    answer = compare_answers("run", "new", MergedImages(tuple(images), ("c",), 0, 0, ()), GROWTH, *answers)
    assert (answer.ship, answer.to_json()["figure"]) == (ship, "mAP@0.5"), answer
    assert reason in "; ".join(answer.lines)
    assert not GROWTH.can_judge(images[85:])

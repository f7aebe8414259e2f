"""Taggers learn from more images: what is known of their labels, and which of two files is better."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from advisor.api._updates import compare_answers
from advisor.core import UsageError
from advisor.datasets import LabelSetSurvey
from advisor.engine import LoadedRun, MergedImages, growth, merge_images, write_merged
from advisor.store import RunFolder
from advisor.tasks.tagging import TAGGING
from tests.builders import must_fail, write_file
from tests.makers.label_sets import RNG, labels_of, write_images, write_table
from tests.run_folders import add_copies, aged, write_split
from tests.tables import with_cases

GROWTH = TAGGING.growth()


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run on 60 images, 30 more, a copy of the first of these, and mirrored ones of hold-out and training part."""
    table = write_table(write_images(tmp_path, 90), lambda number: "|".join(labels_of(number)))
    run = write_split(tmp_path / "runs", table, TAGGING)
    add_copies(run, tmp_path)
    return run


def merge(run: RunFolder, header: str, rows: Mapping[str, str]) -> MergedImages:
    """Merge a run with a table: ``60-89: r|g`` is a row for each of these images, ``@xyz`` their labels by name."""
    lines = [header]
    for numbers, cells in rows.items():
        for number in range(int(numbers[:2]), int(numbers[-2:]) + 1):
            labels = "|".join(labels_of(number, cells[1:])) if cells.startswith("@") else cells
            lines.append(f"{number:02}.png,{labels}")
    more = write_file(run.path.parents[1] / "more.csv", "\n".join(lines))
    return merge_images(LoadedRun.load(run), more, GROWTH)


@with_cases
def test_what_a_table_does_not_name_is_not_known(
    run: RunFolder, header: str, rows: dict[str, str], old: str, new: str, counts: list[int], said: str
) -> None:
    merged = merge(run, header, rows)
    sets = {int(image.path.stem): image.labels for image in merged.images}
    for at, expected in ((3, old), (60, new)):
        assert " ".join("".join(sorted(names)) for names in (sets[at].there, sets[at].unknown)) == expected
    assert f"new: {''.join(merged.new_labels)}; {'; '.join(merged.notes)}" == said
    assert [len(merged.corrected), merged.returned, len(merged.list_holdout(new=True))] == counts
    read = LabelSetSurvey.read_all(write_merged(merged, run.path / "merged.csv", GROWTH))
    for image, row in zip(read.images.dataset.images, read.truth.tolist(), strict=True):
        stated = sets[int(image.path.stem)]
        assert row == [-1 if name in stated.unknown else int(name in stated.there) for name in read.classes]
    for image in merged.images:
        rows_of_part = run.read_json("split.json")[image.part]
        assert image.new or image.path.name in {row["path"] for row in rows_of_part}
    aged(run)
    assert merge(run, header, rows) == merged, "an older version has the same images"


@with_cases
def test_new_images_that_cannot_be_learnt_from_are_refused(run: RunFolder, rows: dict[str, str], said: str) -> None:
    must_fail(UsageError, said, merge, run, "path,labels", rows)


def test_the_table_of_the_run_may_grow_and_must_keep_its_labels(run: RunFolder) -> None:
    table = run.path.parents[1] / "tags.csv"
    more = "".join(f"{at}.png,r\n" for at in range(60, 90))
    table.write_text(table.read_text().replace("01.png,r", "01.png,g") + more)
    loaded = LoadedRun.load(run)
    merged = merge_images(loaded, table, GROWTH)
    assert (merged.known, sum(image.new for image in merged.images)) == (0, 30)
    assert merged.notes == ("labels in 'tags.csv' were changed since the run; they count as they are now",)
    pick = SimpleNamespace(answers=SimpleNamespace(per_class_recall={"x": 1.0}))
    lacking = replace(loaded, decision=SimpleNamespace(pick=pick))
    must_fail(UsageError, "tags.csv' no longer has the label 'x'", merge_images, lacking, table, GROWTH)
    (run.path.parents[1] / "05.png").unlink()
    must_fail(UsageError, "1 of 60 images of .* are gone or changed", merge_images, loaded, table, GROWTH)
    table.unlink()
    must_fail(UsageError, "tags.csv', which is gone", merge, run, "path,labels", {"60": "r"})


@with_cases
def test_the_file_with_the_higher_mean_precision_ships(before: float, after: float, ship: bool, reason: str) -> None:
    truth = RNG(0).integers(0, 2, (120, 3))
    images = []
    for at, row in enumerate(truth):
        # The label c is not known in the first 60, which are old ones.
        unknown = frozenset("c" if at < 60 else "")
        there = frozenset(name for name, value in zip("abc", row, strict=True) if value) - unknown
        labels = growth.LabelSet(there, unknown)
        images.append(growth.GrownImage(Path(f"{at}.jpg"), labels, growth.CLAIMING_PARTS[0], new=at >= 60))
    answers = []
    for noise, names in ((before, "ab"), (after, "abc")):
        scores = (truth + RNG(1).normal(0, noise, truth.shape)).clip(0, 1).tolist()
        answers.append([growth.FileAnswer(dict(zip(names, row, strict=False))) for row in scores])
    answer = compare_answers("run", "new", MergedImages(tuple(images), ("c",), 0, 0, ()), GROWTH, *answers)
    assert (answer.ship, reason in "; ".join(answer.lines), answer.to_json()["figure"]) == (ship, True, "mAP"), answer

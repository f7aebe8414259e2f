"""Divide a set of images into parts."""

import shutil
from pathlib import Path

import pytest
from PIL import Image, ImageOps

from advisor.core import UsageError
from advisor.datasets import Division, SplitPart, Survey, _division as division
from tests.datasets.folders import fill, make

pytestmark = pytest.mark.integration

COPIES = {
    "train/cat/000.jpg": ImageOps.mirror,
    "train/cat/001.jpg": lambda image: image.rotate(90, expand=True),
    "validation/dog/450.jpg": lambda image: image.resize((30, 22)),
}


def test_large_sets_compare_fewer_images_and_learn_from_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Survey.read(make(tmp_path / "data", cat=100, dog=100))
    monkeypatch.setattr(division, "MOST_HELD", 20)
    monkeypatch.setattr(division, "MOST_COMPARED", 18)
    parts = Division.of_survey(read, 0).split
    assert [len(parts.holdout), len(parts.validation), len(parts.train)] == [20, 18, 162]


def with_copies(root: Path, *, whole: bool = False) -> Path:
    """Write a split of three parts whose later parts have turned, mirrored or smaller copies of images before them."""
    make(root / "train", cat=20, dog=20)
    for number, part in enumerate(("validation", "test"), start=1):
        fill(root / part / "cat", 6, first=400 * number)
        fill(root / part / "dog", 6, first=400 * number + 50)
    for place, (source, change) in enumerate(COPIES.items()):
        copy = change(Image.open(root / source))
        copy.save(root / ("validation" if place == 0 else "test") / "cat" / f"copy{place}.jpg", quality=80)
    if whole:
        for path in (root / "test" / "dog").iterdir():
            shutil.copy(path, root / "train" / "dog")
    return root


def test_copies_of_images_that_are_learnt_from_judge_nothing_and_a_sentence_says_how_many(tmp_path: Path) -> None:
    read = Survey.read(with_copies(tmp_path / "data"))
    division = Division.of_survey(read, 0)
    names = {read.dataset.images[index].path.name for part in SplitPart for index in getattr(division.split, part)}
    counts = [len(getattr(division.split, part)) for part in SplitPart]
    assert (counts, {name for name in names if "copy" in name}) == ([40, 12, 12], set())
    assert division.list_notes(read.dataset)[-1].startswith(
        "1 of 13 images of validation and 2 of 14 images of the hold-out copy images that are learnt from."
    )


def test_a_class_that_only_copies_would_judge_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="all images of 'dog' in the hold-out of your split are copies"):
        Division.of_survey(Survey.read(with_copies(tmp_path / "data", whole=True)), 0)


def test_copies_stay_in_one_part_of_a_split_that_is_drawn_and_a_sentence_says_so(tmp_path: Path) -> None:
    root = make(tmp_path / "data", cat=20, dog=20)
    for name in ("000", "001", "002"):
        shutil.copy(root / "cat" / f"{name}.jpg", root / "cat" / f"{name}-copy.jpg")
    read = Survey.read(root)
    division = Division.of_survey(read, 0)
    parts = [{read.dataset.images[index].sha256 for index in getattr(division.split, part)} for part in SplitPart]
    assert sum(map(len, parts)) == len(set.union(*parts))
    (note,) = division.list_notes(read.dataset)
    assert note.startswith("6 images have near copies by their thumbnails: these stay in one part of the split.")
    shutil.copy(root / "cat" / "000.jpg", root / "dog" / "other.jpg")
    relabelled = Survey.read(root)
    notes = Division.of_survey(relabelled, 0).list_notes(relabelled.dataset)
    wrong = "1 file is equal to one of another class, so a label is wrong: '000-copy.jpg' (cat) and 'other.jpg' (dog)."
    assert wrong in notes

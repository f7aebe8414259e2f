from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.core.errors import UsageError
from advisor.datasets.boxes.reading import survey_boxes
from advisor.datasets.division import Overview, divide, divide_boxes
from advisor.datasets.split import PARTS, VALIDATION, split
from advisor.datasets.survey import survey
from advisor.datasets.whole_groups import Source
from tests.datasets.boxes.writers import Photo, photos, write_table
from tests.datasets.folders import image, make


def _manifest(root: Path, groups: int, part_of: dict[str, list[str]] | None = None) -> Path:
    """A manifest of a folder: each class has so many groups, and its images the parts named, one after another."""
    path = root / "set.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("path", "label", "group", "split"))
        for folder in sorted(entry for entry in root.iterdir() if entry.is_dir()):
            for place, file_ in enumerate(sorted(folder.iterdir())):
                group = f"{folder.name}{place % groups}" if groups else ""
                part = (part_of or {}).get(folder.name, [""])
                writer.writerow((file_.relative_to(root), folder.name, group, part[place % len(part)]))
    return path


def test_whole_groups_are_held_out_and_a_sentence_says_so(tmp_path: Path) -> None:
    read = survey(_manifest(make(tmp_path, cat=20, dog=20), groups=5))
    division = divide(read, 0)
    assert division.grouping.source is Source.MANIFEST
    assert division.notes(read.dataset) == (
        "Images come in 10 groups (column 'group' of the manifest): whole groups are held out.",
    )
    held = {read.dataset.images[index].group for index in division.split.holdout}
    assert not held & {read.dataset.images[index].group for index in division.split.learnt}


def test_single_images_are_split_as_before_and_nothing_is_said(tmp_path: Path) -> None:
    read = survey(make(tmp_path, cat=20, dog=20))
    division = divide(read, 3)
    assert division.split == split(read.dataset, 3)
    assert division.notes(read.dataset) == ()
    assert division.groups == tuple(range(40))


def test_an_empty_column_of_groups_is_no_group(tmp_path: Path) -> None:
    read = survey(_manifest(make(tmp_path, cat=20, dog=20), groups=0))
    assert divide(read, 0).grouping.of == ()


def test_the_users_own_split_is_kept_where_images_come_in_groups(tmp_path: Path) -> None:
    parts = ["train", "train", "val", "test"]
    read = survey(_manifest(make(tmp_path, cat=20, dog=20), 4, {"cat": parts, "dog": parts}))
    division = divide(read, 0)
    for part, name in (("train", "train"), ("validation", "validation"), ("holdout", "holdout")):
        assert {read.dataset.images[index].part for index in getattr(division.split, part)} == {name}
    assert division.notes(read.dataset) == (
        "Images come in 8 groups (column 'group' of the manifest): your own split is kept.",
    )


def test_a_validation_part_that_lacks_classes_is_joined_to_training_and_drawn_again(tmp_path: Path) -> None:
    own = {"cat": ["train", "train", "val", "test"], "dog": ["train", "train", "train", "test"]}
    read = survey(_manifest(make(tmp_path, cat=24, dog=24), 0, own))
    division = divide(read, 0)
    parts = [read.dataset.images[index].part for index in division.split.holdout]
    assert parts == ["holdout"] * 12
    assert {read.dataset.images[index].label for index in division.split.validation} == {0, 1}
    assert division.rejoined == ("dog",)
    assert division.notes(read.dataset) == (
        "The validation part of your split lacks 1 of 2 classes (dog): it was joined to the training part, and "
        "another one was drawn.",
    )


def test_a_class_without_validation_is_named(tmp_path: Path) -> None:
    root = make(tmp_path, cat=20, dog=20)
    path = _manifest(root, groups=5)
    text = path.read_text().replace("cat2", "cat0").replace("cat3", "cat0").replace("cat4", "cat1")
    path.write_text(text)
    read = survey(path)
    division = divide(read, 0)
    overview = Overview.of(read.dataset, division.split, division.grouping, division.notes(read.dataset))
    assert overview.to_json()["missing"] == {"train": [], "validation": ["cat"], "holdout": []}
    assert "1 class has no image for validation, and no recall there (cat)." in overview.lines


def test_classes_with_one_inferred_group_are_counted(tmp_path: Path) -> None:
    from advisor.datasets.division import Division
    from advisor.datasets.split import group_numbers
    from advisor.datasets.whole_groups import Grouping

    dataset = survey(make(tmp_path, cat=12, dog=12)).dataset
    grouping = Grouping(tuple([0] * 12 + [1 + index // 2 for index in range(12)]), Source.APPEARANCE)
    parts = split(dataset, 0, grouping=grouping)
    division = Division(parts, grouping, group_numbers(dataset), (), ())
    assert division.notes(dataset) == (
        "Images come in 7 groups (similar light and background): whole groups are held out. In 1 class with too few "
        "groups, one is divided between two parts.",
    )


@pytest.mark.parametrize("groups", [0, 5])
def test_the_overview_has_the_images_of_each_class_in_each_part(tmp_path: Path, groups: int) -> None:
    read = survey(_manifest(make(tmp_path, cat=20, dog=20), groups))
    division = divide(read, 0)
    found = Overview.of(read.dataset, division.split, division.grouping, ()).to_json()
    assert found["images"] == {part: len(getattr(division.split, part)) for part in PARTS}
    assert found["images_per_class"][VALIDATION].keys() == {"cat", "dog"}  # type: ignore[index]
    assert sum(sum(each.values()) for each in found["images_per_class"].values()) == 40  # type: ignore[attr-defined]


def test_a_film_of_each_class_gives_its_last_images(tmp_path: Path) -> None:
    for label, name in enumerate(("cat", "dog")):
        first, last = (np.asarray(image(10 * label + end, (64, 64)), np.float64) for end in (0, 1))
        (tmp_path / name).mkdir()
        for number in range(20):
            frame = first + (last - first) * number / 19
            Image.fromarray(frame.astype("u1")).save(tmp_path / name / f"frame{number}.png")
    read = survey(tmp_path)
    division = divide(read, 0, alike=())
    assert division.grouping.source is Source.SEQUENCE
    assert division.grouping.count == 2
    held = {read.dataset.images[index].path.stem for index in division.split.holdout}
    assert held == {f"frame{number}" for number in range(16, 20)}


def test_images_with_boxes_are_divided_and_their_boxes_counted(tmp_path: Path) -> None:
    division, boxes, notes = divide_boxes(survey_boxes(write_table(tmp_path, photos(60, "cat", "dog"))), 0)
    sizes = [len(part) for part in (division.split.train, division.split.validation, division.split.holdout)]
    assert sum(sizes) == 60
    assert [boxes[part] for part in PARTS] == [{"cat": size, "dog": size} for size in sizes]
    assert notes == ()


def test_a_part_that_lacks_a_class_of_boxes_is_told(tmp_path: Path) -> None:
    parts = ("train",) * 20 + ("val",) * 6 + ("test",) * 6
    made = [
        Photo(photo.name, photo.objects if part == "train" else photo.objects[:1], part)
        for photo, part in zip(photos(32, "cat", "dog"), parts, strict=True)
    ]
    _, boxes, notes = divide_boxes(survey_boxes(write_table(tmp_path, made)), 0)
    assert boxes[VALIDATION] == {"cat": 6, "dog": 0}
    assert notes == tuple(
        f"The {part} part has no box of dog: no average precision there." for part in ("validation", "holdout")
    )


def test_a_set_whose_class_is_on_too_few_images_is_refused_before_it_is_divided(tmp_path: Path) -> None:
    read = survey_boxes(write_table(tmp_path, [*photos(40, "cat"), Photo("x", (("dog", 5, 5, 20, 20),))]))
    with pytest.raises(UsageError, match="fewer than 8 images with a box of 'dog'"):
        divide_boxes(read, 0)

"""What the names of folders say of classes and parts: layouts of people and of well-known sets."""

import zipfile
from collections import Counter
from pathlib import Path

import pytest

from advisor.core import AmbiguousInput, UsageError
from advisor.datasets import list_files, survey
from advisor.datasets._folder_questions import Names
from advisor.datasets._folders import read_folders
from tests.datasets.folders import make

ANIMALS = ("cat", "dog")
SPLIT = {("cat", "train"), ("dog", "train"), ("cat", "holdout"), ("dog", "holdout")}
NO_SPLIT = {("cat", ""), ("dog", "")}


def images(*folders: str, classes: tuple[str, ...] = ANIMALS) -> list[Names]:
    """Return an image in each class folder below some folders."""
    return [(*folder.split("/"), name, "1.jpg") for folder in folders for name in classes]


def read(names: list[Names]) -> set[tuple[str, str]]:
    """Return the pairs of class and part that are read."""
    return {(image.label, image.part) for image in read_folders(Path("photos"), names).images}


@pytest.mark.parametrize(
    "folders",
    [
        ("training_set", "test_set"),
        ("TRAIN", "TEST"),
        ("my_train_data", "my_test_data"),
        ("train/train", "test/test"),
        ("seg_train/seg_train", "seg_test/seg_test"),
        ("train/images", "test/images"),
        ("archive/data/train", "archive/data/test"),
        ("train/animals", "test/animals"),
    ],
)
def test_parts_have_names_of_many_kinds(folders: tuple[str, str]) -> None:
    assert read(images(*folders)) == SPLIT


def test_parts_inside_each_class_or_in_the_names_of_its_folders_are_a_split() -> None:
    assert read([(name, part, "1.jpg") for name in ANIMALS for part in ("train", "test")]) == SPLIT
    assert read([(f"{part}_{name}", "1.jpg") for name in ANIMALS for part in ("train", "test")]) == SPLIT


@pytest.mark.parametrize("flat", ["test", "seg_pred", "test/test", "test/images"])
def test_images_of_a_part_without_class_folders_are_left_out_with_a_line(flat: str) -> None:
    names = [
        *images("train" if flat[0] == "t" else "seg_train"),
        (*flat.split("/"), "1.jpg"),
        (*flat.split("/"), "2.jpg"),
    ]
    reading = read_folders(Path("photos"), names)
    assert {(image.label, image.part) for image in reading.images} == NO_SPLIT
    assert reading.notes == (f"2 images of '{flat.split('/')[0]}' are not used: they are in no class folder.",)


def test_loose_images_beside_classes_are_left_out_with_a_line() -> None:
    reading = read_folders(Path("photos"), [("cat", "1.jpg"), ("dog", "1.jpg"), ("cover.jpg",)])
    assert reading.notes == ("1 image of 'photos' is not used: it is in no class folder.",)


def test_the_folder_that_holds_all_class_folders_is_entered_and_named() -> None:
    reading = read_folders(Path("photos"), images("flower_photos"))
    assert reading.classes == ["cat", "dog"]
    assert reading.notes == ("The classes are the folders of 'flower_photos'.",)


@pytest.mark.parametrize(
    "classes", [("test tube", "train station", "dev board"), ("bus", "car", "train", "bike"), ("bus", "test", "train")]
)
def test_things_whose_names_are_like_those_of_parts_are_classes(classes: tuple[str, ...]) -> None:
    assert read([(name, "1.jpg") for name in classes]) == {(name, "") for name in classes}


def test_the_same_folders_in_all_upper_ones_are_a_question_with_two_readings() -> None:
    names = images("day", "night")
    with pytest.raises(UsageError, match="'day', 'night', or the 2 deeper folders 'cat', 'dog'") as refused:
        read(names)
    assert "--data 'photos/**'" in refused.value.hint
    deepest = read_folders(Path("photos"), names, depth="**")
    assert Counter(image.label for image in deepest.images) == {"cat": 2, "dog": 2}


def test_a_question_about_folders_inside_a_zip_is_answered_behind_its_path(tmp_path: Path) -> None:
    archive = tmp_path / "photos.zip"
    with zipfile.ZipFile(archive, "w") as content:
        for names in images("all/day", "all/night"):
            content.writestr("/".join(names), b"")
    with pytest.raises(AmbiguousInput) as refused:
        list_files(archive)
    chosen = [Path(reading.options["data"]) for reading in refused.value.readings]
    classes = [{entry.label for entry in list_files(path).entries} for path in chosen]
    assert classes == [{"cat", "dog"}, {"day", "night"}]


def test_numbers_in_all_upper_folders_are_a_question_too() -> None:
    with pytest.raises(AmbiguousInput, match="the 2 deeper folders '1', '2'"):
        read(images("query", "gallery", classes=("1", "2")))


def test_images_without_classes_beside_classes_are_left_out_with_a_line() -> None:
    reading = read_folders(Path("photos"), [("cat", "1.jpg"), ("dog", "1.jpg"), ("unlabeled", "1.jpg")])
    assert reading.classes == ["cat", "dog"]
    assert reading.notes == ("1 image of 'unlabeled' is not used: it is in no class folder.",)


def test_parts_beside_another_folder_can_be_chosen(tmp_path: Path) -> None:
    for name in ("train", "test", "runs"):
        make(tmp_path / name, cat=1, dog=1)
    with pytest.raises(AmbiguousInput, match="'test', 'train' of a split beside 'runs'") as asked:
        list_files(tmp_path)
    chosen = Path(asked.value.readings[0].options["data"])
    assert chosen.name == "{test,train}"
    assert {(entry.label, entry.part) for entry in list_files(chosen).entries} == SPLIT


@pytest.mark.parametrize("inner", [("visit 1", "visit 2"), ("images", "raw")])
def test_numbered_and_neutral_folders_in_all_classes_are_no_classes(inner: tuple[str, str]) -> None:
    assert read([(name, place, "1.jpg") for name in ANIMALS for place in inner]) == NO_SPLIT


def test_system_folders_are_not_read_and_named(tmp_path: Path) -> None:
    root = make(tmp_path / "photos", cat=3, dog=3)
    for name in ("@eaDir", "$RECYCLE.BIN", "lost+found", ".ipynb_checkpoints"):
        make(root, **{name: 1})
        make(root / "cat", **{name: 1})
    listing = list_files(root)
    assert Counter(entry.label for entry in listing.entries) == {"cat": 3, "dog": 3}
    assert listing.notes == (
        "The system folders are not read: '$RECYCLE.BIN', '.ipynb_checkpoints', '@eaDir', 'lost+found'.",
    )


def test_a_note_of_the_listing_is_one_of_the_data_set(tmp_path: Path) -> None:
    make(tmp_path / "photos" / "train", cat=3, dog=3)
    make(tmp_path / "photos", test=2)
    notes = survey(tmp_path / "photos").dataset.notes
    assert notes == ("2 images of 'test' are not used: they are in no class folder.",)

"""What the names of folders say of classes and parts: layouts of people and of well-known sets."""

from collections import Counter
from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.datasets.dataset import Listing
from advisor.datasets.folders import Names, read_folders
from advisor.datasets.layouts import list_files
from advisor.datasets.survey import survey
from tests.datasets.folders import make
from tests.requirements import shared_case

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


@pytest.mark.parametrize("classes", [("test tube", "train station", "dev board"), ("bus", "car", "train", "bike")])
def test_things_whose_names_are_like_those_of_parts_are_classes(classes: tuple[str, ...]) -> None:
    assert read([(name, "1.jpg") for name in classes]) == {(name, "") for name in classes}


def test_the_same_folders_in_all_upper_ones_are_a_question_with_two_readings() -> None:
    names = images("day", "night")
    with pytest.raises(UsageError, match="'day', 'night', or the 2 deeper folders 'cat', 'dog'") as refused:
        read(names)
    assert "--data 'photos/**'" in refused.value.hint
    deepest = read_folders(Path("photos"), names, depth="**")
    assert Counter(image.label for image in deepest.images) == {"cat": 2, "dog": 2}


@pytest.mark.parametrize("inner", [("visit 1", "visit 2"), ("images", "raw")])
def test_numbered_and_neutral_folders_in_all_classes_are_no_classes(inner: tuple[str, str]) -> None:
    assert read([(name, place, "1.jpg") for name in ANIMALS for place in inner]) == NO_SPLIT


@pytest.mark.parametrize(
    ("layout", "classes"),
    [
        ("EuroSAT/2750/{}/1.jpg", ("Forest", "River")),  # EuroSAT
        ("101_ObjectCategories/{}/image_0001.jpg", ("accordion", "BACKGROUND_Google")),  # Caltech-101
        ("dtd/images/{}/1.jpg", ("banded", "blotchy")),  # DTD
        ("images/Images/{}/1.jpg", ("n02085620-Chihuahua", "n02085782-Japanese_spaniel")),  # Stanford Dogs
        ("food-101/images/{}/1.jpg", ("apple_pie", "baby_back_ribs")),  # Food-101
        ("CUB_200_2011/images/{}/1.jpg", ("001.Black_footed_Albatross", "002.Laysan_Albatross")),  # CUB-200
        ("lfw-deepfunneled/lfw-deepfunneled/{}/1.jpg", ("Aaron_Eckhart", "Aaron_Guiel")),  # LFW
        ("PlantVillage/{}/1.jpg", ("Apple___Black_rot", "Apple___healthy")),  # PlantVillage
    ],
)
def test_the_classes_of_public_sets_in_folders_are_read(layout: str, classes: tuple[str, ...]) -> None:
    names = [tuple(layout.format(name).split("/")) for name in classes]
    assert read(names) == {(name, "") for name in classes}


def test_the_letters_of_asl_and_the_scenes_of_intel_are_split_as_published() -> None:
    letters = images("asl_alphabet_train/asl_alphabet_train", classes=("A", "B"))
    reading = read_folders(Path("asl"), [*letters, ("asl_alphabet_test", "asl_alphabet_test", "A_test.jpg")])
    assert reading.classes == ["A", "B"]
    scenes = images("seg_train/seg_train", "seg_test/seg_test", classes=("forest", "sea"))
    reading = read_folders(Path("intel"), [*scenes, ("seg_pred", "seg_pred", "3.jpg")])
    assert {image.part for image in reading.images} == {"train", "holdout"}
    assert reading.classes == ["forest", "sea"]


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


def listed_case(name: str) -> Listing:
    return list_files(shared_case(name))


@pytest.mark.parametrize(
    ("name", "parts", "classes"),
    [
        ("split_training_set.zip", {"train", "holdout"}, 2),
        ("split_train_data.zip", {"train", "validation", "holdout"}, 6),
        ("test_without_classes.zip", {""}, 2),
        ("synology_eadir.zip", {""}, 3),
    ],
)
def test_the_folders_of_real_archives_are_read_right(name: str, parts: set[str], classes: int) -> None:
    listing = listed_case(name)
    assert {entry.part for entry in listing.entries} == parts
    assert len({entry.label for entry in listing.entries}) == classes


def test_a_note_of_the_listing_is_one_of_the_data_set(tmp_path: Path) -> None:
    make(tmp_path / "photos" / "train", cat=3, dog=3)
    make(tmp_path / "photos", test=2)
    assert survey(tmp_path / "photos").dataset.notes == (
        "2 images of 'test' are not used: they are in no class folder.",
    )

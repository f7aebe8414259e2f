"""Inputs as other tools and people write them are read right, or asked about: the cases are in a file."""

import tarfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from advisor.core import AmbiguousInput, UsageError
from advisor.datasets import LabelSetSurvey, Survey, list_files
from advisor.datasets._boxes import list_boxes
from advisor.datasets._folder_questions import Names
from advisor.datasets._folders import read_folders
from advisor.store import YamlDocument
from tests.builders import must_fail
from tests.datasets.boxes.writers import save, write
from tests.datasets.folders import make
from tests.requirements import shared_case
from tests.tables import with_cases

CASES = YamlDocument.read(Path(__file__).with_name("inputs_of_people.yaml")).values
BOXES = {("1.jpg", "cat", 10, 20, 40, 60), ("2.jpg", "dog", 50, 50, 90, 80)}


def write_case(root: Path, case: dict[str, Any]) -> Path:
    """Write the images and files of a case, and return the path to give."""
    for name in case.get("images", ()):
        for number in range(6 if "{}" in name else 1):
            save(root / name.replace("{}", str(number)), seed=number)
    for name, text in case.get("files", {}).items():
        lines = []
        for line in text.split("\n"):
            for number in range(6 if "{n}" in line else 1):
                values = {"{n}": number, "{c}": "ab"[number % 2], "{a}": 1 - number % 2, "{b}": number % 2}
                written = line
                for word, value in values.items():
                    written = written.replace(word, str(value))
                lines.append(written)
        write(root / name, "\n".join(lines), case.get("encoding", "utf-8"))
    if "pack" in case:
        pack(root, case["give"], case["pack"])
    return root / case.get("give", "")


class WrittenName(zipfile.ZipInfo):
    """A file in a zip whose name is in a code page, as programs write it that do not know UTF-8."""

    code = "cp437"

    def _encodeFilenameFlags(self) -> tuple[bytes, int]:
        return self.filename.encode(self.code), 0


def pack(root: Path, name: str, code: str) -> None:
    """Write the files of a folder into an archive in it, with names in a code page."""
    files = [file for file in sorted(root.rglob("*.*")) if file.is_file()]
    if name.endswith(".tar"):
        with tarfile.open(root / name, "w", encoding=code) as tar:
            for file in files:
                tar.add(file, file.relative_to(root))
        return
    WrittenName.code = code
    with zipfile.ZipFile(root / name, "w") as archive:
        for file in files:
            archive.writestr(WrittenName(str(file.relative_to(root))), file.read_bytes())


@pytest.mark.parametrize("name", CASES["classes"])
def test_classes_are_read_right_or_asked_about(tmp_path: Path, name: str) -> None:
    case = CASES["classes"][name]
    path = write_case(tmp_path, case)
    if "asked" in case:
        asked = must_fail(UsageError, "", list_files, path)
        assert case["asked"] in f"{asked.message} {asked.hint}"
        for reading in getattr(asked, "readings", ()):
            assert list_files(Path(reading.options["data"])).entries
        return
    listing = list_files(path)
    there = [entry for entry in listing.entries if "pack" in case or entry.path.exists()]
    assert Counter(entry.label for entry in there) == case["right"]
    assert {entry.part for entry in listing.entries} == set(case.get("parts", [""]))
    assert any(note.startswith(case.get("noted", "")) for note in ("", *listing.notes) if note or "noted" not in case)


@pytest.mark.parametrize("name", CASES["labels"])
def test_labels_are_read_right(tmp_path: Path, name: str) -> None:
    case = CASES["labels"][name]
    assert LabelSetSurvey.read_images(write_case(tmp_path, case)).counts == case["right"]


@pytest.mark.parametrize("name", CASES["boxes"])
def test_boxes_are_read_right(tmp_path: Path, name: str) -> None:
    case = CASES["boxes"][name]
    for image in case.get("photos", ("1.jpg", "2.jpg")):
        save(tmp_path / image, size=(case.get("side", 100),) * 2)
    path = write_case(tmp_path, case)
    if "asked" in case:
        must_fail(UsageError, case["asked"], list_boxes, path)
        return
    listing = list_boxes(path)
    parts = {entry.part for entry in listing.entries}
    assert parts == set(case.get("parts", parts))
    assert any(note.startswith(case.get("noted", "")) for note in ("", *listing.notes) if note or "noted" not in case)
    scale = 100 if listing.relative else 1
    boxes = {(entry.path.name.lower(), box) for entry in listing.entries for box in entry.boxes if entry.path.exists()}
    assert {(name, box.label, *(round(scale * edge) for edge in box.edges)) for name, box in boxes} == BOXES


PUBLIC = YamlDocument.read(Path(__file__).with_name("public_layouts.yaml")).values
"""The trees of well-known sets."""


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_set_is_read_right_or_asked_about_in_one_question(tmp_path: Path, name: str) -> None:
    case = PUBLIC[name]
    data = write_case(tmp_path, case)
    if "asked" in case:
        asked = must_fail(AmbiguousInput, "", list_files, tmp_path)
        data = Path(case["asked"].replace("ROOT", str(tmp_path)))
        assert str(data) in [reading.options["data"] for reading in asked.readings]
    entries = [entry for entry in list_files(data).entries if entry.path.exists()]
    assert Counter(entry.label for entry in entries) == case["classes"]
    assert {entry.part for entry in entries} == set(case.get("parts", [""]))


def test_the_boxes_of_open_images_are_read_from_their_table(tmp_path: Path) -> None:
    listing = list_boxes(write_case(tmp_path, PUBLIC["Open Images"]))
    boxes = {entry.path.name: [(box.label, *box.edges) for box in entry.boxes] for entry in listing.entries}
    assert boxes == {"a1.jpg": [("Cat", 0.25, 0, 0.75, 0.5)], "a3.jpg": [("Dog", 0, 0, 1, 1)]}
    assert [fault.reason for fault in listing.faults] == ["it marks a group (IsGroupOf), not one object"]


SPLIT = {("cat", "train"), ("dog", "train"), ("cat", "holdout"), ("dog", "holdout")}


def images(*folders: str) -> list[Names]:
    """Return an image in each class folder below some folders."""
    return [(*folder.split("/"), name, "1.jpg") for folder in folders for name in ("cat", "dog")]


def test_the_same_folders_in_all_upper_ones_are_a_question_with_two_readings() -> None:
    names = images("day", "night")
    with pytest.raises(UsageError, match="'day', 'night', or the 2 deeper folders 'cat', 'dog'") as refused:
        read_folders(Path("photos"), names)
    assert "--data 'photos/**'" in refused.value.hint
    deepest = read_folders(Path("photos"), names, depth="**")
    assert Counter(image.label for image in deepest.images) == {"cat": 2, "dog": 2}


def test_a_question_about_folders_inside_a_zip_is_answered_behind_its_path(tmp_path: Path) -> None:
    archive = tmp_path / "photos.zip"
    with zipfile.ZipFile(archive, "w") as content:
        for names in images("all/day", "all/night"):
            content.writestr("/".join(names), b"")
    refused = must_fail(AmbiguousInput, "", list_files, archive)
    chosen = [Path(reading.options["data"]) for reading in refused.readings]
    classes = [{entry.label for entry in list_files(path).entries} for path in chosen]
    assert classes == [{"cat", "dog"}, {"day", "night"}]


def test_parts_beside_another_folder_can_be_chosen(tmp_path: Path) -> None:
    for name in ("train", "test", "runs"):
        make(tmp_path / name, cat=1, dog=1)
    asked = must_fail(AmbiguousInput, "'test', 'train' of a split beside 'runs'", list_files, tmp_path)
    chosen = Path(asked.readings[0].options["data"])
    assert chosen.name == "{test,train}"
    assert {(entry.label, entry.part) for entry in list_files(chosen).entries} == SPLIT


@with_cases
def test_the_folders_of_real_archives_are_read_right(name: str, parts: list[str], classes: int) -> None:
    listing = list_files(shared_case(name))
    assert {entry.part for entry in listing.entries} == set(parts)
    assert len({entry.label for entry in listing.entries}) == classes


def test_a_note_of_the_listing_is_one_of_the_data_set(tmp_path: Path) -> None:
    make(tmp_path / "photos" / "train", cat=3, dog=3)
    make(tmp_path / "photos", test=2)
    notes = Survey.read(tmp_path / "photos").dataset.notes
    assert notes == ("2 images of 'test' are not used: they are in no class folder.",)

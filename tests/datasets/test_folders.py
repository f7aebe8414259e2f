"""Questions about folders and their answers; what folders say of classes is in ``inputs_of_people.yaml``."""

import zipfile
from collections import Counter
from pathlib import Path

import pytest

from advisor.core import AmbiguousInput, UsageError
from advisor.datasets import list_files, survey
from advisor.datasets._folder_questions import Names
from advisor.datasets._folders import read_folders
from tests.datasets.folders import make
from tests.requirements import shared_case
from tests.tables import with_cases

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
    with pytest.raises(AmbiguousInput) as refused:
        list_files(archive)
    chosen = [Path(reading.options["data"]) for reading in refused.value.readings]
    classes = [{entry.label for entry in list_files(path).entries} for path in chosen]
    assert classes == [{"cat", "dog"}, {"day", "night"}]


def test_parts_beside_another_folder_can_be_chosen(tmp_path: Path) -> None:
    for name in ("train", "test", "runs"):
        make(tmp_path / name, cat=1, dog=1)
    with pytest.raises(AmbiguousInput, match="'test', 'train' of a split beside 'runs'") as asked:
        list_files(tmp_path)
    chosen = Path(asked.value.readings[0].options["data"])
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
    notes = survey(tmp_path / "photos").dataset.notes
    assert notes == ("2 images of 'test' are not used: they are in no class folder.",)

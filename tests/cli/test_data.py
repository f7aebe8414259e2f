"""``advisor data check`` as a user runs it."""

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from tests.datasets.boxes.writers import Photo, photos as photos_with, write_yolo
from tests.datasets.folders import fill, make
from tests.makers.commands import Advisor, ended, refused
from tests.tables import with_cases


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A set with a copy, a near copy, a picture in two classes, an unreadable file, and a class of two spellings."""
    root = make(tmp_path / "photos", cat=12, dog=12)
    fill(root / "Dog ", 9, first=500)
    shutil.copy(root / "cat" / "000.jpg", root / "cat" / "copy.jpg")
    shutil.copy(root / "cat" / "001.jpg", root / "dog" / "<b>stray.jpg")
    (root / "cat" / "broken.jpg").write_bytes(b"\xff\xd8\xff")
    with Image.open(root / "cat" / "003.jpg") as image:
        image.resize((90, 70)).save(root / "cat" / "large.jpg", quality=60)
    return root


def _kinds(out: str) -> set[str]:
    return {finding["kind"] for finding in json.loads(out)["findings"]}


def test_a_table_names_what_was_found_and_a_sheet_is_written(advisor: Advisor, photos: Path, tmp_path: Path) -> None:
    said = ended(advisor("data", "check", "photos", "--no-labels", COLUMNS="80"))
    for word in ("unreadable", "several spellings", "exact duplicates", "near duplicates", "two classes"):
        assert word in " ".join(said.out.split())
    assert "Written: data-check.html" in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    page = (tmp_path / "data-check.html").read_text(encoding="utf-8")
    assert "data:image/jpeg;base64," in page
    assert "<b>stray" not in page
    assert "&lt;b&gt;stray" in page


def test_json_has_a_version_and_every_suspect(advisor: Advisor, photos: Path) -> None:
    said = advisor("data", "check", "photos", "--no-labels", "--json")
    content = said.document
    assert content["schema_version"] == 1
    assert content["pictures_per_class"] == {"cat": 14, "dog": 22}
    assert {"unreadable", "exact duplicates", "same image in two classes"} <= _kinds(said.out)
    twice = next(finding for finding in content["findings"] if finding["kind"] == "exact duplicates")
    assert [set(group) for group in twice["groups"]] == [{"cat/000.jpg", "cat/copy.jpg"}]
    assert content["not_judged"] == "not asked for"
    assert content["split"] is None
    assert "differ only by case or blanks" in content["not_split"]


def test_a_fixed_manifest_is_clean_and_no_image_is_touched(advisor: Advisor, photos: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in photos.rglob("*") if path.is_file()}
    said = ended(advisor("data", "check", "photos", "--no-labels", "--fix", "cleaned.csv"))
    assert "advisor search --data cleaned.csv" in said.out
    again = advisor("data", "check", "cleaned.csv", "--no-labels", "--json")
    assert _kinds(again.out) <= {"small class", "size", "capture conditions"}
    assert {path: path.read_bytes() for path in photos.rglob("*") if path.is_file()} == before


def test_labels_are_not_judged_without_weights_and_the_rest_is_found(advisor: Advisor, photos: Path) -> None:
    said = ended(advisor("data", "check", "photos", "--offline", "--json", ADVISOR_CACHE_DIR="empty"))
    assert "weights" in said.document["not_judged"]
    assert "exact duplicates" in _kinds(said.out)


@with_cases
def test_what_cannot_be_is_said_plainly(
    advisor: Advisor, photos: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "mine.csv").write_text("mine")
    refused(advisor("data", "check", *arguments), message)
    assert (tmp_path / "mine.csv").read_text() == "mine"


def test_a_check_of_no_image_ends_as_a_wrong_use(advisor: Advisor, tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        (tmp_path / "photos" / name / "1.jpg").write_text("no image")
    said = ended(advisor("data", "check", "photos"), 2)
    assert "2 files cannot be used" in said.out


def test_leaks_and_classes_that_a_part_lacks_are_named(advisor: Advisor, tmp_path: Path) -> None:
    make(tmp_path / "data" / "train", cat=10, dog=10)
    fill(tmp_path / "data" / "test" / "cat", 4, first=700)
    fill(tmp_path / "data" / "test" / "owl", 4, first=800)
    shutil.copy(tmp_path / "data" / "train" / "cat" / "000.jpg", tmp_path / "data" / "test" / "cat")
    said = advisor("data", "check", "data", "--no-labels", "--json")
    messages = [finding["message"] for finding in said.document["findings"]]
    assert any("1 image lies in more than one part" in message for message in messages)
    assert "the train part has no image of 'owl'" in messages
    assert "the holdout part has no image of 'dog'" in messages


def test_boxes_are_checked_and_written_as_a_table(advisor: Advisor, tmp_path: Path) -> None:
    suspect = Photo("suspect", (("cat", 5, 5, 40, 40), ("cat", 5, 5, 40, 40), ("cat", 40, 5, 5, 40)))
    write_yolo(tmp_path / "set", [*photos_with(30, "cat", "dog"), suspect])
    said = ended(advisor("data", "check", "set", "--task", "object-detection", "--fix", "cleaned.csv", COLUMNS="250"))
    shown = " ".join(said.out.split())
    assert "31 images, 62 boxes in 2 classes: cat 32, dog 30" in shown
    assert "line 3 of 'suspect.txt': the right edge is left of the left one" in shown
    assert "Written: cleaned.csv (31 images, 0 excluded; 1 box excluded)" in shown
    assert "advisor search" not in shown
    again = advisor("data", "check", "cleaned.csv", "--task", "object-detection", "--json")
    assert again.document["boxes_per_class"] == {"cat": 31, "dog": 30}
    assert not {"repeated boxes", "unusable boxes"} & _kinds(again.out)

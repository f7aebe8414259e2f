from pathlib import Path

import pytest

from advisor.core import UsageError
from advisor.engine._data_check import check_images
from advisor.tasks.detection import DETECTION
from tests.datasets.boxes.writers import Photo, photos, save, write, write_table, xml


def test_a_set_with_boxes_has_its_facts_and_its_split(tmp_path: Path) -> None:
    said: list[str] = []
    checked = check_images(write_table(tmp_path, photos(60, "cat", "dog")), None, said.append, DETECTION.name)
    content = checked.to_json()
    assert content["boxes_per_class"] == content["images_per_class"] == {"cat": 60, "dog": 60}
    assert content["split"]["images"] == {"train": 38, "validation": 10, "holdout": 12}
    assert content["split"]["boxes_per_class"]["holdout"] == {"cat": 12, "dog": 12}
    assert [one["input"] for one in content["object_sizes"]] == [128, 192, 224, 320]
    assert checked.content.summary == "60 images, 120 boxes in 2 classes"
    assert said[-1] == "comparing images"


def test_what_a_search_would_refuse_is_said(tmp_path: Path) -> None:
    made = [
        Photo(f"{n}", photo.objects if n % 2 else (), "train" if n % 2 else "test")
        for n, photo in enumerate(photos(40, "cat"))
    ]
    checked = check_images(write_table(tmp_path, made), None, task=DETECTION.name)
    assert checked.split is None
    assert checked.not_split == "--data: the holdout part has 20 images, but no box"


def test_boxes_of_a_finding_are_in_the_json(tmp_path: Path) -> None:
    made = [*photos(9, "cat"), Photo("a", (("cat", 5, 5, 40, 40),) * 2)]
    findings = check_images(write_table(tmp_path, made), None, task=DETECTION.name).to_json()["findings"]
    (repeated,) = [finding for finding in findings if finding["kind"] == "repeated boxes"]
    assert repeated["boxes"] == [[{"label": "cat", "box": [5.0, 5.0, 40.0, 40.0]}]]
    assert repeated["leave_out_boxes"] is True


def test_an_unknown_task_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--task: unknown 'detection' \(did you mean 'object-detection'\?\)"):
        check_images(tmp_path, None, task="detection")


def test_turned_boxes_are_told(tmp_path: Path) -> None:
    for n, photo in enumerate(photos(60, "cat")):
        save(tmp_path / f"{photo.name}.jpg", n, orientation=6 if n < 2 else 1)
        write(tmp_path / f"{photo.name}.xml", xml(photo))
    checked = check_images(tmp_path, None, task=DETECTION.name)
    assert checked.split.notes == ("2 photos are stored rotated, and so were the boxes: they were turned.",)

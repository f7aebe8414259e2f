from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.core.errors import UsageError
from advisor.datasets.boxes import list_boxes
from tests.datasets.boxes.writers import Photo, coco, photos, save, write, write_coco, write_yolo


def _set(tmp_path: Path, **changed: Any) -> Path:
    """Write a set with some of the lists changed."""
    root = write_coco(tmp_path / "set", photos(3, "cat", "dog"))
    content = coco(photos(3, "cat", "dog"))
    write(root / "annotations" / "instances.json", json.dumps({**content, **changed}))
    return root


def _annotations(**of_second: Any) -> list[dict[str, Any]]:
    found = coco(photos(3, "cat", "dog"))["annotations"]
    return [found[0], {**found[1], **of_second}, *found[2:]]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"image_id": 99}, "its image_id is not in 'images'"),
        ({"image_id": [1]}, "its image_id is not in 'images'"),
        ({"category_id": 99}, "its category_id is not in 'categories'"),
        ({"bbox": [1, 2, 3]}, "bbox is not a list of four numbers"),
        ({"bbox": "all"}, "bbox is not a list of four numbers"),
        ({"bbox": [10, 10, -4, 5]}, "the right edge is left of the left one, or the bottom above the top"),
        ({"bbox": [0.1, 0.1, 0.4, 0.5]}, "coordinates from 0 to 1, where pixels are expected"),
        ({"iscrowd": 1}, "it marks a crowd (iscrowd), not one object"),
    ],
)
def test_a_wrong_annotation_is_counted_with_file_and_number(
    tmp_path: Path, changed: dict[str, Any], reason: str
) -> None:
    listing = list_boxes(_set(tmp_path, annotations=_annotations(**changed)))
    assert [(fault.place, fault.reason) for fault in listing.faults] == [("annotation 2 of 'instances.json'", reason)]
    assert sum(len(entry.boxes) for entry in listing.entries) == 5


def test_images_without_a_name_or_with_the_id_of_another_are_counted(tmp_path: Path) -> None:
    images = coco(photos(3, "cat", "dog"))["images"]
    images += [{"id": 9}, {"file_name": "000.jpg"}, {**images[0], "file_name": "other.jpg"}, "x"]
    reasons = [row.reason for row in list_boxes(_set(tmp_path, images=images)).rejected]
    assert reasons == [
        "image 4 has no file_name",
        "image 5 has no id",
        "image 6 has the id 0 of an image before it",
        "image 7 has no id",
    ]


def test_an_image_that_is_listed_twice_counts_once(tmp_path: Path) -> None:
    images = coco(photos(3, "cat", "dog"))["images"]
    listing = list_boxes(_set(tmp_path, images=[*images, {**images[0], "id": 9}]))
    assert len(listing.entries) == 3
    assert [row.reason for row in listing.rejected] == ["it has '000.jpg' a second time; the first counts"]


def test_numbers_that_one_list_has_as_text_are_known(tmp_path: Path) -> None:
    listing = list_boxes(_set(tmp_path, annotations=_annotations(image_id="0", category_id="7")))
    assert listing.faults == []


def test_a_category_without_a_box_is_a_class_of_the_listing(tmp_path: Path) -> None:
    categories = [*coco(photos(3, "cat", "dog"))["categories"], {"id": 0, "name": "animals"}]
    assert list_boxes(_set(tmp_path, categories=categories)).classes == ("cat", "dog", "animals")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1: Expecting property name"),
        ("[]", "has no list 'images'"),
        ('{"images": [], "categories": {}}', "has no list 'categories', but 'images', 'categories'"),
        ("[" * 100_000, "values nested more than"),
    ],
)
def test_a_file_that_is_not_coco_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        list_boxes(write(tmp_path / "a.json", text))
    assert caught.value.hint


def test_each_part_may_have_its_own_file_beside_its_images(tmp_path: Path) -> None:
    for part in ("train", "valid", "test"):
        write(tmp_path / part / "_annotations.coco.json", json.dumps(coco(photos(2, "cat"))))
        save(tmp_path / part / "000.jpg")
        save(tmp_path / part / "001.jpg")
    listing = list_boxes(tmp_path)
    assert sorted(entry.part for entry in listing.entries) == sorted(["train", "validation", "holdout"] * 2)
    assert all(entry.path.is_file() for entry in listing.entries)


def test_a_file_in_annotations_finds_its_images(tmp_path: Path) -> None:
    made = [Photo(photo.name, photo.objects, "val2017") for photo in photos(2, "cat")]
    listing = list_boxes(write_coco(tmp_path, made) / "annotations" / "instances_val2017.json")
    assert all(entry.path.is_file() for entry in listing.entries)


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    root = _set(tmp_path)
    path = root / "annotations" / "instances.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(list_boxes(root).entries) == 3


def test_a_file_of_any_name_counts_if_no_other_format_is_there(tmp_path: Path) -> None:
    root = _set(tmp_path)
    (root / "annotations" / "instances.json").rename(root / "labels.json")
    assert len(list_boxes(root).entries) == 3
    write_yolo(root, photos(3, "cat"))
    assert list_boxes(root).relative


def test_captions_beside_instances_are_not_read(tmp_path: Path) -> None:
    root = _set(tmp_path)
    write(root / "annotations" / "captions.json", "{}")
    assert len(list_boxes(root).entries) == 3


def test_the_size_that_the_file_states_is_kept(tmp_path: Path) -> None:
    assert {entry.size for entry in list_boxes(_set(tmp_path)).entries} == {(64, 48)}


def test_a_name_that_no_file_can_have_is_no_crash(tmp_path: Path) -> None:
    images = [{"id": 0, "file_name": "a" * 5000}, *coco(photos(3, "cat", "dog"))["images"][1:]]
    assert len(list_boxes(_set(tmp_path, images=images)).entries) == 3

"""What all formats have in common, and how the format of a path is found."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from advisor.datasets import BoxSurvey
from advisor.datasets._boxes import list_boxes
from tests.datasets.boxes.writers import WRITERS, Photo, coco, photos, write, write_coco, write_voc, write_yolo
from tests.datasets.folders import refusal
from tests.tables import with_cases

LABELS = st.sampled_from(("cat", "dog", "traffic light", "Müll 垃圾", "a<b>&c", 'say "hi", then'))
LEFT, TOP = st.integers(0, 50), st.integers(0, 35)
SIDES = st.integers(4, 13)
OBJECTS = st.lists(
    st.builds(lambda label, a, b, w, h: (label, a, b, a + w, b + h), LABELS, LEFT, TOP, SIDES, SIDES), max_size=4
)


@pytest.mark.parametrize("name", WRITERS)
def test_boxes_survive_each_format(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    @settings(max_examples=8)
    @given(st.lists(OBJECTS, min_size=2, max_size=4).filter(any))
    def check(found: list[list[tuple[str, int, int, int, int]]]) -> None:
        made = [Photo(f"{n:03d}", tuple(objects)) for n, objects in enumerate(found)]
        read = BoxSurvey.read_images(WRITERS[name](tmp_path_factory.mktemp("set"), made))
        assert read.faults == ()
        for photo, boxes in zip(made, read.boxes, strict=True):
            expected = sorted((label, *map(float, edges)) for label, *edges in photo.objects)
            assert sorted((box.label, *(round(edge, 6) for edge in box.edges)) for box in boxes) == expected

    check()


@pytest.mark.parametrize("name", WRITERS)
def test_the_users_own_split_is_read_from_each_format(name: str, tmp_path: Path) -> None:
    made = [
        Photo(f"{part}{n}", photo.objects, part)
        for part in ("train", "val", "test")
        for n, photo in enumerate(photos(2, "cat"))
    ]
    entries = list_boxes(WRITERS[name](tmp_path / "set", made)).entries
    assert sorted((entry.path.stem[:2], entry.part) for entry in entries) == [
        *[("te", "holdout")] * 2, *[("tr", "train")] * 2, *[("va", "validation")] * 2,
    ]  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_an_image_that_is_missing_is_counted(name: str, tmp_path: Path) -> None:
    path = WRITERS[name](tmp_path / "set", photos(6, "cat"))
    next((tmp_path / "set").rglob("003.jpg")).unlink()
    read = BoxSurvey.read_images(path)
    assert len(read.boxes) == 5
    assert read.classes == ("cat",), "one class is enough"
    assert [row.path.stem for row in read.images.dataset.rejected] == ["003"]


@pytest.mark.parametrize(("table", "hint"), [("", "Pascal VOC"), ("boxes.csv", "boxes.csv")])
def test_a_folder_without_boxes_points_at_its_table_or_names_the_formats(tmp_path: Path, table: str, hint: str) -> None:
    if table:
        write(tmp_path / table, "path\n")
    assert hint in refusal(list_boxes, tmp_path).hint


def test_two_formats_in_one_folder_are_named(tmp_path: Path) -> None:
    write_yolo(write_voc(tmp_path, photos(3, "cat")), photos(3, "cat"))
    assert "in 2 formats: Pascal VOC (XML files), YOLO (labels or class names)" in refusal(list_boxes, tmp_path).message
    assert len(list_boxes(tmp_path / "data.yaml").entries) == 6


def test_a_missing_path_names_the_nearest_and_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "boxes").mkdir()
    assert "did you mean 'boxes'" in refusal(list_boxes, tmp_path / "bxoes").hint
    assert "neither a table" in refusal(list_boxes, write(tmp_path / "set.txt", "x")).message


def _set(tmp_path: Path, **changed: Any) -> Path:
    """Write a set with some of the lists changed."""
    root = write_coco(tmp_path / "set", photos(3, "cat", "dog"))
    content = coco(photos(3, "cat", "dog"))
    write(root / "annotations" / "instances.json", json.dumps({**content, **changed}))
    return root


def _annotations(**of_second: Any) -> list[dict[str, Any]]:
    found = coco(photos(3, "cat", "dog"))["annotations"]
    return [found[0], {**found[1], **of_second}, *found[2:]]


@with_cases
def test_a_wrong_annotation_is_counted_with_its_number(tmp_path: Path, changed: dict[str, Any], reason: str) -> None:
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


def test_numbers_may_be_text_in_one_list_and_a_category_without_a_box_is_a_class(tmp_path: Path) -> None:
    listing = list_boxes(_set(tmp_path, annotations=_annotations(image_id="0", category_id="7")))
    assert listing.faults == []
    categories = [*coco(photos(3, "cat", "dog"))["categories"], {"id": 0, "name": "animals"}]
    assert list_boxes(_set(tmp_path, categories=categories)).classes == ("cat", "dog", "animals")


@with_cases
def test_a_file_that_is_not_coco_is_refused(tmp_path: Path, text: str, times: int, message: str) -> None:
    assert message in refusal(list_boxes, write(tmp_path / "a.json", text * times)).message


def test_a_file_in_annotations_or_of_any_name_is_found(tmp_path: Path) -> None:
    made = [Photo(photo.name, photo.objects, "val2017") for photo in photos(2, "cat")]
    listing = list_boxes(write_coco(tmp_path, made) / "annotations" / "instances_val2017.json")
    assert all(entry.path.is_file() for entry in listing.entries)
    root = _set(tmp_path)
    (root / "annotations" / "instances.json").rename(root / "labels.json")
    assert len(list_boxes(root).entries) == 3
    write_yolo(root, photos(3, "cat"))
    assert list_boxes(root).relative


def test_a_byte_order_mark_and_captions_beside_instances_change_nothing(tmp_path: Path) -> None:
    path = _set(tmp_path) / "annotations" / "instances.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    write(path.with_name("captions.json"), "{}")
    entries = list_boxes(path.parent.parent).entries
    assert [entry.size for entry in entries] == [(64, 48)] * 3  # as the file states it


def test_a_name_that_no_file_can_have_is_no_crash(tmp_path: Path) -> None:
    images = [{"id": 0, "file_name": "a" * 5000}, *coco(photos(3, "cat", "dog"))["images"][1:]]
    assert len(list_boxes(_set(tmp_path, images=images)).entries) == 3


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_yolo(tmp_path / "set", photos(4, "cat", "dog"))


@with_cases
def test_a_wrong_row_is_counted_with_file_and_line(root: Path, row: str, reason: str) -> None:
    write(root / "labels" / "001.txt", f"0 0.5 0.5 0.2 0.2\n\n{row}\n")
    listing = list_boxes(root)
    assert [(fault.place, fault.reason) for fault in listing.faults] == [("line 3 of '001.txt'", reason)]
    assert sum(len(entry.boxes) for entry in listing.entries) == 7


def test_images_need_no_labels_and_labels_need_an_image(root: Path) -> None:
    (root / "labels" / "001.txt").unlink()
    write(root / "labels" / "gone.txt", "0 0.5 0.5 0.2 0.2")
    listing = list_boxes(root)
    assert [len(entry.boxes) for entry in listing.entries] == [2, 0, 2, 2]
    assert [(row.path.name, row.reason) for row in listing.rejected] == [("gone.txt", "its image is missing")]


@pytest.mark.parametrize("text", ["nc: 2", "names: 3", "names: []", "- a", "names: !!python/name:os.system x"])
def test_names_that_are_none_are_refused(root: Path, text: str) -> None:
    assert "data.yaml" in refusal(list_boxes, write(root / "data.yaml", text)).message


def test_a_pipe_in_place_of_labels_is_not_waited_for(root: Path) -> None:
    (root / "labels" / "001.txt").unlink()
    os.mkfifo(root / "labels" / "001.txt")
    assert ["not a plain file" in row.reason for row in list_boxes(root).rejected] == [True]

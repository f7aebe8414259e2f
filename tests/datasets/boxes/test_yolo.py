from __future__ import annotations

from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.datasets.boxes import list_boxes
from advisor.datasets.boxes.reading import survey_boxes
from tests.datasets.boxes.writers import photos, save, write, write_yolo


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_yolo(tmp_path / "set", photos(4, "cat", "dog"))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("2 0.5 0.5 0.2 0.2", "class number 2, but the names are for 0 to 1"),
        ("-1 0.5 0.5 0.2 0.2", "class number -1, but the names are for 0 to 1"),
        ("cat 0.5 0.5 0.2 0.2", "class number cat, but the names are for 0 to 1"),
        ("0 0.5 0.5 0.2", "4 values, not a class number and centre x, centre y, width, height"),
        ("0 0.5 0.5 0.2 0.2 0.9", "6 values, not a class number and centre x, centre y, width, height"),
        ("0 0.5 0.5 -0.2 0.2", "the right edge is left of the left one, or the bottom above the top"),
        ("0 0.5 0.5 0 0.2", "no width or no height"),
        ("0 320 240 60 80", "pixels, where coordinates from 0 to 1 are expected"),
        ("0 0.5 0,5 0.2 0.2", "an edge is missing or not a number"),
        ("0 nan 0.5 0.2 0.2", "an edge is missing or not a number"),
    ],
)
def test_a_wrong_row_is_counted_with_file_and_line(root: Path, row: str, reason: str) -> None:
    write(root / "labels" / "001.txt", f"0 0.5 0.5 0.2 0.2\n\n{row}\n")
    listing = list_boxes(root)
    assert [(fault.place, fault.reason) for fault in listing.faults] == [("line 3 of '001.txt'", reason)]
    assert sum(len(entry.boxes) for entry in listing.entries) == 7


def test_a_polygon_gives_the_box_around_it(root: Path) -> None:
    write(root / "labels" / "001.txt", "0 0.25 0.5 0.5 0.25 0.75 0.5 0.5 0.75\n")
    assert [box.edges for box in survey_boxes(root).boxes[1]] == [(16.0, 12.0, 48.0, 36.0)]


def test_an_image_without_a_text_file_has_no_boxes(root: Path) -> None:
    (root / "labels" / "001.txt").unlink()
    assert [len(entry.boxes) for entry in list_boxes(root).entries] == [2, 0, 2, 2]


def test_labels_without_an_image_are_counted(root: Path) -> None:
    write(root / "labels" / "gone.txt", "0 0.5 0.5 0.2 0.2")
    assert [(row.path.name, row.reason) for row in list_boxes(root).rejected] == [("gone.txt", "its image is missing")]


@pytest.mark.parametrize("names", ["classes.txt", "labels/classes.txt", "obj.names"])
def test_names_may_be_lines_of_a_text_file(root: Path, names: str) -> None:
    (root / "data.yaml").unlink()
    write(root / names, "kitten\npuppy\n")
    listing = list_boxes(root)
    assert listing.classes == ("kitten", "puppy")
    assert listing.rejected == []


@pytest.mark.parametrize("text", ["names: [kitten, puppy]", "nc: 2\nnames: {0: kitten, 1: puppy}\n"])
def test_names_may_be_a_list_or_a_mapping(root: Path, text: str) -> None:
    write(root / "data.yaml", text)
    assert list_boxes(root).classes == ("kitten", "puppy")


@pytest.mark.parametrize("text", ["nc: 2", "names: 3", "names: []", "- a", "names: !!python/name:os.system x"])
def test_names_that_are_none_are_refused(root: Path, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        list_boxes(write(root / "data.yaml", text))
    assert "data.yaml" in caught.value.message
    assert caught.value.hint


def test_a_byte_order_mark_is_no_part_of_a_row_or_name(root: Path) -> None:
    for path in (root / "labels" / "000.txt", write(root / "classes.txt", "kitten\npuppy\n")):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    (root / "data.yaml").unlink()
    listing = list_boxes(root)
    assert (listing.classes, listing.faults) == (("kitten", "puppy"), [])


def test_labels_without_names_are_refused(root: Path) -> None:
    (root / "data.yaml").unlink()
    with pytest.raises(UsageError, match="no names of their classes"):
        list_boxes(root)


def test_parts_may_be_the_upper_folders(tmp_path: Path) -> None:
    for part in ("train", "valid"):
        save(tmp_path / part / "images" / "a.jpg")
        write(tmp_path / part / "labels" / "a.txt", "0 0.5 0.5 0.2 0.2")
    write(tmp_path / "data.yaml", "names: [cat]")
    listing = list_boxes(tmp_path)
    assert [(entry.part, len(entry.boxes)) for entry in listing.entries] == [("train", 1), ("validation", 1)]


def test_labels_may_lie_beside_the_images(tmp_path: Path) -> None:
    save(tmp_path / "a.jpg")
    write(tmp_path / "a.txt", "0 0.5 0.5 0.2 0.2")
    write(tmp_path / "classes.txt", "cat")
    assert [len(entry.boxes) for entry in list_boxes(tmp_path).entries] == [1]


def test_a_pipe_in_place_of_labels_is_not_waited_for(root: Path) -> None:
    import os

    (root / "labels" / "001.txt").unlink()
    os.mkfifo(root / "labels" / "001.txt")
    assert ["not a plain file" in row.reason for row in list_boxes(root).rejected] == [True]

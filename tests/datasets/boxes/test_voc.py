"""Boxes on photos that are stored rotated, with real files of all eight EXIF orientations."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from PIL import Image, ImageOps

from advisor.core import UsageError
from advisor.datasets import Box, BoxSurvey
from advisor.datasets._boxes import list_boxes
from advisor.datasets._boxes.reading import Frame
from tests.builders import must_fail
from tests.datasets.boxes.writers import Photo, photos, save, write, write_voc, xml

STORED = (60, 40)
PATCH = (8, 4, 24, 14)  # A white rectangle on black, in stored pixels
BACK = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 7, 8: 6}  # The orientation that turns an upright image back
ORIENTATIONS = range(1, 9)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_voc(tmp_path / "set", photos(5, "cat", "dog"))


def _reasons(root: Path) -> dict[str, str]:
    return {row.path.name: row.reason for row in list_boxes(root).rejected}


def test_what_has_no_image_or_annotation_or_is_damaged_is_counted(root: Path) -> None:
    (root / "JPEGImages" / "002.jpg").unlink()
    save(root / "JPEGImages" / "new.jpg")
    write(root / "Annotations" / "003.xml", "<annotation>\n<object></annotation>")
    write(root / "Annotations" / "again.xml", xml(photos(2, "cat")[1]))
    assert _reasons(root) == {
        "002.xml": "its image '002.jpg' is missing",
        "003.xml": "not an annotation: line 2: mismatched tag",
        "again.xml": "it has '001.jpg' a second time; the first counts",
        "new.jpg": "it has no annotation",
    }


def test_a_wrong_edge_is_counted_with_file_and_line(root: Path) -> None:
    photo = Photo("002", (("cat", 5, 5, 20, 20), ("dog", 30, 5, 10, 20)))
    write(root / "Annotations" / "002.xml", xml(photo, "<object><name>cat</name></object>"))
    fault, without_box = list_boxes(root).faults
    assert fault.path.name == "002.jpg"
    assert fault.place == "line 6 of '002.xml'"
    assert "right edge is left of the left one" in fault.reason
    assert without_box.reason == "an edge is missing or not a number"


def test_the_boxes_of_parts_of_an_object_are_no_objects_and_a_name_that_leads_out_is_not_followed(root: Path) -> None:
    part = "<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></part>"
    text = xml(photos(3, "cat")[2]).replace("</object>", f"{part}</object>")
    write(root / "Annotations" / "002.xml", text)
    assert BoxSurvey.read_images(root).contents[2] == {"cat": 1}
    outside = save(root.parent / "secret.jpg")
    write(root / "Annotations" / "x.xml", xml(Photo("../../secret")))
    assert outside not in {entry.path for entry in list_boxes(root).entries}
    assert "x.xml" in _reasons(root)


def test_a_listed_name_without_annotation_is_counted_and_an_image_in_two_parts_refused(root: Path) -> None:
    write(root / "ImageSets" / "Main" / "train.txt", "000\n001\n")
    write(root / "ImageSets" / "Main" / "test.txt", "\n002\n001\n")
    must_fail(UsageError, r"'001' is in two parts .*line 3 of 'test.txt' and line 2 of 'train.txt'", list_boxes, root)
    write(root / "ImageSets" / "Main" / "train.txt", "000\n001\nnowhere\n")
    write(root / "ImageSets" / "Main" / "test.txt", "002\n")
    assert _reasons(root) == {"nowhere": "it is listed in ImageSets, but has no annotation"}
    assert [entry.part for entry in list_boxes(root).entries] == ["train", "train", "holdout", "", ""]


def _photo(path: Path, orientation: int) -> tuple[int, int, int, int]:
    """Write a photo with the patch, and return the patch in its upright pixels, as Pillow shows it."""
    pixels = np.zeros((STORED[1], STORED[0], 3), np.uint8)
    pixels[PATCH[1] : PATCH[3], PATCH[0] : PATCH[2]] = 255
    exif = Image.Exif()
    exif[0x0112] = orientation
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, exif=exif, quality=95)
    with Image.open(path) as image:
        upright = np.asarray(ImageOps.exif_transpose(image).convert("L")) > 128
    rows, columns = np.nonzero(upright.any(axis=1))[0], np.nonzero(upright.any(axis=0))[0]
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def _voc(root: Path, orientation: int, size: tuple[int, int], box: tuple[int, ...]) -> None:
    photo = Photo(f"{orientation}", (("cat", *box),), size=size)  # type: ignore[arg-type]
    write(root / f"{photo.name}.xml", xml(photo))


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_boxes_of_the_upright_size_are_kept(tmp_path: Path, orientation: int) -> None:
    upright = _photo(tmp_path / f"{orientation}.jpg", orientation)
    _voc(tmp_path, orientation, Frame(STORED, orientation).upright, upright)
    read = BoxSurvey.read_images(tmp_path)
    assert read.boxes[0][0].edges == upright
    assert read.sizes == (Frame(STORED, orientation).upright,)
    assert read.turned == 0


def test_boxes_of_the_stored_size_are_turned_in_the_whole_set_as_pillow_turns_the_images(tmp_path: Path) -> None:
    expected = {f"{one}": _photo(tmp_path / f"{one}.jpg", one) for one in ORIENTATIONS}
    for orientation in ORIENTATIONS:
        _voc(tmp_path, orientation, STORED, PATCH)
    read = BoxSurvey.read_images(tmp_path)
    for image, boxes in zip(read.images.dataset.images, read.boxes, strict=True):
        assert boxes[0].edges == pytest.approx(expected[image.path.stem], abs=1)
    assert read.turned == 7


def test_edges_tell_whether_boxes_are_as_stored_and_one_careless_box_does_not(tmp_path: Path) -> None:
    _photo(tmp_path / "table" / "a.jpg", 6)
    table = write(tmp_path / "table" / "a.csv", "path,label,xmin,ymin,xmax,ymax\na.jpg,cat,45,4,58,30\n")
    read = BoxSurvey.read_images(table)
    assert read.turned == 1
    assert read.boxes[0][0].edges == (10, 45, 36, 58)
    upright = [(5, 45, 35, 58), (5, 30, 35, 55), (5, 5, 30, 20)]
    assert _portraits(tmp_path / "set", *upright) == upright
    drawn = [(45, 5, 58, 35), (30, 5, 55, 35), (5, 20, 30, 43)]
    assert _portraits(tmp_path / "set", *drawn) == [(5, 45, 35, 58), (5, 30, 35, 55), (0, 5, 20, 30)]


def _portraits(root: Path, *boxes: tuple[int, ...]) -> list[tuple[float, float, float, float]]:
    """Write photos that are stored rotated and state the stored size, and return their boxes as read."""
    for n, box in enumerate(boxes):
        save(root / f"{n}.jpg", n, STORED, 6)
        write(root / f"{n}.xml", xml(Photo(f"{n}", (("cat", *box),), size=STORED)))  # type: ignore[arg-type]
    return [read[0].edges for read in BoxSurvey.read_images(root).boxes]


def test_shares_are_of_the_upright_image(tmp_path: Path) -> None:
    _photo(tmp_path / "images" / "a.jpg", 6)
    write(tmp_path / "labels" / "a.txt", "0 0.5 0.5 0.5 0.5")
    write(tmp_path / "classes.txt", "cat")
    assert BoxSurvey.read_images(tmp_path).boxes[0][0].edges == (10, 15, 30, 45)


def test_an_image_of_another_size_than_stated_is_left_out(tmp_path: Path) -> None:
    for name, size in (("a", (64, 48)), ("b", (128, 96))):
        save(tmp_path / f"{name}.jpg", len(name))
        write(tmp_path / f"{name}.xml", xml(Photo(name, (("cat", 5, 5, 30, 30),), size=size)))
    (row,) = BoxSurvey.read_images(tmp_path).images.dataset.rejected
    assert row.reason == "'b.xml' is for 128x96 pixels, the image has 64x48"


@given(
    st.sampled_from(ORIENTATIONS), st.tuples(st.integers(1, 500), st.integers(1, 500)),
    st.tuples(*[st.integers(-50, 600)] * 4),
)  # fmt: skip
def test_a_box_is_turned_back(orientation: int, stored: tuple[int, int], edges: tuple[int, int, int, int]) -> None:
    box = Box("cat", min(edges[0], edges[2]), min(edges[1], edges[3]), max(edges[0], edges[2]), max(edges[1], edges[3]))
    frame = Frame(stored, orientation)
    turned = frame.turn_upright(box)
    assert turned.width >= 0
    assert Frame(frame.upright, BACK[orientation]).turn_upright(turned) == box

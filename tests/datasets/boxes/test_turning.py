"""Boxes on photos that are stored rotated, with real files of all eight EXIF orientations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from advisor.datasets.boxes import Box
from advisor.datasets.boxes.reading import survey_boxes
from advisor.datasets.boxes.turning import Frame
from tests.datasets.boxes.writers import Photo, save, write, xml

STORED = (60, 40)
PATCH = (8, 4, 24, 14)
"""A white rectangle on black, in stored pixels."""

BACK = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 7, 8: 6}
"""The orientation that turns an upright image back."""

ORIENTATIONS = range(1, 9)


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
def test_a_box_is_turned_as_pillow_turns_the_image(tmp_path: Path, orientation: int) -> None:
    upright = _photo(tmp_path / "a.jpg", orientation)
    turned = Frame(STORED, orientation).turned(Box("cat", *PATCH))
    assert turned.edges == pytest.approx(upright, abs=1)


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_boxes_of_the_upright_size_are_kept(tmp_path: Path, orientation: int) -> None:
    upright = _photo(tmp_path / f"{orientation}.jpg", orientation)
    _voc(tmp_path, orientation, Frame(STORED, orientation).upright, upright)
    read = survey_boxes(tmp_path)
    assert read.boxes[0][0].edges == upright
    assert read.sizes == (Frame(STORED, orientation).upright,)
    assert read.turned == 0


def test_boxes_of_the_stored_size_are_turned_in_the_whole_set(tmp_path: Path) -> None:
    expected = {f"{one}": _photo(tmp_path / f"{one}.jpg", one) for one in ORIENTATIONS}
    for orientation in ORIENTATIONS:
        _voc(tmp_path, orientation, STORED, PATCH)
    read = survey_boxes(tmp_path)
    for image, boxes in zip(read.images.dataset.images, read.boxes, strict=True):
        assert boxes[0].edges == pytest.approx(expected[image.path.stem], abs=1)
    assert read.turned == 7


def test_half_a_turn_alone_does_not_tell_and_is_read_as_upright(tmp_path: Path) -> None:
    upright = _photo(tmp_path / "3.jpg", 3)
    _voc(tmp_path, 3, STORED, upright)
    assert survey_boxes(tmp_path).boxes[0][0].edges == upright


def test_edges_outside_the_upright_image_tell_that_boxes_are_as_stored(tmp_path: Path) -> None:
    _photo(tmp_path / "a.jpg", 6)
    read = survey_boxes(write(tmp_path / "a.csv", "path,label,xmin,ymin,xmax,ymax\na.jpg,cat,45,4,58,30\n"))
    assert read.turned == 1
    assert read.boxes[0][0].edges == (10, 45, 36, 58)


def _portraits(root: Path, *boxes: tuple[int, ...]) -> list[tuple[float, float, float, float]]:
    """Write photos that are stored rotated and state the stored size, and return their boxes as read."""
    for n, box in enumerate(boxes):
        save(root / f"{n}.jpg", n, STORED, 6)
        write(root / f"{n}.xml", xml(Photo(f"{n}", (("cat", *box),), size=STORED)))  # type: ignore[arg-type]
    return [read[0].edges for read in survey_boxes(root).boxes]


def test_edges_that_contradict_the_stated_size_tell_that_boxes_are_upright(tmp_path: Path) -> None:
    upright = [(5, 45, 35, 58), (5, 30, 35, 55), (5, 5, 30, 20)]
    assert _portraits(tmp_path, *upright) == upright


def test_one_careless_box_does_not_contradict_the_stated_size(tmp_path: Path) -> None:
    drawn = [(45, 5, 58, 35), (30, 5, 55, 35), (5, 20, 30, 43)]
    assert _portraits(tmp_path, *drawn) == [(5, 45, 35, 58), (5, 30, 35, 55), (0, 5, 20, 30)]


def test_shares_are_of_the_upright_image(tmp_path: Path) -> None:
    _photo(tmp_path / "images" / "a.jpg", 6)
    write(tmp_path / "labels" / "a.txt", "0 0.5 0.5 0.5 0.5")
    write(tmp_path / "classes.txt", "cat")
    assert survey_boxes(tmp_path).boxes[0][0].edges == (10, 15, 30, 45)


def test_an_image_of_another_size_than_stated_is_left_out(tmp_path: Path) -> None:
    for name, size in (("a", (64, 48)), ("b", (128, 96))):
        save(tmp_path / f"{name}.jpg", len(name))
        write(tmp_path / f"{name}.xml", xml(Photo(name, (("cat", 5, 5, 30, 30),), size=size)))
    (row,) = survey_boxes(tmp_path).images.dataset.rejected
    assert row.reason == "'b.xml' is for 128x96 pixels, the image has 64x48"


@given(
    st.sampled_from(ORIENTATIONS), st.tuples(st.integers(1, 500), st.integers(1, 500)),
    st.tuples(*[st.integers(-50, 600)] * 4),
)  # fmt: skip
def test_turning_and_turning_back_gives_the_same_box(
    orientation: int, stored: tuple[int, int], edges: tuple[int, int, int, int]
) -> None:
    box = Box("cat", min(edges[0], edges[2]), min(edges[1], edges[3]), max(edges[0], edges[2]), max(edges[1], edges[3]))
    frame = Frame(stored, orientation)
    turned = frame.turned(box)
    assert turned.width >= 0
    assert Frame(frame.upright, BACK[orientation]).turned(turned) == box

"""The images with the most errors, as the page shows them."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from advisor.core.box_facts import JudgedBox, JudgedImage
from advisor.reporting.outlines import DRAWN, LOOKS, SIDE, photos

LABELS = ("cat", "dog")
SEEN, MISSED = JudgedBox(0, 0.1, 0.2, 0.5, 0.6, 1.0, True), JudgedBox(1, 0.0, 0.0, 0.5, 0.5, 1.0, False)
RIGHT, WRONG = JudgedBox(0, 0.1, 0.2, 0.5, 0.6, 0.876, True), JudgedBox(0, 0.0, 0.0, 0.5, 0.5, 0.5, False)


def drawn(folder: Path, size: tuple[int, int] = (800, 400), **changes: object) -> JudgedImage:
    """Draw an image, and return it with its boxes."""
    Image.new("RGB", size, (90, 120, 150)).save(folder / "a.jpg")
    sha256 = hashlib.sha256((folder / "a.jpg").read_bytes()).hexdigest()
    image = JudgedImage("a.jpg", sha256, *size, 0.5, (SEEN, MISSED), (RIGHT, WRONG))
    return replace(image, **changes)


def test_an_image_is_embedded_small_with_its_result_in_words(tmp_path: Path) -> None:
    (photo,) = photos([drawn(tmp_path)], tmp_path, LABELS)
    with Image.open(BytesIO(base64.b64decode(photo.image.split(",", 1)[1]))) as thumbnail:
        assert thumbnail.size == (SIDE, SIDE // 2)
    assert (photo.name, photo.width, photo.height, photo.f1) == ("a.jpg", 800, 400, 0.5)
    assert photo.result == "1 of 2 true boxes found; missed: 1 dog; wrong: 1 cat"


def test_each_kind_of_box_has_its_look_in_pixels_of_the_image(tmp_path: Path) -> None:
    (photo,) = photos([drawn(tmp_path)], tmp_path, LABELS)
    assert [box.look for box in photo.boxes] == list(LOOKS) == ["seen", "missed", "right", "wrong"]
    seen, right = photo.boxes[0], photo.boxes[2]
    assert (seen.left, seen.top, seen.width, seen.height) == pytest.approx((160, 40, 320, 160))
    assert (seen.title, right.title) == ("cat: true box, found", "cat: found, right, score 0.88")


def test_an_image_without_errors_says_so_by_its_counts(tmp_path: Path) -> None:
    (photo,) = photos([drawn(tmp_path, true=(SEEN,), found=(RIGHT,))], tmp_path, LABELS)
    assert photo.result == "1 of 1 true box found"


@pytest.mark.parametrize("path", ["gone.jpg", ".", "../a.jpg"])
def test_what_is_no_file_is_not_shown(tmp_path: Path, path: str) -> None:
    assert photos([drawn(tmp_path, path=path)], tmp_path, LABELS)[0].image == ""


def test_an_image_that_is_not_the_judged_one_is_not_shown(tmp_path: Path) -> None:
    assert photos([drawn(tmp_path, sha256="0" * 64)], tmp_path, LABELS)[0].image == ""


def test_a_class_that_has_no_name_keeps_its_number(tmp_path: Path) -> None:
    (photo,) = photos([drawn(tmp_path)], tmp_path, ())
    assert photo.result == "1 of 2 true boxes found; missed: 1 class 1; wrong: 1 class 0"


def test_only_so_many_boxes_are_drawn_and_all_are_counted(tmp_path: Path) -> None:
    (photo,) = photos([drawn(tmp_path, true=(SEEN,) * (DRAWN + 5), found=())], tmp_path, LABELS)
    assert len(photo.boxes) == DRAWN
    assert photo.result.startswith(f"{DRAWN + 5} of {DRAWN + 5} ")


def test_a_centre_has_a_small_square_around_it(tmp_path: Path) -> None:
    centre = JudgedBox(0, 0.5, 0.25, 0.5, 0.25, 0.9, True)
    (photo,) = photos([drawn(tmp_path, true=(), found=(centre,))], tmp_path, LABELS)
    (mark,) = photo.boxes
    assert mark.width == mark.height > 2
    assert (mark.left + mark.width / 2, mark.top + mark.height / 2) == pytest.approx((200, 200))

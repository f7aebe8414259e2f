from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.core.errors import UsageError
from advisor.datasets.others import read_others
from advisor.datasets.survey import Survey, survey

SIDE = 64


def draw(path: Path, seed: int) -> Path:
    """Write a picture of soft random blocks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    blocks = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(blocks).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(path, quality=95)
    return path


@pytest.fixture
def known(tmp_path: Path) -> Survey:
    for seed in range(6):
        draw(tmp_path / "data" / "ab"[seed % 2] / f"{seed}.jpg", seed)
    return survey(tmp_path / "data")


def test_images_at_any_depth_are_read(known: Survey, tmp_path: Path) -> None:
    files = {draw(tmp_path / "others" / name, seed) for name, seed in (("1.jpg", 10), ("deep/er/2.png", 11))}
    images, note = read_others(tmp_path / "others", known)
    assert {image.path for image in images} == files
    assert note == "--unknown: 2 images of other things"


def test_copies_of_known_images_are_left_out_and_counted(known: Survey, tmp_path: Path) -> None:
    draw(tmp_path / "others" / "1.jpg", 10)
    shutil.copy(tmp_path / "data" / "a" / "0.jpg", tmp_path / "others" / "same.jpg")
    with Image.open(tmp_path / "data" / "b" / "1.jpg") as image:
        image.resize((90, 90)).save(tmp_path / "others" / "resized.png")
    images, note = read_others(tmp_path / "others", known)
    assert [image.path.name for image in images] == ["1.jpg"]
    assert note == "--unknown: 1 image of other things; left out: 2 show the same as images of --data"


def test_a_file_that_cannot_be_read_is_counted(known: Survey, tmp_path: Path) -> None:
    draw(tmp_path / "others" / "1.jpg", 10)
    (tmp_path / "others" / "2.jpg").write_bytes(b"no image")
    assert read_others(tmp_path / "others", known)[1].endswith("left out: 1 cannot be read")


def test_a_folder_of_known_images_alone_is_refused(known: Survey, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can be used: 3 show the same as images of --data"):
        read_others(tmp_path / "data" / "a", known)


def test_a_folder_without_images_is_refused(known: Survey, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="--unknown: no image below"):
        read_others(tmp_path / "empty", known)


def test_a_missing_folder_names_the_nearest_one(known: Survey, tmp_path: Path) -> None:
    draw(tmp_path / "others" / "1.jpg", 10)
    with pytest.raises(UsageError, match="does not exist") as caught:
        read_others(tmp_path / "other", known)
    assert "others" in caught.value.hint


def test_a_file_in_place_of_a_folder_is_refused(known: Survey, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        read_others(draw(tmp_path / "others.jpg", 10), known)

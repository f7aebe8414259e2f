"""Photographs of large sensors, AVIF files, and archives of Windows."""

import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, features

from advisor.core import StageError
from advisor.datasets import list_files, load, open_image
from advisor.datasets._survey import read_file
from tests.datasets.folders import image, make

pytestmark = pytest.mark.integration

SIDE = 32


def test_a_jpeg_of_108_megapixels_is_read_at_a_reduced_scale(tmp_path: Path) -> None:
    Image.new("L", (12_000, 9_000), 90).save(tmp_path / "large.jpg")
    assert (load(tmp_path / "large.jpg", SIDE) == 90).all()
    assert not isinstance(read_file(tmp_path / "large.jpg"), str)
    with pytest.raises(ValueError, match="above the limit of 80 megapixels"):
        open_image(tmp_path / "large.jpg")


def test_a_large_progressive_jpeg_is_refused(tmp_path: Path) -> None:
    Image.new("L", (12_000, 9_000)).save(tmp_path / "progressive.jpg", progressive=True)
    with pytest.raises(StageError, match="above the limit of 80 megapixels"):
        load(tmp_path / "progressive.jpg", SIDE)


def test_avif_is_read(tmp_path: Path) -> None:
    if not features.check("avif"):
        pytest.skip("this Pillow has no AVIF")
    image(1).save(tmp_path / "a.avif", quality=90)
    image(1).save(tmp_path / "a.png")
    difference = load(tmp_path / "a.avif", SIDE).astype(int) - load(tmp_path / "a.png", SIDE)
    assert np.abs(difference).mean() < 4


def test_backslashes_in_a_zip_separate_folders(tmp_path: Path) -> None:
    root = make(tmp_path / "photos", cat=2, dog=2)
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        for file in sorted(root.rglob("*.jpg")):
            info = zipfile.ZipInfo("photos")
            info.filename = f"photos\\{file.parent.name}\\{file.name}"  # Its constructor would exchange them
            archive.writestr(info, file.read_bytes())
    listing = list_files(tmp_path / "photos.zip")
    assert Counter(entry.label for entry in listing.entries) == {"cat": 2, "dog": 2}

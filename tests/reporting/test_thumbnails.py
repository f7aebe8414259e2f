"""Small copies of images inside a page."""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.reporting.outlines import BYTES_PER_PIXEL, data_uri
from tests.datasets.folders import image

SIDE = 132


def test_a_thumbnail_is_small_and_carries_nothing_but_pixels(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x010E] = "a secret place"
    image(3, (800, 400)).save(tmp_path / "a.jpg", exif=exif)
    uri = data_uri(tmp_path / "a.jpg", SIDE)
    assert uri.startswith("data:image/jpeg;base64,")
    stored = base64.b64decode(uri.split(",", 1)[1])
    assert b"secret" not in stored
    with Image.open(BytesIO(stored)) as thumbnail:
        assert thumbnail.size == (SIDE, SIDE // 2)


@pytest.mark.parametrize("mode", ["P", "LA", "I;16", "CMYK", "1"])
def test_every_mode_gives_a_thumbnail(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    plain = image(3)
    (plain.convert("I").convert("I;16") if mode == "I;16" else plain.convert(mode)).save(path)
    assert data_uri(path, SIDE)


def test_what_cannot_be_read_gives_none(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8\xff no")
    assert data_uri(tmp_path / "a.jpg", SIDE) == data_uri(tmp_path / "gone.jpg", SIDE) == ""


def test_a_thumbnail_of_noise_has_a_lower_quality_and_stays_small(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (400, 400, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    stored = base64.b64decode(data_uri(tmp_path / "a.png", SIDE).split(",", 1)[1])
    assert 0 < len(stored) <= BYTES_PER_PIXEL * SIDE**2

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from skimage import data as skimage_data

from advisor.core.errors import StageError
from advisor.datasets.images import InputSpec, load
from tests.datasets.folders import image

SIZE = 32


@pytest.fixture
def photograph() -> Image.Image:
    return Image.fromarray(skimage_data.chelsea())


def _expected(image: Image.Image) -> np.ndarray:
    return np.asarray(image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR))


def test_the_whole_image_is_resized_to_the_square(photograph: Image.Image, tmp_path: Path) -> None:
    photograph.save(tmp_path / "a.png")
    loaded = load(tmp_path / "a.png", SIZE)
    assert loaded.dtype == np.uint8
    assert loaded.shape == (SIZE, SIZE, 3)
    np.testing.assert_array_equal(loaded, _expected(photograph))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(photograph: Image.Image, tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    photograph.save(tmp_path / "a.png", exif=exif)
    from PIL import ImageOps

    with Image.open(tmp_path / "a.png") as stored:
        upright = ImageOps.exif_transpose(stored)
    difference = load(tmp_path / "a.png", SIZE).astype(int) - _expected(upright)
    assert np.abs(difference).max() <= 1


@pytest.mark.parametrize("mode", ["L", "P", "1", "CMYK", "LA", "RGBA", "YCbCr"])
def test_every_mode_becomes_rgb(photograph: Image.Image, tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("a.jpg" if mode in {"CMYK", "YCbCr"} else "a.png")
    photograph.convert(mode).save(path, **({"quality": 95} if path.suffix == ".jpg" else {}))
    grey = mode in {"L", "1", "LA"}
    wanted = _expected(photograph.convert("L") if grey else photograph)
    assert np.abs(load(path, SIZE).astype(int) - wanted).mean() < 6


def test_sixteen_bit_grey_is_scaled_and_not_clipped(photograph: Image.Image, tmp_path: Path) -> None:
    grey = np.asarray(photograph.convert("L"))
    Image.fromarray(grey.astype(np.uint16) * 257).save(tmp_path / "a.png")
    Image.fromarray(grey).save(tmp_path / "b.png")
    np.testing.assert_array_equal(load(tmp_path / "a.png", SIZE), load(tmp_path / "b.png", SIZE))


def test_transparency_is_laid_on_white(tmp_path: Path) -> None:
    Image.new("RGBA", (40, 40), (255, 0, 0, 0)).save(tmp_path / "a.png")
    assert (load(tmp_path / "a.png", SIZE) == 255).all()


def test_a_transparent_palette_is_laid_on_white(tmp_path: Path) -> None:
    image = Image.new("P", (40, 40), 0)
    image.putpalette([0, 0, 0] * 256)
    image.save(tmp_path / "a.png", transparency=0)
    assert (load(tmp_path / "a.png", SIZE) == 255).all()


def test_an_animation_gives_its_first_frame(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (40, 40), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert load(tmp_path / "a.gif", SIZE)[0, 0].tolist() == [255, 0, 0]


def test_a_large_jpeg_read_at_reduced_scale_looks_the_same(photograph: Image.Image, tmp_path: Path) -> None:
    large = photograph.resize((1804, 1200), Image.Resampling.BICUBIC)
    large.save(tmp_path / "a.jpg", quality=95)
    difference = np.abs(load(tmp_path / "a.jpg", SIZE).astype(int) - _expected(large))
    assert difference.mean() < 2


def test_a_image_that_vanished_is_a_stage_error(tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"gone\.jpg") as caught:
        load(tmp_path / "gone.jpg", SIZE)
    assert "change" in caught.value.hint


def test_a_truncated_image_is_a_stage_error(tmp_path: Path) -> None:
    image(1, (200, 200)).save(tmp_path / "a.jpg")
    (tmp_path / "a.jpg").write_bytes((tmp_path / "a.jpg").read_bytes()[:900])
    with pytest.raises(StageError, match="truncated"):
        load(tmp_path / "a.jpg", SIZE)


def test_normalise_is_per_channel() -> None:
    pixels = np.array([[[0, 127, 255], [255, 0, 10]]], np.uint8)
    result = InputSpec(2, (0.0, 127.0, 5.0), (255.0, 128.0, 5.0)).normalise(pixels)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, [[[0, 0, 50], [1, -127 / 128, 1]]], rtol=1e-6)

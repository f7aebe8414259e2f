"""Images of more than 8 bits keep their brightness, or are left out with the reason."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.core import StageError
from advisor.datasets import load, survey
from tests.datasets.folders import image, make

SIDE = 32
GREY = np.asarray(image(1).convert("L"))
PLAIN = GREY.astype(np.float32)

WIDE = {
    "float of 0 to 1": (PLAIN / 255, "a.tif"),
    "float of 0 to 255": (PLAIN, "a.tif"),
    "12 bits in 16": ((PLAIN * 4095 / 255).round().astype(np.uint16), "a.png"),
    "16 bits": ((PLAIN * 257).astype(np.uint16), "a.png"),
    "8 bits in 32": (GREY.astype(np.int32), "a.tif"),
    "16 bits in 32": ((PLAIN * 257).astype(np.int32), "a.tif"),
}


@pytest.mark.parametrize("name", WIDE)
def test_a_photograph_of_any_range_has_the_brightness_of_eight_bits(tmp_path: Path, name: str) -> None:
    values, file = WIDE[name]
    Image.fromarray(values).save(tmp_path / file)
    Image.fromarray(GREY).save(tmp_path / "plain.png")
    expected = load(tmp_path / "plain.png", SIDE)
    np.testing.assert_allclose(load(tmp_path / file, SIDE), expected, atol=1)


@pytest.mark.parametrize("values", [PLAIN - 300, PLAIN * 1e6, np.full_like(PLAIN, np.nan)])
def test_values_without_a_usual_range_are_refused_with_it(tmp_path: Path, values: np.ndarray) -> None:
    Image.fromarray(values.astype(np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(StageError, match="its values go from .* save it with 8 bits, from 0 to 255"):
        load(tmp_path / "a.tif", SIDE)


def test_colours_of_twelve_bits_in_sixteen_are_refused(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    cv2.imwrite(str(tmp_path / "a.png"), np.asarray(image(1)).astype(np.uint16) * 16)
    with pytest.raises(StageError, match="stores 12 bits or fewer in 16"):
        load(tmp_path / "a.png", SIDE)


def test_a_set_says_how_many_images_were_scaled_and_which_were_left_out(tmp_path: Path) -> None:
    root = make(tmp_path, cat=3, dog=3)
    for name in ("a", "b"):
        Image.fromarray(PLAIN / 255).save(root / "cat" / f"{name}.tif")
    Image.fromarray(PLAIN * -1).save(root / "dog" / "c.tif")
    dataset = survey(root).dataset
    assert dataset.notes == ("2 images have values from 0 to 1, scaled to 0 to 255.",)
    assert [row.path.name for row in dataset.rejected] == ["c.tif"]
    assert "its values go from" in dataset.rejected[0].reason

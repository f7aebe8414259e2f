"""Tiles of a large image: where they are, and how the boxes that are found in them are joined."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from PIL import Image

from advisor.datasets import Tiling, load
from tests.tables import with_cases


@given(st.integers(2, 8), st.floats(0, 0.5))
def test_tiles_of_one_size_cover_the_image_and_overlap_as_asked(across: int, overlap: float) -> None:
    _, *windows = Tiling(across, overlap).windows
    rows = sorted({(top, bottom) for top, _, bottom, _ in windows})
    assert (len(windows), rows[0][0], rows[-1][1]) == (across**2, 0.0, pytest.approx(1.0))
    assert rows[0][1] - rows[1][0] == pytest.approx(overlap * rows[0][1], abs=1e-9)


@with_cases
def test_an_object_counts_once_by_the_box_that_is_not_cut(found: list[list[float]], stay: list[int]) -> None:
    tiling = Tiling(2, 0.2)
    tiles, labels, scores, *edges = (np.array(column) for column in zip(*found, strict=True))
    placed = [tiling.place_boxes(box, int(tile))[0] for tile, box in zip(tiles, np.stack(edges, axis=1), strict=True)]
    assert tiling.choose_boxes(np.array(placed), labels.astype(int), scores, tiles.astype(int)) == stay


def test_each_tile_of_an_upright_image_is_an_input(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (60, 80, 3)).astype(np.uint8)
    orientation = Image.Exif()
    orientation[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / "turned.png", exif=orientation)
    whole, *_, last = Tiling(2, 0.0).read(tmp_path / "turned.png", 30)
    assert abs(whole.astype(int) - load(tmp_path / "turned.png", 30)).max() <= 1
    upright = Image.fromarray(np.rot90(pixels, -1)[40:, 30:])
    differences = abs(last.astype(int) - np.asarray(upright.resize((30, 30), Image.Resampling.BILINEAR)))
    assert differences[2:, 2:].max() <= 1, "at its edges, a tile also reads the pixels beside it"

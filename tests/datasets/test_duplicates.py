"""Find near duplicates by their hashes."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from PIL import Image

from advisor.datasets import Division, Pair, Survey, _duplicates as duplicates
from advisor.datasets._checks import report_repeats
from advisor.datasets._duplicates import find_close_pairs, list_all_close
from tests.datasets.folders import make

hashes = st.integers(0, 2**64 - 1)
changes = st.lists(st.integers(0, 63), max_size=12)
ROTATED = {3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}
"""How the pixels of an upright image are stored for a value of EXIF's orientation."""


@given(st.lists(st.tuples(hashes, st.lists(changes, max_size=3)), min_size=1, max_size=12))
def test_looking_hashes_up_by_pieces_finds_what_comparing_all_finds(rows: list[tuple[int, list[list[int]]]]) -> None:
    values = [value ^ sum(1 << bit for bit in set(bits)) for value, copies in rows for bits in ([], *copies)]
    whole = np.array(values, np.uint64)
    others = whole[::-1]
    for second in (whole, others):
        assert find_close_pairs(whole, second) == set(list_all_close(whole, second))


@pytest.mark.parametrize("orientation", ROTATED)
def test_an_exif_copy_stays_in_its_part(tmp_path: Path, photographs: list[Image.Image], orientation: int) -> None:
    root = make(tmp_path, cat=9, dog=9)
    exif = Image.Exif()
    exif[0x0112] = orientation
    for number, photograph in enumerate(photographs):
        photograph.resize((400, 300)).save(root / "cat" / f"plain {number}.jpg")
        stored = photograph.resize((400, 300)).transpose(ROTATED[orientation])
        stored.save(root / "cat" / f"stored {number}.jpg", exif=exif)
    read = Survey.read(root)
    pairs = Pair.find_alike(read.thumbnails)
    names = [image.path.stem for image in read.dataset.images]
    found = {(names[pair.first], names[pair.second]) for pair in pairs}
    assert found == {(f"plain {number}", f"stored {number}") for number in range(4)}
    assert not any(pair.turned for pair in pairs)
    split = Division.of_survey(read, seed=0).split
    for first, second in ((pair.first, pair.second) for pair in pairs):
        assert sum({first, second} <= set(part) for part in (split.train, split.validation, split.holdout)) == 1


@given(st.binary(min_size=1024, max_size=1024))
def test_parts_are_enlarged_as_pillow_does(content: bytes) -> None:
    image = Image.frombytes("L", (32, 32), content)
    parts = duplicates._make_crops(content)
    for place, box in ((0, (0, 0, 31, 31)), (8, (0.25, 0.75, 31.25, 31.75)), (49, (2, 2, 32, 32))):
        expected = np.asarray(image.resize((32, 32), Image.Resampling.BILINEAR, box), np.float32).ravel()
        expected -= expected.mean()
        np.testing.assert_allclose(parts[place] * np.linalg.norm(expected), expected, atol=1e-3)


def test_a_crop_of_a_few_percent_is_a_copy(photographs: list[Image.Image]) -> None:
    def thumbnail(image: Image.Image) -> np.ndarray:
        return np.asarray(image.convert("L").resize((32, 32), Image.Resampling.BILINEAR))

    detailed = [photographs[0], photographs[1], photographs[3]]  # The rocket is a small part of a plain sky
    crops = [photograph.crop((12, 0, photograph.width, photograph.height - 9)) for photograph in detailed]
    pairs = Pair.find_alike(np.stack([*map(thumbnail, detailed), *map(thumbnail, crops)]))
    assert {(pair.first, pair.second) for pair in pairs} == {(number, number + 3) for number in range(3)}


def test_a_mirrored_copy_in_another_class_is_no_wrong_label(tmp_path: Path, photographs: list[Image.Image]) -> None:
    root = make(tmp_path, left=3, right=3)
    photographs[0].save(root / "left" / "arrow.png")
    photographs[0].transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(root / "right" / "arrow.png")
    read = Survey.read(root)
    pairs = Pair.find_alike(read.thumbnails)
    assert len(pairs) == 1
    assert list(report_repeats(read.dataset, pairs)) == []

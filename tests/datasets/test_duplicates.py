from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps

from advisor.datasets.duplicates import THUMBNAIL, Pair, groups, near_duplicates
from tests.datasets.folders import image


def _thumbnails(images: list[Image.Image]) -> np.ndarray:
    size = (THUMBNAIL, THUMBNAIL)
    return np.stack([np.asarray(image.convert("L").resize(size, Image.Resampling.BILINEAR)) for image in images])


def _recompressed(image: Image.Image, quality: int) -> Image.Image:
    stored = BytesIO()
    image.save(stored, "JPEG", quality=quality)
    return Image.open(stored)


@pytest.mark.parametrize(
    "change",
    [
        lambda image: image,
        lambda image: image.resize((150, 150)),
        lambda image: _recompressed(image, 20),
        lambda image: ImageEnhance.Brightness(image).enhance(1.15),
        lambda image: ImageEnhance.Contrast(image).enhance(0.8),
        lambda image: ImageOps.grayscale(image),
        lambda image: image.crop((3, 3, image.width - 3, image.height - 3)),
    ],
)
def test_changed_copies_are_found_and_nothing_else(photographs: list[Image.Image], change: object) -> None:
    copies = [change(image) for image in photographs]  # type: ignore[operator]
    found = near_duplicates(_thumbnails(photographs + copies))
    assert {(pair.first, pair.second) for pair in found} == {(index, index + 4) for index in range(4)}


def test_mirrored_images_are_not_the_same(photographs: list[Image.Image]) -> None:
    assert near_duplicates(_thumbnails([photographs[0], ImageOps.mirror(photographs[0])])) == ()


def test_different_images_are_not_alike() -> None:
    assert near_duplicates(_thumbnails([image(seed) for seed in range(300)])) == ()


def test_flat_images_of_other_levels_are_not_alike() -> None:
    flat = [Image.new("L", (40, 40), level) for level in (10, 11, 120, 240)]
    assert {(pair.first, pair.second) for pair in near_duplicates(_thumbnails(flat))} == {(0, 1)}


def test_equal_images_have_similarity_one(photographs: list[Image.Image]) -> None:
    (pair,) = near_duplicates(_thumbnails([photographs[0], photographs[1], photographs[0]]))
    assert pair == Pair(0, 2, 1.0)


def test_pairs_across_blocks_are_found(monkeypatch: pytest.MonkeyPatch, photographs: list[Image.Image]) -> None:
    from advisor.datasets import duplicates

    thumbnails = _thumbnails([*photographs, *photographs])
    whole = near_duplicates(thumbnails)
    monkeypatch.setattr(duplicates, "_BLOCK", 3)
    assert near_duplicates(thumbnails) == whole


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)).filter(lambda pair: pair[0] != pair[1]), max_size=30))
def test_groups_join_what_pairs_link(links: list[tuple[int, int]]) -> None:
    found = groups([Pair(min(link), max(link), 1.0) for link in links], 20)
    place = {index: number for number, group in enumerate(found) for index in group}
    assert all(place[first] == place[second] for first, second in links)
    assert sum(map(len, found)) == len({index for link in links for index in link})

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageFilter

from advisor.datasets.checks import crops
from advisor.datasets.checks.crops import SIDE, candidates, cropped_copies, match


def _grey(image: Image.Image) -> np.ndarray:
    soft = (
        image.convert("L").resize((2 * SIDE, 2 * SIDE), Image.Resampling.BILINEAR).filter(ImageFilter.GaussianBlur(1))
    )
    return np.asarray(soft.resize((SIDE, SIDE), Image.Resampling.BILINEAR), np.float32)


def _cut(image: Image.Image, left: float, top: float, kept: float) -> Image.Image:
    width, height = image.size
    return image.crop((int(left * width), int(top * height), int((left + kept) * width), int((top + kept) * height)))


@pytest.mark.parametrize(
    ("left", "top", "kept"), [(0.0, 0.0, 0.85), (0.1, 0.02, 0.88), (0.05, 0.05, 0.9), (0.0, 0.0, 1.0)]
)
def test_a_crop_matches_whichever_comes_first(
    photographs: list[Image.Image], left: float, top: float, kept: float
) -> None:
    for photograph in photographs:
        whole, part = _grey(photograph), _grey(ImageEnhance.Brightness(_cut(photograph, left, top, kept)).enhance(0.8))
        assert match(whole, part) > crops.MIN_MATCH
        assert match(part, whole) == match(whole, part)


def test_different_photographs_do_not_match(photographs: list[Image.Image]) -> None:
    values = [match(_grey(one), _grey(two)) for one in photographs for two in photographs if one is not two]
    assert max(values) < 0.8


def test_flat_images_match_nothing() -> None:
    flat = np.full((SIDE, SIDE), 90, np.float32)
    assert match(flat, flat) == 0.0


def test_candidates_are_near_in_features_and_unrelated_ones_are_not() -> None:
    draw = np.random.default_rng(0)
    features = draw.standard_normal((60, 64)).astype(np.float32)
    features[31] = features[7] + 0.3 * draw.standard_normal(64)
    assert candidates(features) == [(7, 31)]


def test_a_large_set_in_blocks_gives_the_same_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(1)
    features = draw.standard_normal((90, 1500)).astype(np.float32)
    features[40:50] = features[:10] + 0.2 * draw.standard_normal((10, 1500))
    whole = candidates(features)
    monkeypatch.setattr(crops, "_BLOCK", 7)
    monkeypatch.setattr(crops, "LARGE", 50)
    assert candidates(features) == whole == [(index, index + 40) for index in range(10)]


@pytest.mark.parametrize("count", [0, 1])
def test_sets_of_none_and_one_have_no_candidates(count: int) -> None:
    assert candidates(np.zeros((count, 8), np.float32)) == []


def test_what_only_looks_alike_to_the_network_is_left_out(tmp_path: Path, photographs: list[Image.Image]) -> None:
    images = [photographs[0], _cut(photographs[0], 0.0, 0.0, 0.9), photographs[1], photographs[2]]
    paths = [tmp_path / f"{number}.png" for number in range(4)]
    for image, path in zip(images, paths, strict=True):
        image.save(path)
    draw = np.random.default_rng(2)
    features = draw.standard_normal((2, 32)).astype(np.float32).repeat(2, axis=0)  # 0 like 1, 2 like 3
    (pair,) = cropped_copies(features, paths)
    assert (pair.first, pair.second) == (0, 1)


def test_a_image_that_went_is_passed_over(tmp_path: Path, photographs: list[Image.Image]) -> None:
    photographs[0].save(tmp_path / "a.png")
    features = np.array([[1, 0], [1, 0], [0, 1]], np.float32)
    assert cropped_copies(features, [tmp_path / "a.png", tmp_path / "gone.png", tmp_path / "a.png"]) == ()

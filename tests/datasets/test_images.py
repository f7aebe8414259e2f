import builtins
import os
import shutil
import zipfile
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from PIL import Image, ImageOps
from skimage import data

from advisor.core import ContentError, StageError, UsageError
from advisor.datasets import (
    Dataset,
    InputSpec,
    Survey,
    choose_images,
    draw_captures,
    list_files,
    load,
    open_image,
    random_capture,
    require_unchanged,
)
from advisor.datasets._capture import CONDITIONS, STRENGTHS, TESTS, CaptureCondition, apply_condition
from advisor.datasets._read_errors import explain_error
from advisor.datasets._survey import read_file
from advisor.tasks.classification._images import read_others
from tests.builders import must_fail
from tests.datasets.folders import fill, image, make
from tests.tables import with_cases

SIZE = 32
SIZE_OF_CAPTURE = 96
BY_NAME = {condition.name: condition for condition in CONDITIONS}
each = pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: condition.name)
SIDE = 64


@pytest.fixture
def photograph() -> Image.Image:
    return Image.fromarray(data.chelsea()).resize((150, 100))


def _expected(image: Image.Image) -> np.ndarray:
    return np.asarray(image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR))


@pytest.mark.parametrize("orientation", [1, 2, 6])
def test_exif_orientation_is_applied(photograph: Image.Image, tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    photograph.save(tmp_path / "a.png", exif=exif)
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


@pytest.mark.parametrize("mode", ["RGBA", "P"])
def test_transparency_is_laid_on_white(tmp_path: Path, mode: str) -> None:
    image = Image.new(mode, (40, 40), (255, 0, 0, 0) if mode == "RGBA" else 0)
    if mode == "P":
        image.putpalette([0, 0, 0] * 256)
    image.save(tmp_path / "a.png", **({"transparency": 0} if mode == "P" else {}))
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


def test_normalise_is_per_channel() -> None:
    pixels = np.array([[[0, 127, 255], [255, 0, 10]]], np.uint8)
    result = InputSpec(2, (0.0, 127.0, 5.0), (255.0, 128.0, 5.0)).normalise(pixels)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, [[[0, 0, 50], [1, -127 / 128, 1]]], rtol=1e-6)


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return Survey.read(make(tmp_path / "data", cat=9, dog=9)).dataset


def _require(dataset: Dataset) -> None:
    require_unchanged([image.path for image in dataset.images], [image.stamp for image in dataset.images])


def test_a_image_replaced_by_one_of_the_same_size_is_seen_by_its_time(dataset: Dataset) -> None:
    path = dataset.images[0].path
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(1, 1))
    must_fail(StageError, "1 image changed", _require, dataset)


def test_unchanged_images_pass_and_those_that_went_or_changed_are_told_of(dataset: Dataset) -> None:
    _require(dataset)
    dataset.images[2].path.unlink()
    image(1, (90, 60)).save(dataset.images[5].path)
    caught = must_fail(StageError, r"2 images changed .*002\.jpg", _require, dataset)
    assert "search again" in caught.hint


@pytest.fixture(scope="module")
def image_of_capture() -> np.ndarray:
    return np.asarray(Image.fromarray(data.astronaut()).resize((SIZE_OF_CAPTURE, SIZE_OF_CAPTURE)))


def _distance(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.abs(first.astype(float) - second).mean())


@each
def test_conditions_keep_shapes_and_follow_seeds(condition: CaptureCondition, image_of_capture: np.ndarray) -> None:
    before = image_of_capture.copy()
    for strength in STRENGTHS:
        changed, again = (apply_condition(image_of_capture, condition, strength, 3) for _ in range(2))
        assert (changed.shape, changed.dtype) == (before.shape, np.uint8)
        np.testing.assert_array_equal(changed, again)
    np.testing.assert_array_equal(image_of_capture, before)


@each
def test_the_smallest_images_can_be_taken_too(condition: CaptureCondition) -> None:
    for size in (1, 2, 7, 8, 15):
        tiny = np.full((size, size, 3), 128, np.uint8)
        assert apply_condition(tiny, condition, strength=2.0, seed=1).shape == tiny.shape


@each
def test_no_strength_changes_little_and_more_more(condition: CaptureCondition, image_of_capture: np.ndarray) -> None:
    assert _distance(apply_condition(image_of_capture, condition, 0.0, 1), image_of_capture) < 1.5
    distances = []
    for strength in STRENGTHS:
        changed = [apply_condition(image_of_capture, condition, strength, seed) for seed in range(8)]
        distances.append(np.mean([_distance(photo, image_of_capture) for photo in changed]))
    mild, strong = distances
    assert 1.0 < mild < strong


@pytest.mark.parametrize("name", ["framing", "perspective", "fisheye"])
def test_geometry_shows_nothing_from_outside_the_frame(name: str) -> None:
    white = np.full((SIZE_OF_CAPTURE, SIZE_OF_CAPTURE, 3), 255, np.uint8)
    for seed in range(5):
        assert apply_condition(white, BY_NAME[name], 2.0, seed).min() == 255


def test_low_light_darkens_and_a_colour_cast_shifts_grey_off_grey(image_of_capture: np.ndarray) -> None:
    dark = BY_NAME["low light"]
    mild, strong = (apply_condition(image_of_capture, dark, strength, 0).mean() for strength in STRENGTHS)
    assert strong < mild < 0.8 * image_of_capture.mean()
    grey = np.full((SIZE_OF_CAPTURE, SIZE_OF_CAPTURE, 3), 120, np.uint8)
    channels = apply_condition(grey, BY_NAME["colour cast"], 1.0, 0)[0, 0].astype(int)
    assert channels.max() - channels.min() > 10


@pytest.mark.parametrize(
    "array", [np.zeros((8, 9, 3), np.uint8), np.zeros((8, 8), np.uint8), np.zeros((8, 8, 3), np.float32)]
)
def test_what_is_no_square_rgb_image_is_refused(array: np.ndarray) -> None:
    must_fail(ValueError, "square RGB", apply_condition, array, CONDITIONS[0], 1.0, 0)


@pytest.mark.parametrize("strength", [-1.0, float("nan")])
def test_a_strength_below_zero_is_refused(strength: float, image_of_capture: np.ndarray) -> None:
    must_fail(ValueError, "strength", apply_condition, image_of_capture, CONDITIONS[0], strength, 0)


def test_captures_are_all_tests_of_the_loaded_image(tmp_path: Path) -> None:
    path = fill(tmp_path, 1, suffix=".png")[0]
    found = list(draw_captures(path, 32))
    assert len(found) == len(TESTS) == 2 * len(CONDITIONS)
    assert all(_distance(one, load(path, 32)) > 0 for one in found)
    for first, second in zip(found, draw_captures(path, 32), strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_random_capture_follows_its_seed(image_of_capture: np.ndarray) -> None:
    np.testing.assert_array_equal(random_capture(image_of_capture, [4, 1]), random_capture(image_of_capture, [4, 1]))
    assert len({random_capture(image_of_capture, [4, epoch]).tobytes() for epoch in range(6)}) == 6


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
    return Survey.read(tmp_path / "data")


def test_others_are_read_at_any_depth_without_copies_of_known_images_or_damage(known: Survey, tmp_path: Path) -> None:
    files = {draw(tmp_path / "others" / name, seed) for name, seed in (("1.jpg", 10), ("deep/er/2.png", 11))}
    images, note = read_others(tmp_path / "others", known)
    assert {image.path for image in images} == files
    assert note == "--unknown: 2 images of other things"
    shutil.copy(tmp_path / "data" / "a" / "0.jpg", tmp_path / "others" / "same.jpg")
    with Image.open(tmp_path / "data" / "b" / "1.jpg") as image:
        image.resize((90, 90)).save(tmp_path / "others" / "resized.png")
    (tmp_path / "others" / "2.jpg").write_bytes(b"no image")
    images, note = read_others(tmp_path / "others", known)
    assert {image.path for image in images} == files
    assert "left out: " in note
    assert "2 show the same as images of --data" in note
    assert "1 cannot be read" in note


@with_cases
def test_what_has_no_other_images_is_refused(known: Survey, tmp_path: Path, folder: str, message: str) -> None:
    draw(tmp_path / "others" / "1.jpg", 10)
    (tmp_path / "empty").mkdir()
    caught = must_fail(UsageError, message, read_others, tmp_path / folder, known)
    assert folder != "other" or "others" in caught.hint


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
    expected = load(tmp_path / "plain.png", SIZE)
    np.testing.assert_allclose(load(tmp_path / file, SIZE), expected, atol=1)


@pytest.mark.parametrize("values", [PLAIN - 300, PLAIN * 1e6, np.full_like(PLAIN, np.nan)])
def test_values_without_a_usual_range_are_refused_with_it(tmp_path: Path, values: np.ndarray) -> None:
    Image.fromarray(values.astype(np.float32)).save(tmp_path / "a.tif")
    must_fail(StageError, "its values go from .* save it with 8 bits, from 0 to 255", load, tmp_path / "a.tif", SIZE)


def test_colours_of_twelve_bits_in_sixteen_are_refused(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    cv2.imwrite(str(tmp_path / "a.png"), np.asarray(image(1)).astype(np.uint16) * 16)
    must_fail(StageError, "stores 12 bits or fewer in 16", load, tmp_path / "a.png", SIZE)


def test_a_set_says_how_many_images_were_scaled_and_which_were_left_out(tmp_path: Path) -> None:
    root = make(tmp_path, cat=3, dog=3)
    for name in ("a", "b"):
        Image.fromarray(PLAIN / 255).save(root / "cat" / f"{name}.tif")
    Image.fromarray(PLAIN * -1).save(root / "dog" / "c.tif")
    dataset = Survey.read(root).dataset
    assert dataset.notes == ("2 images have values from 0 to 1, scaled to 0 to 255.",)
    assert [row.path.name for row in dataset.rejected] == ["c.tif"]
    assert "its values go from" in dataset.rejected[0].reason


def jpeg(**options: int) -> bytes:
    """Return a photograph of noise, so that each pixel has bits of its own up to the last one."""
    stored = BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (80, 96, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(stored, "JPEG", quality=90, **options)
    return stored.getvalue()


@pytest.mark.parametrize("missing", [1, 2])
@pytest.mark.parametrize("progressive", [False, True])
def test_a_file_without_its_end_marker_is_the_whole_image(tmp_path: Path, missing: int, progressive: bool) -> None:
    data = jpeg(progressive=progressive)
    (tmp_path / "whole.jpg").write_bytes(data)
    (tmp_path / "short.jpg").write_bytes(data[:-missing])
    np.testing.assert_array_equal(load(tmp_path / "short.jpg", SIDE), load(tmp_path / "whole.jpg", SIDE))


@pytest.mark.parametrize("missing", [40, 3000])
@pytest.mark.parametrize("progressive", [False, True])
def test_a_file_without_its_last_pixels_is_refused(tmp_path: Path, missing: int, progressive: bool) -> None:
    (tmp_path / "short.jpg").write_bytes(jpeg(progressive=progressive)[:-missing])
    refused = must_fail(StageError, "image file is truncated", load, tmp_path / "short.jpg", SIDE)
    assert "change" in refused.hint


def test_a_set_says_how_many_files_lack_their_end(tmp_path: Path) -> None:
    root = make(tmp_path, cat=3, dog=3)
    (root / "cat" / "short.jpg").write_bytes(jpeg()[:-2])
    (root / "cat" / "half.jpg").write_bytes(jpeg()[:-3000])
    dataset = Survey.read(root).dataset
    assert dataset.notes == ("1 JPEG file lacks its end marker; all pixels are there.",)
    assert [row.path.name for row in dataset.rejected] == ["half.jpg"]


@with_cases
def test_an_image_whose_lower_part_is_missing_is_left_out(
    tmp_path: Path, size: int, noise: bool, rows: int, reason: str
) -> None:
    root = make(tmp_path, cat=3, dog=3)
    tail = np.random.default_rng(1).bytes(size) if noise else bytes(size)
    (root / "cat" / "broken.jpg").write_bytes(jpeg(restart_marker_rows=rows)[:-3000] + tail + b"\xff\xd9")
    Image.new("RGB", (960, 800), "white").save(root / "dog" / "flat.jpg", optimize=True)
    (row,) = Survey.read(root).dataset.rejected
    assert (row.path.name, row.reason) == ("broken.jpg", f"damaged: {reason}")


@with_cases
def test_a_reason_is_in_our_words_and_not_in_those_of_a_library(kind: str, values: list[Any], words: str) -> None:
    kinds = {**vars(builtins), "ContentError": ContentError, "BadZipFile": zipfile.BadZipFile}
    assert explain_error(kinds[kind](*values)) == words


def test_a_jpeg_of_108_megapixels_is_read_at_a_reduced_scale(tmp_path: Path) -> None:
    Image.new("L", (12_000, 9_000), 90).save(tmp_path / "large.jpg")
    assert (load(tmp_path / "large.jpg", SIZE) == 90).all()
    assert not isinstance(read_file(tmp_path / "large.jpg"), str)
    must_fail(ValueError, "above the limit of 80 megapixels", open_image, tmp_path / "large.jpg")


def test_a_large_progressive_jpeg_is_refused(tmp_path: Path) -> None:
    Image.new("L", (12_000, 9_000)).save(tmp_path / "progressive.jpg", progressive=True)
    must_fail(StageError, "above the limit of 80 megapixels", load, tmp_path / "progressive.jpg", SIZE)


def test_backslashes_in_a_zip_separate_folders(tmp_path: Path) -> None:
    root = make(tmp_path / "photos", cat=2, dog=2)
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        for file in sorted(root.rglob("*.jpg")):
            info = zipfile.ZipInfo("photos")
            info.filename = f"photos\\{file.parent.name}\\{file.name}"  # Its constructor would exchange them
            archive.writestr(info, file.read_bytes())
    listing = list_files(tmp_path / "photos.zip")
    assert Counter(entry.label for entry in listing.entries) == {"cat": 2, "dog": 2}


@given(st.lists(st.integers(0, 4), min_size=1, max_size=100), st.integers(1, 60), st.integers(0, 9))
def test_the_choice_takes_classes_in_turn(labels: list[int], count: int, seed: int) -> None:
    chosen = choose_images(labels, count, seed)
    assert len(chosen) == len(set(chosen)) == min(count, len(labels))
    taken, had = Counter(labels[place] for place in chosen), Counter(labels)
    fullest = max(taken.values())
    assert all(taken[label] >= min(had[label], fullest - 1) for label in had)


def test_the_choice_follows_the_seed() -> None:
    labels = [0, 1] * 50
    assert choose_images(labels, 10, 0) == choose_images(labels, 10, 0) != choose_images(labels, 10, 1)


def test_images_come_as_the_model_takes_them(tmp_path: Path) -> None:
    paths = fill(tmp_path, 3)
    found = InputSpec(16, (10.0, 20.0, 30.0), (2.0, 4.0, 8.0)).read_all(paths)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[1], (load(paths[1], 16) - np.array([10, 20, 30])) / np.array([2, 4, 8]), rtol=1e-6)


def test_photographs_are_many_and_different_and_smooth_as_no_noise_is() -> None:
    crops = InputSpec(64, (0.0,) * 3, (255.0,) * 3).draw_photographs()
    assert len(crops) >= 40
    assert len({crop.tobytes() for crop in crops}) == len(crops)
    assert 0.0 <= crops.min() < 0.05
    assert 0.95 < crops.max() <= 1.0
    steps = np.abs(np.diff(crops, axis=2)).mean(axis=(1, 2, 3))
    spread = crops.std(axis=(1, 2, 3))
    assert (steps < 0.8 * spread).all()

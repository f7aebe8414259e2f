import os
import shutil
import struct
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageOps, features

from advisor.core import install_extra
from advisor.datasets import Dataset, Survey, _image_files as images, load, require_usable
from advisor.datasets._duplicates import THUMBNAIL, Pair
from advisor.datasets._grouping import group_look_alikes, groups_tell_classes
from tests.datasets.folders import claims, fill, image, make, refusal
from tests.tables import with_cases

AVIF = [".avif"] if features.check("avif") else []
CLASSES, EACH = 4, 40
LABELS = [label for label in range(CLASSES) for _ in range(EACH)]
VISITS = [place // (EACH // 5) for place in range(len(LABELS))]


def read(path: Path) -> Dataset:
    """Read a data set as a search does."""
    dataset = Survey.read(path).dataset
    require_usable(dataset)
    return dataset


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path / "data", cat=9, dog=10)


@pytest.mark.parametrize("suffix", [".png", ".webp", ".bmp", ".gif", ".JPEG", *AVIF])
def test_images_of_every_format_are_read_with_their_classes(root: Path, suffix: str) -> None:
    fill(root / "bird", 8, first=50, suffix=suffix)
    dataset = read(root)
    assert dataset.counts == (8, 9, 10)
    assert all(dataset.classes[row.label] == row.path.parent.name for row in dataset.images)


def test_nested_images_belong_to_the_class_and_hidden_ones_to_none(root: Path) -> None:
    fill(root / "cat" / "monday" / "morning", 2, first=70)
    fill(root / "cat" / ".thumbnails", 2, first=80)
    fill(root / ".cache", 9, first=90)
    (root / "cat" / ".hidden.jpg").write_bytes(b"no image")
    (root / "cat" / "notes.txt").write_text("no image")
    dataset = read(root)
    assert dataset.counts == (11, 10)
    assert dataset.rejected == ()


def test_a_file_without_extension_is_known_by_its_content(root: Path) -> None:
    image(5).save(root / "cat" / "plain", format="PNG")
    (root / "cat" / "README").write_text("no image")
    assert read(root).counts == (10, 10)


def test_damaged_files_are_rejected_with_their_reasons(root: Path) -> None:
    whole = (root / "cat" / "000.jpg").read_bytes()
    (root / "cat" / "empty.jpg").touch()
    (root / "cat" / "half.jpg").write_bytes(whole[: len(whole) // 2])
    (root / "cat" / "text.png").write_text("not an image")
    image(3, (1, 1)).save(root / "cat" / "tiny.png")
    (root / "cat" / "raw.dng").write_bytes(b"II*")
    reasons = {row.path.name: row.reason for row in Survey.read(root).dataset.rejected}
    assert reasons["empty.jpg"] == "the file is empty"
    assert "truncated" in reasons["half.jpg"].lower()
    assert "not a JPEG" in reasons["text.png"]
    assert "1x1" in reasons["tiny.png"]
    assert "convert it" in reasons["raw.dng"]


def test_photographs_of_iphones_and_scans_are_read(root: Path) -> None:
    image(3).save(root / "cat" / "scan.tiff")
    shutil.copy(Path(__file__).with_name("two_colours.heic"), root / "dog" / "phone.HEIC")
    found = read(root)
    assert (found.counts, found.rejected) == ((10, 11), ())
    pixels = load(root / "dog" / "phone.HEIC", 8)
    assert np.abs(pixels[0, 0].astype(int) - (230, 30, 30)).max() < 12
    assert np.abs(pixels[7, 7].astype(int) - (20, 60, 220)).max() < 12


def test_without_its_reader_a_photo_of_an_iphone_names_the_extra(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(Path(__file__).with_name("two_colours.heic"), root / "dog" / "phone.heic")
    monkeypatch.setattr(images, "list_formats", lambda: images.FORMATS)
    (lost,) = Survey.read(root).dataset.rejected
    assert lost.reason.startswith(f".heic needs a reader that is not installed: {install_extra('heic')}")


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".bmp", ".gif", ".tif"])
def test_truncation_is_found_in_every_format(tmp_path: Path, suffix: str) -> None:
    path = make(tmp_path / "data", cat=1, dog=1) / "cat" / f"cut{suffix}"
    image(9, (200, 150)).save(path)
    path.write_bytes(path.read_bytes()[:-200])
    assert [row.path.name for row in Survey.read(tmp_path / "data").dataset.rejected] == [path.name]


def test_an_image_of_too_many_pixels_is_refused_by_its_header(root: Path) -> None:
    (root / "cat" / "bomb.png").write_bytes(claims(30_000, 30_000))
    (root / "cat" / "wide.png").write_bytes(claims(10_000, 8_500))
    image(1, (30_000, 20)).save(root / "cat" / "strip.png")
    info = struct.pack("<IiiHHIIiiII", 40, 30_000, 30_000, 1, 24, 0, 0, 0, 0, 0, 0)
    header = b"BM" + struct.pack("<IHHI", 54 + 99, 0, 0, 54) + info
    (root / "cat" / "huge.bmp").write_bytes(header + bytes(99))  # it claims more pixels than it holds
    reasons = {row.path.name: row.reason for row in Survey.read(root).dataset.rejected}
    assert "bomb" in reasons["bomb.png"]
    assert "bomb" in reasons["huge.bmp"]
    assert "10000x8500" in reasons["wide.png"]
    assert "strip.png" not in reasons


def test_what_is_no_regular_file_is_not_waited_for(root: Path) -> None:
    os.mkfifo(root / "cat" / "pipe")  # nothing says that it is an image
    os.mkfifo(root / "cat" / "pipe.jpg")
    (root / "dog" / "endless.png").symlink_to("/dev/zero")
    (root / "dog" / "gone.jpg").symlink_to(root / "nowhere.jpg")
    reasons = [row.reason for row in Survey.read(root).dataset.rejected]
    assert reasons == [*["not a regular file"] * 2, "cannot be read: No such file or directory"]


def test_fingerprint_follows_the_data_and_not_the_place(root: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(root, moved)
    (moved / "cat" / "000.jpg").rename(moved / "cat" / "zzz.jpg")
    assert read(moved).fingerprint == read(root).fingerprint
    (moved / "cat" / "zzz.jpg").rename(moved / "dog" / "zzz.jpg")
    assert read(moved).fingerprint != read(root).fingerprint


def test_a_missing_folder_names_the_nearest(root: Path) -> None:
    assert "did you mean 'data'" in refusal(read, root.parent / "dta").hint


@with_cases
def test_what_is_no_set_of_classes_is_refused(tmp_path: Path, made: dict[str, int], path: str, message: str) -> None:
    assert message in refusal(read, make(tmp_path, **made) / path).message


def test_every_small_class_is_named_with_its_count(tmp_path: Path) -> None:
    message = refusal(read, make(tmp_path / "data", cat=7, dog=9, owl=2, bat=0)).message
    assert all(named in message for named in ("'cat' (7)", "'owl' (2)", "'bat' (0)"))
    assert "dog" not in message.split("in ", 1)[1]


def test_too_many_unreadable_images_are_counted_with_examples(root: Path) -> None:
    for number in range(5):
        (root / "cat" / f"broken{number}.jpg").touch()
    message = refusal(read, root).message
    assert "5 of 24" in message
    assert "cat/broken0.jpg" in message


def test_classes_that_differ_by_case_or_blanks_are_refused(root: Path) -> None:
    fill(root / "Cat ", 8, first=40)
    assert "'Cat '" in refusal(read, root).message


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
    found = Pair.find_alike(_thumbnails(photographs + copies))
    assert {(pair.first, pair.second) for pair in found} == {(index, index + 4) for index in range(4)}


@pytest.mark.parametrize("turn", list(Image.Transpose))
def test_mirrored_and_turned_copies_are_found(photographs: list[Image.Image], turn: Image.Transpose) -> None:
    copies = [photograph.transpose(turn) for photograph in photographs]
    pairs = Pair.find_alike(_thumbnails(photographs + copies))
    assert {(pair.first, pair.second, pair.turned) for pair in pairs} == {(n, n + 4, True) for n in range(4)}


def test_classes_with_colours_of_their_own_need_no_groups_and_clear_visits_count() -> None:
    assert Pair.find_alike(_thumbnails([image(seed) for seed in range(300)])) == ()
    flat = [Image.new("L", (40, 40), level) for level in (10, 11, 120, 240)]
    assert {(pair.first, pair.second) for pair in Pair.find_alike(_thumbnails(flat))} == {(0, 1)}
    random = np.random.default_rng(0)
    centres = random.permutation(np.linspace(40, 210, CLASSES))[:, None].repeat(12, axis=1)
    assert not _tell(*_small(centres[LABELS] + random.normal(0, 10, (len(LABELS), 12))))
    for seed in range(2):
        random = np.random.default_rng(seed)
        centres = random.permutation(np.linspace(40, 210, CLASSES)).repeat(5)[:, None] + random.normal(0, 8, (20, 12))
        assert _tell(*_small(centres[VISITS] + random.normal(0, 2, (len(LABELS), 12))))


def test_pairs_across_blocks_are_found(monkeypatch: pytest.MonkeyPatch, photographs: list[Image.Image]) -> None:
    from advisor.datasets import _duplicates as duplicates

    thumbnails = _thumbnails([*photographs, *photographs])
    whole = Pair.find_alike(thumbnails)
    monkeypatch.setattr(duplicates, "_BLOCK", 3)
    assert Pair.find_alike(thumbnails) == whole


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)).filter(lambda pair: pair[0] != pair[1]), max_size=30))
def test_groups_join_what_pairs_link(links: list[tuple[int, int]]) -> None:
    found = Pair.group_images([Pair(min(link), max(link), 1.0) for link in links], 20)
    place = {index: number for number, group in enumerate(found) for index in group}
    assert all(place[first] == place[second] for first, second in links)
    assert sum(map(len, found)) == len({index for link in links for index in link})


def _single(seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Independent images; the colours of a class are near its own point."""
    random = np.random.default_rng(seed)
    return _small(random.normal(128, 12, (CLASSES, 12))[LABELS] + random.normal(0, 20, (len(LABELS), 12)))


def _visits(seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Five visits a class; the images of a visit are near its own point."""
    random = np.random.default_rng(seed)
    return _small(random.normal(128, 25, (5 * CLASSES, 12))[VISITS] + random.normal(0, 4, (len(LABELS), 12)))


def _small(values: NDArray[np.float64]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    whole = np.clip(values, 0, 255).astype(np.uint8)
    return whole.reshape(len(whole), 2, 2, 3), whole


def _tell(colours: NDArray[np.uint8], histograms: NDArray[np.uint8]) -> bool:
    return groups_tell_classes(colours, histograms, LABELS, group_look_alikes(colours, LABELS))


def test_visits_are_found_and_cells_share_no_group() -> None:
    groups = group_look_alikes(_visits(0)[0], LABELS)
    for start in range(0, CLASSES * EACH, EACH // 5):
        assert len(set(groups[start : start + EACH // 5])) == 1
    groups = group_look_alikes(_single(0)[0], LABELS)
    assert len(set(zip(groups, LABELS, strict=True))) == len(set(groups))


def test_visits_tell_classes_and_accidental_groups_or_one_for_each_class_do_not() -> None:
    for seed in range(3):
        assert _tell(*_visits(seed))
        assert not _tell(*_single(seed))
    assert not groups_tell_classes(*_visits(0), LABELS, LABELS)


def test_the_same_image_ten_thousand_times_is_one_group_of_as_many_pairs() -> None:
    one, other = _thumbnails([image(1), image(2)])
    thumbnails = np.concatenate([np.repeat(one[None], 10_000, 0), other[None]])
    found = Pair.find_alike(thumbnails)
    assert len(found) == 9_999
    assert Pair.group_images(found, len(thumbnails)) == (tuple(range(10_000)),)


def test_copies_of_similar_images_are_one_group(tmp_path: Path) -> None:
    (one,) = _thumbnails([image(1)])
    near = np.clip(one.astype(int) + np.arange(32) % 2, 0, 255).astype(np.uint8)
    found = Pair.find_alike(np.stack([one, near, one, near]))
    assert Pair.group_images(found, 4) == ((0, 1, 2, 3),)
    assert (0, 3) in {(pair.first, pair.second) for pair in found}

"""JPEG files that end too early: those with all pixels are used, the others are left out; why a file is not read."""

import errno
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.core import ContentError, StageError
from advisor.datasets import load, survey
from advisor.datasets._read_errors import reason_of
from tests.datasets.folders import make
from tests.requirements import shared_case

SIDE = 64


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
    with pytest.raises(StageError, match="image file is truncated") as refused:
        load(tmp_path / "short.jpg", SIDE)
    assert "change" in refused.value.hint


def test_a_set_says_how_many_files_lack_their_end(tmp_path: Path) -> None:
    root = make(tmp_path, cat=3, dog=3)
    (root / "cat" / "short.jpg").write_bytes(jpeg()[:-2])
    (root / "cat" / "half.jpg").write_bytes(jpeg()[:-3000])
    dataset = survey(root).dataset
    assert dataset.notes == ("1 JPEG file lacks its end marker; all pixels are there.",)
    assert [row.path.name for row in dataset.rejected] == ["half.jpg"]


@pytest.mark.parametrize(
    ("tail", "rows", "reason"),
    [
        (b"", 0, "image file is truncated"),
        (bytes(2998), 0, "a part of its pixels is broken"),
        (np.random.default_rng(1).bytes(2998), 0, "a part of its pixels is broken"),
        (bytes(2998), 1, "a part of its pixels is broken"),
    ],
)
def test_an_image_whose_lower_part_is_missing_is_left_out(tmp_path: Path, tail: bytes, rows: int, reason: str) -> None:
    root = make(tmp_path, cat=3, dog=3)
    (root / "cat" / "broken.jpg").write_bytes(jpeg(restart_marker_rows=rows)[:-3000] + tail + b"\xff\xd9")
    Image.new("RGB", (960, 800), "white").save(root / "dog" / "flat.jpg", optimize=True)
    (row,) = survey(root).dataset.rejected
    assert (row.path.name, row.reason) == ("broken.jpg", f"damaged: {reason}")


def test_all_images_of_a_real_set_without_end_markers_are_used(tmp_path: Path) -> None:
    case = shared_case("jpeg_without_end_marker.zip")
    zipfile.ZipFile(case).extractall(tmp_path)
    dataset = survey(tmp_path).dataset
    assert not dataset.rejected
    assert any("lack their end marker" in note for note in dataset.notes)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ContentError("row 3 has no image"), "row 3 has no image"),
        (OSError(errno.EIO, "x"), "x"),
        (zipfile.BadZipFile("Bad magic number for file header"), "Bad magic number for file header"),
        (ValueError("buffer size must be a multiple of element size"), "its content is not valid"),
        (RuntimeError("Unable to cast Python instance of type <class 'str'> to C++ type"), "its content is not valid"),
        (MemoryError(), "it takes more memory than its reader may have"),
        (RuntimeError("malloc of size 9223372036854775808 failed"), "it takes more memory than its reader may have"),
        (UnicodeDecodeError("utf-8", b"a", 0, 1, "invalid start byte"), "its text is not UTF-8"),
        (EOFError("marker not found"), "it ends too early"),
    ],
)
def test_a_reason_is_in_our_words_and_not_in_those_of_a_library(error: Exception, words: str) -> None:
    assert reason_of(error) == words

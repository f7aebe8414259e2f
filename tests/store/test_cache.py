"""A result in the cache is used only with the content that it was written with."""

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from advisor.store import (
    ArtifactCache,
    add_block,
    compute_cached_rows,
    fill_folder,
    find_changed_file,
    read_cached_sha256,
    sha256_file,
    write_block,
)


def write(content: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / "deep").mkdir()
        (folder / "deep" / "part").write_text("part")
        (folder / "model.tflite").write_text(content)

    return make


def overwrite(file: Path, content: bytes) -> None:
    file.chmod(0o644)
    file.write_bytes(content)


@pytest.fixture
def result(tmp_path: Path) -> Path:
    return ArtifactCache(tmp_path).get("compress-3", {}, write("made"))


@pytest.mark.parametrize("name", ["model.tflite", "deep/part"])
def test_a_result_that_has_changed_is_made_again_and_its_file_is_named(
    result: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    overwrite(result / name, b"other")
    assert ArtifactCache(tmp_path).get("compress-3", {}, write("again")) == result
    assert (result / "model.tflite").read_text() == "again"
    assert f"{result / name} has changed since it was cached" in caplog.text


def test_a_result_that_lacks_a_file_is_made_again(result: Path, tmp_path: Path) -> None:
    (result / "model.tflite").unlink()
    ArtifactCache(tmp_path).get("compress-3", {}, write("again"))
    assert (result / "model.tflite").read_text() == "again"


def test_a_written_result_is_kept_and_bytecode_is_no_change(result: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill_folder(result, write("again"))
    assert (result / "model.tflite").read_text() == "made"
    assert not caplog.records
    (result / "__pycache__").mkdir()
    (result / "__pycache__" / "a.pyc").write_text("x")
    assert find_changed_file(result) is None


def test_the_result_of_an_older_version_is_accepted_and_a_later_change_is_found(result: Path, tmp_path: Path) -> None:
    Path(f"{result}.sha256").unlink()
    assert find_changed_file(result) is None
    ArtifactCache(tmp_path).get("compress-3", {}, write("again"))
    overwrite(result / "model.tflite", b"other")
    assert find_changed_file(result) == result / "model.tflite"


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_hashes_that_are_no_file_are_written_again(result: Path, tmp_path: Path, make: Callable[[Path], None]) -> None:
    hashes = Path(f"{result}.sha256")
    hashes.unlink()
    make(hashes)
    assert find_changed_file(result) == hashes
    assert ArtifactCache(tmp_path).get("compress-3", {}, write("again")) == result
    assert find_changed_file(result) is None


def test_the_hash_of_a_cached_file_is_read_and_that_of_another_file_computed(result: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("other")
    assert read_cached_sha256(result / "model.tflite") == sha256_file(result / "model.tflite")
    assert read_cached_sha256(tmp_path / "other") == sha256_file(tmp_path / "other")


def test_rows_of_a_block_that_has_changed_are_computed_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    names, asked = [bytes([number]) * 32 for number in range(3)], list[int]()

    def compute(missing: Sequence[int]) -> NDArray[np.float32]:
        asked.extend(missing)
        return np.ones((len(missing), 2), np.float32)

    block = fill_folder(tmp_path / "block", lambda folder: write_block(folder, names, np.ones((3, 2), np.float32)))
    add_block(tmp_path / "blocks", block)
    compute_cached_rows(tmp_path / "blocks", names, compute)
    assert not asked
    data = bytearray((block / "rows.npy").read_bytes())
    data[-1] ^= 1
    overwrite(block / "rows.npy", bytes(data))
    with caplog.at_level(logging.WARNING):
        compute_cached_rows(tmp_path / "blocks", names, compute)
    assert asked == [0, 1, 2]
    assert str(block / "rows.npy") in caplog.text

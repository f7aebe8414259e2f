"""A result in the cache is used only with the content that it was written with."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.store import ArtifactCache, fill_folder, find_changed_file, read_cached_sha256, sha256_file


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


@pytest.mark.parametrize(("name", "gone"), [("model.tflite", False), ("deep/part", False), ("model.tflite", True)])
def test_a_result_that_has_changed_is_made_again_and_its_file_is_named(
    result: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, gone: bool
) -> None:
    overwrite(result / name, b"other")
    if gone:
        (result / name).unlink()
    assert ArtifactCache(tmp_path).get("compress-3", {}, write("again")) == result
    assert (result / "model.tflite").read_text() == "again"
    assert f"{result / name} has changed since it was cached" in caplog.text


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

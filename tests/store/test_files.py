"""Files are written whole or not at all, and never replaced by accident."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.store.files import ensure_output_dir, write_atomically


@pytest.mark.parametrize("content", ["Käse\n", b"\x00\xff"])
def test_the_new_content_replaces_the_old(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old")
    write_atomically(path, content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)


def test_what_cannot_be_written_leaves_the_old_content_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "old"


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    ensure_output_dir(tmp_path / "a" / "b", ["x.tflite"], force=False)
    assert (tmp_path / "a" / "b").is_dir()


def test_what_is_there_is_named_and_stays_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "x.tflite").touch()
    with pytest.raises(UsageError, match=r"already contains x\.tflite"):
        ensure_output_dir(tmp_path, ["w.tflite", "x.tflite"], force=False)
    ensure_output_dir(tmp_path, ["x.tflite"], force=True)
    ensure_output_dir(tmp_path, ["w.tflite"], force=False)


def test_a_file_in_the_way_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be made"):
        ensure_output_dir(tmp_path / "file" / "forms", [], force=False)

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.store.output_dir import require_place


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    require_place(tmp_path / "a" / "b", ["x.tflite"], force=False)
    assert (tmp_path / "a" / "b").is_dir()


def test_what_is_there_is_named_and_stays_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "x.tflite").touch()
    with pytest.raises(UsageError, match=r"already holds x\.tflite"):
        require_place(tmp_path, ["w.tflite", "x.tflite"], force=False)
    require_place(tmp_path, ["x.tflite"], force=True)
    require_place(tmp_path, ["w.tflite"], force=False)


def test_a_file_in_the_way_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be made"):
        require_place(tmp_path / "file" / "forms", [], force=False)

"""Searches in one process leave nothing: the benchmark in small."""

from pathlib import Path

import pytest

from benchmarks.soak import WARM_UP, soak

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MOST_MB = 50


def test_searches_leave_no_temporary_file_no_process_and_no_memory(
    warm_cache: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "photos").symlink_to(photos)
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(warm_cache))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    found = soak(tmp_path, WARM_UP + 3, 1e9)
    assert {(each.temporary, each.processes) for each in found} == {(0, 0)}
    assert found[-1].grown < MOST_MB
    assert found[-1].files <= found[WARM_UP - 1].files

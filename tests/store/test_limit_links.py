"""Cleaning the cache removes what the cache named itself, and nothing behind a link."""

import os
from pathlib import Path

import pytest

from advisor.store import ArtifactCache, entries_of, evict_results


def write_result(root: Path) -> Path:
    make = lambda folder: (folder / "model.tflite").write_bytes(os.urandom(1000))  # noqa: E731
    return ArtifactCache(root / "artifacts").get("head-5", {"number": 1}, make)


def write_precious(folder: Path) -> Path:
    """Make a folder of somebody's own with a name like that of a result."""
    file = folder / ("a" * 64) / "thesis.txt"
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    return file


@pytest.mark.parametrize("link", ["artifacts/features-3", "artifacts/features", "weights", "runtimes"])
def test_nothing_behind_a_link_is_removed(tmp_path: Path, link: str) -> None:
    root = tmp_path / "cache"
    write_result(root)
    precious = write_precious(tmp_path / "elsewhere")
    (root / link).symlink_to(tmp_path / "elsewhere")
    evict_results(root, 0)
    evict_results(root, 0, kinds=["features", "weights", "runtimes"])
    assert precious.read_text() == "mine"


@pytest.mark.parametrize("name", ["photos-2020", "features", "head-5"])
def test_folders_of_others_among_the_results_stay(tmp_path: Path, name: str) -> None:
    root = tmp_path / "cache"
    (root / "artifacts" / name / "holiday").mkdir(parents=True)
    file = root / "artifacts" / name / "holiday" / "1.jpg"
    file.write_text("mine")
    evict_results(root, 0)
    assert file.read_text() == "mine"
    assert entries_of(root) == ()


def test_a_cache_on_another_disk_is_cleaned_through_the_link_of_its_owner(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    root = tmp_path / "cache"
    root.mkdir()
    (root / "artifacts").symlink_to(tmp_path / "disk")
    precious = write_precious(tmp_path / "disk" / "notes")
    result = write_result(root)
    assert result.is_dir()
    evict_results(root, 0)
    assert not result.exists()
    assert precious.read_text() == "mine"

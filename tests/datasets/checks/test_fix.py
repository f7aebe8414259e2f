from __future__ import annotations

import resource
from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.datasets.checks.fix import writable, write_manifest
from advisor.datasets.survey import survey
from tests.datasets.folders import fill, make


def test_what_is_written_is_read_back_without_what_was_left_out(tmp_path: Path) -> None:
    dataset = survey(make(tmp_path / "data", cat=9, dog=9)).dataset
    (tmp_path / "lists").mkdir()
    out = {dataset.images[3].path, dataset.images[12].path}
    assert write_manifest(tmp_path / "lists" / "fixed.csv", dataset, out) == 16
    again = survey(tmp_path / "lists" / "fixed.csv").dataset
    assert [image.sha256 for image in again.images] == [p.sha256 for p in dataset.images if p.path not in out]
    assert again.labels == tuple(p.label for p in dataset.images if p.path not in out)


def test_parts_and_groups_are_kept(tmp_path: Path) -> None:
    make(tmp_path / "data" / "train", cat=9, dog=9)
    make(tmp_path / "data" / "test", cat=8, dog=8)
    dataset = survey(tmp_path / "data").dataset
    write_manifest(tmp_path / "fixed.tsv", dataset, set())
    again = survey(tmp_path / "fixed.tsv").dataset
    assert [image.part for image in again.images] == [image.part for image in dataset.images]


def test_odd_names_survive(tmp_path: Path) -> None:
    root = make(tmp_path / "data", **{'a "b", c': 8, "=1+1": 8})
    fill(root / 'a "b", c' / "x,y\nz", 1)
    dataset = survey(root).dataset
    write_manifest(tmp_path / "fixed.csv", dataset, set())
    assert survey(tmp_path / "fixed.csv").dataset.fingerprint == dataset.fingerprint


@pytest.mark.parametrize(("name", "message"), [("a.xlsx", "CSV"), ("there.csv", "exists"), ("gone/a.csv", "folder")])
def test_where_it_cannot_go_is_said_before_anything_is_done(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "there.csv").touch()
    with pytest.raises(UsageError, match=message):
        writable(tmp_path / name)


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    dataset = survey(make(tmp_path / "data", cat=40, dog=40)).dataset
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(UsageError, match="cannot be written"):
            write_manifest(tmp_path / "fixed.csv", dataset, set())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {path.name for path in tmp_path.iterdir()} == {"data"}

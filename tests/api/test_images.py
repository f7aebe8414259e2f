"""``check_data``: findings, and a manifest without the suspects."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from advisor.api import check_data
from advisor.core.errors import UsageError
from tests.datasets.folders import make


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes with one copy."""
    root = make(tmp_path / "photos", cat=12, dog=12)
    shutil.copy(root / "cat" / "000.jpg", root / "cat" / "copy.jpg")
    return root


def test_a_manifest_leaves_the_suspects_out(photos: Path, tmp_path: Path) -> None:
    told: list[str] = []
    checked = check_data(photos, labels=False, fix=tmp_path / "cleaned.csv", tell=told.append)
    assert [finding.kind.value for finding in checked.findings if finding.leave_out] == ["exact duplicates"]
    assert len((tmp_path / "cleaned.csv").read_text().splitlines()) == 1 + 24
    assert told


@pytest.mark.parametrize(
    ("name", "message"),
    [("cleaned.txt", "is not named as a CSV file"), ("there.csv", "exists"), ("none/a.csv", "does not exist")],
)
def test_a_manifest_that_cannot_be_written_is_refused_before_the_check(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "there.csv").write_text("")
    with pytest.raises(UsageError, match=message):
        check_data(tmp_path / "no images here", fix=tmp_path / name)


def test_a_card_that_there_is_not_is_refused(photos: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'mobilenet_v2_1.0_224'"):
        check_data(photos, card="mobilenet_v2_1.0_225")

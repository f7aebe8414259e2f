"""Divide a set of images into parts."""

from pathlib import Path

import pytest

from advisor.datasets import division
from advisor.datasets.division import divide
from advisor.datasets.survey import survey
from tests.datasets.folders import make


def test_a_large_set_holds_out_and_compares_fewer_images_and_learns_from_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = survey(make(tmp_path / "data", cat=100, dog=100))
    monkeypatch.setattr(division, "MOST_HELD", 20)
    monkeypatch.setattr(division, "MOST_COMPARED", 18)
    parts = divide(read, 0).split
    assert [len(parts.holdout), len(parts.validation), len(parts.train)] == [20, 18, 162]

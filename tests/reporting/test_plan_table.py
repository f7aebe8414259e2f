"""The plan of a search on the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.core.tasks import OBJECT_DETECTION
from advisor.engine.question import resolve
from advisor.engine.space.preview import preview
from advisor.reporting.plan_table import sentences
from tests.datasets.boxes.writers import photos, write_table
from tests.datasets.folders import make


def lines_of(monkeypatch: pytest.MonkeyPatch, folder: Path, data: Path, **options: str) -> list[str]:
    """Plan a search over one card, with an empty cache."""
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(folder / "cache"))
    return sentences(preview(resolve({"data": str(data), "candidates": ["mobilenet_v2_1.0_224"], **options})))


def test_boxes_are_counted_in_all_and_in_each_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_table(tmp_path / "boxes", photos(60, "cat", "dog"))
    lines = lines_of(monkeypatch, tmp_path, data, task=OBJECT_DETECTION)
    assert "Images: 60 with 120 boxes in 2 classes, 60 in each." in lines
    assert "Boxes: 76 for training, 20 in validation, 24 held out." in lines
    assert not any("fine-tun" in line.lower() for line in lines)


def test_images_with_classes_have_no_boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = lines_of(monkeypatch, tmp_path, make(tmp_path / "photos", cat=20, dog=24))
    assert "Images: 44 in 2 classes, 20 to 24 in each." in lines
    assert not any("boxes" in line.lower() for line in lines)

"""The plan of a search on the terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from advisor.engine.preview import preview
from advisor.engine.question import resolve
from advisor.reporting.plan_table import PLAN, print_plan, sentences
from advisor.tasks import DETECTION
from tests.datasets.boxes.writers import photos, write_table
from tests.datasets.folders import make


def lines_of(monkeypatch: pytest.MonkeyPatch, folder: Path, data: Path, **options: str) -> list[str]:
    """Plan a search over one card, with an empty cache."""
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(folder / "cache"))
    return sentences(preview(resolve({"data": str(data), "candidates": ["mobilenet_v2_1.0_224"], **options})))


@pytest.mark.parametrize("width", [80, 110, 180])
def test_names_stay_whole_below_the_name_of_their_card(width: int) -> None:
    view = preview(resolve({"candidates": ["efficientnet_lite4_300", "squeezenet_1.1_227"], "budget": "50ms"}))
    console = Console(width=width, record=True, file=io.StringIO())
    print_plan(view, console)
    shown = console.export_text().splitlines()
    names = [line.split()[0] for line in shown if line.startswith(("efficientnet_lite4_300", "squeezenet_1.1_227"))]
    assert sorted(names) == ["efficientnet_lite4_300", "squeezenet_1.1_227"]
    assert sum(line.startswith("  weight_int8 ") for line in shown) == 2


def test_sorted_rows_have_the_name_of_their_card() -> None:
    view = preview(resolve({"candidates": ["efficientnet_lite4_300", "squeezenet_1.1_227"], "budget": "50ms"}))
    console = Console(width=80, record=True, file=io.StringIO())
    print_plan(view, console, shown=PLAN.select("size").of(view.forecasts))
    shown = console.export_text()
    assert shown.index("squeezenet_1.1_227 int8") < shown.index("efficientnet_lite4_300 float32")


def test_boxes_are_counted_in_all_and_in_each_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_table(tmp_path / "boxes", photos(60, "cat", "dog"))
    lines = lines_of(monkeypatch, tmp_path, data, task=DETECTION.name)
    assert "Images: 60 with 120 boxes in 2 classes, 60 in each." in lines
    assert "Boxes: 76 for training, 20 in validation, 24 held out." in lines
    assert not any("fine-tun" in line.lower() for line in lines)


def test_images_with_classes_have_no_boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = lines_of(monkeypatch, tmp_path, make(tmp_path / "photos", cat=20, dog=24))
    assert "Images: 44 in 2 classes, 20 to 24 in each." in lines
    assert not any("boxes" in line.lower() for line in lines)

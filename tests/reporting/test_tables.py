"""What the terminal shows of the plan of a search."""

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from advisor.core import show_seconds
from advisor.engine import PlanView, preview, resolve
from advisor.reporting import PLAN, print_plan
from advisor.reporting._plan_table import list_sentences
from advisor.tasks._counting import COUNTING
from advisor.tasks.detection import DETECTION
from advisor.tasks.tagging import TAGGING
from tests.datasets.boxes.writers import photos, write_table
from tests.datasets.folders import make
from tests.makers.label_sets import labels_of, write_images, write_table as write_tags
from tests.tables import with_cases

pytestmark = pytest.mark.integration

LARGE, SMALL = "efficientnet_lite4_300", "squeezenet_1.1_227"


@pytest.fixture(scope="module")
def planned() -> PlanView:
    """The plan of a search over two cards."""
    return preview(resolve({"candidates": [LARGE, SMALL], "budget": "50ms"}))


def shown(view: PlanView, width: int = 80, **options: Any) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    print_plan(view, console, **options)
    return console.export_text()


@pytest.mark.parametrize("width", [80, 180])
def test_names_stay_whole_below_the_name_of_their_card(planned: PlanView, width: int) -> None:
    lines = shown(planned, width, every=True).splitlines()
    assert sorted(line.split()[0] for line in lines if line.startswith((LARGE, SMALL))) == [LARGE, SMALL]
    assert sum(line.startswith("  weight_int8 ") for line in lines) == 2


def test_each_card_has_one_row_with_the_cost_of_all_forms_and_sorted_rows_its_name(planned: PlanView) -> None:
    text = shown(planned, 120)
    rows = [line for line in text.splitlines() if line.startswith((LARGE, SMALL))]
    assert [row.split()[:2] for row in rows] == [[LARGE, "int8"], [SMALL, "int8"]]
    assert show_seconds(sum(row.price_s for row in planned.forecasts if row.configuration.card == SMALL)) in rows[1]
    assert f"--all lists all {len(planned.forecasts)} forms." in text
    text = shown(planned, shown=PLAN.select("size").of(planned.forecasts))
    assert text.index(f"{SMALL} int8") < text.index(f"{LARGE} float32")


@with_cases
def test_a_row_shows_the_form_known_best_and_its_processor(device: str, card: str, width: int, best: str) -> None:
    text = shown(preview(resolve({"candidates": [card], "budget": "30ms", "device": device})), width)
    assert re.search(rf"^{card} {best} +[\d.?]+", text, re.MULTILINE)
    assert ("processor" in text.split("A row costs")[0]) is (device != "pixel-8")


@with_cases
def test_a_plan_says_what_must_be_downloaded(planned: PlanView, weights: dict[str, Any], spare: int, said: str) -> None:
    first, other = sorted((replace(card, on_disk=False) for card in planned.cards), key=lambda card: card.card != SMALL)
    first = replace(first, **{"first_s": 7.0, **weights})
    other = replace(other, download_bytes=None, first_s=9.0)
    assert said in " ".join(list_sentences(replace(planned, cards=(first, other), spare=spare)))


def test_reasons_that_differ_in_their_figures_alone_are_one_line(planned: PlanView) -> None:
    rows = planned.forecasts
    slow = [replace(row, filtered=f"predicted {place + 60} ms, under 1 % sure") for place, row in enumerate(rows)]
    slow[-1] = replace(slow[-1], filtered="4.9 MB is too large")
    lines = list(list_sentences(replace(planned, forecasts=tuple(slow))))
    start = lines.index(f"Filtered: {len(slow)} of {len(slow)} configurations, marked x:")
    first = slow[0].configuration
    assert lines[start + 1 : start + 3] == [
        f"  {len(slow) - 1} x, such as {first.card} {first.variant_name}: predicted 60 ms, under 1 % sure",
        f"  1 x {slow[-1].configuration.card} {slow[-1].configuration.variant_name}: 4.9 MB is too large",
    ]


def lines_of(monkeypatch: pytest.MonkeyPatch, folder: Path, data: Path, **options: str) -> list[str]:
    """Plan a search over one card, with an empty cache."""
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(folder / "cache"))
    request = resolve({"data": str(data), "candidates": ["mobilenet_v2_1.0_224"], **options})
    return list(list_sentences(preview(request)))


def test_boxes_are_counted_in_all_and_in_each_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_table(tmp_path / "boxes", photos(60, "cat", "dog"))
    lines = lines_of(monkeypatch, tmp_path, data, task=DETECTION.name)
    assert "Images: 60 with 120 boxes in 2 classes, 60 in each." in lines
    assert "Boxes: 76 for training, 20 in validation, 24 held out." in lines
    assert any("(finetune_all). --training head leaves it out" in line for line in lines)
    assert not any("fine-tun" in line.lower() for line in lines_of(monkeypatch, tmp_path, data, task=COUNTING.name))


def test_images_with_classes_have_no_boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = lines_of(monkeypatch, tmp_path, make(tmp_path / "photos", cat=20, dog=24))
    assert "Images: 44 in 2 classes, 20 to 24 in each." in lines
    assert not any("boxes" in line.lower() for line in lines)
    tags = write_tags(write_images(tmp_path), lambda number: "|".join(labels_of(number)))
    assert "Images: 60." in lines_of(monkeypatch, tmp_path, tags, task=TAGGING.name)


@pytest.mark.parametrize(("device", "unmeasured"), [("orange-pi-5", True), ("raspberry-pi-4", False)])
def test_a_plan_shows_intervals_of_predictions_and_says_if_nothing_was_measured(device: str, unmeasured: bool) -> None:
    text = shown(preview(resolve({"candidates": [SMALL], "budget": "50ms", "device": device})), 180)
    assert re.search(r"~[\d.]+ +[\d.]+ to [\d.]+ +\d+ %", text)
    assert (f"{device}: nothing was measured on tflite-cpu-x4, only with ncnn" in text) is unmeasured

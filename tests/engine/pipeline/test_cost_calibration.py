from __future__ import annotations

from pathlib import Path

import pytest

from advisor.engine.pipeline.cost_calibration import MOST, CostCalibration
from advisor.engine.pipeline.names import StageName


def searched(
    file: Path, price_s: float, seconds: float, stage: StageName = StageName.CONVERT, disturbed: bool = False
) -> None:
    book = CostCalibration(file)
    book.note(stage, price_s)
    book.keep({stage: seconds}, disturbed)


def test_what_a_stage_took_prices_the_next_plan(tmp_path: Path) -> None:
    searched(tmp_path / "pace.json", price_s=8.0, seconds=16.0)
    assert CostCalibration(tmp_path / "pace.json").pace == pytest.approx({"convert": 2.0})


def test_a_plan_that_was_right_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "pace.json"
    searched(file, price_s=8.0, seconds=16.0)
    searched(file, price_s=16.0, seconds=16.0)
    assert CostCalibration(file).pace == pytest.approx({"convert": 2.0})


def test_one_slow_search_among_several_changes_little(tmp_path: Path) -> None:
    file = tmp_path / "pace.json"
    for seconds in (8.0, 9.0, 80.0):
        searched(file, price_s=8.0 * CostCalibration(file).pace.get(StageName.CONVERT, 1.0), seconds=seconds)
    assert CostCalibration(file).pace == pytest.approx({"convert": 9.0 / 8.0})


def test_a_quiet_machine_counts_before_busy_ones(tmp_path: Path) -> None:
    file = tmp_path / "pace.json"
    searched(file, price_s=8.0, seconds=8.0)
    for _ in range(9):
        searched(file, price_s=8.0, seconds=40.0, disturbed=True)
    assert CostCalibration(file).pace == pytest.approx({"convert": 1.0})


def test_stages_from_the_cache_teach_nothing(tmp_path: Path) -> None:
    CostCalibration(tmp_path / "pace.json").keep({StageName.CONVERT: 3.0})
    assert not (tmp_path / "pace.json").exists()


def test_one_disturbance_is_bounded(tmp_path: Path) -> None:
    searched(tmp_path / "pace.json", price_s=1.0, seconds=1e6)
    assert CostCalibration(tmp_path / "pace.json").pace[StageName.CONVERT] == pytest.approx(MOST)


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"convert": "fast"}', '{"convert": -1}', '{"convert": 4.0}', '{"other": [[1.0, false]]}', "\x00"],
)
def test_a_damaged_book_is_an_empty_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "pace.json").write_text(text)
    assert CostCalibration(tmp_path / "pace.json").pace == {}

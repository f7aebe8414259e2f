from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from advisor.engine.pipeline.cost_calibration import MOST, CostCalibration
from advisor.engine.pipeline.events import EventKind, StageEvent
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stage import Scope, Stage


def searched(
    file: Path, price_s: float, seconds: float, stage: StageName = StageName.CONVERT, disturbed: bool = False
) -> None:
    book = CostCalibration(file)
    book.note(StageEvent(_stage(stage), EventKind.DONE, seconds), price_s)
    book.keep(disturbed)


def _stage(name: StageName, detail: str = "") -> Stage[None]:
    scope = Scope("card", detail=detail)
    return Stage(name, scope, "1", "", (), lambda *_: {}, lambda *_: partial(print), lambda _: None)


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
    book = CostCalibration(tmp_path / "pace.json")
    book.note(StageEvent(_stage(StageName.CONVERT), EventKind.CACHED), 3.0)
    book.keep()
    assert not (tmp_path / "pace.json").exists()


def test_one_disturbance_is_bounded(tmp_path: Path) -> None:
    searched(tmp_path / "pace.json", price_s=1.0, seconds=1e6)
    assert CostCalibration(tmp_path / "pace.json").pace[StageName.CONVERT] == pytest.approx(MOST)


def test_a_training_that_was_ended_teaches_what_its_epochs_took(tmp_path: Path) -> None:
    book, stage = CostCalibration(tmp_path / "pace.json"), _stage(StageName.FINETUNE_CACHED)
    book.note(StageEvent(stage, EventKind.EPOCH, seconds=50.0, epochs=(1, 10)), 200.0)
    book.note(StageEvent(stage, EventKind.EPOCH, seconds=80.0, epochs=(2, 10)), 200.0)
    book.keep()
    assert CostCalibration(tmp_path / "pace.json").pace[StageName.FINETUNE_CACHED] == pytest.approx(2.0)


def test_a_time_limit_counts_the_epochs_that_were_trained(tmp_path: Path) -> None:
    book, stage = CostCalibration(tmp_path / "pace.json"), _stage(StageName.FINETUNE_TOP)
    book.note(StageEvent(stage, EventKind.EPOCH, seconds=50.0, epochs=(1, 4)), 100.0)
    book.note(StageEvent(stage, EventKind.DONE, seconds=75.0, epochs=(2, 4)), 100.0)
    book.keep()
    assert CostCalibration(tmp_path / "pace.json").pace[StageName.FINETUNE_TOP] == pytest.approx(1.5)


def test_a_training_without_a_figure_costs_what_others_took_over_their_price(tmp_path: Path) -> None:
    file = tmp_path / "pace.json"
    searched(file, price_s=10.0, seconds=15.0, stage=StageName.FEATURES)
    assert CostCalibration(file).pace[StageName.FINETUNE_CACHED] == pytest.approx(1.5)
    searched(file, price_s=10.0, seconds=20.0, stage=StageName.FINETUNE_TOP)
    assert CostCalibration(file).pace[StageName.FINETUNE_CACHED] == pytest.approx(3.0)


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"convert": "fast"}', '{"convert": -1}', '{"convert": 4.0}', '{"other": [[1.0, false]]}', "\x00"],
)
def test_a_damaged_book_is_an_empty_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "pace.json").write_text(text)
    assert CostCalibration(tmp_path / "pace.json").pace == {}


def test_the_seconds_of_this_search_are_compared_with_those_of_its_plan(tmp_path: Path) -> None:
    book = CostCalibration(tmp_path / "pace.json")
    assert book.observed() == 1.0
    for name, seconds in ((StageName.CONVERT, 9.0), (StageName.HEAD, 3.0)):
        book.note(StageEvent(_stage(name), EventKind.DONE, seconds), 4.0)
    assert book.observed() == pytest.approx(1.5)

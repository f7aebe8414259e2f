"""The table's making: what a stage took, and which rows are replaced."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from advisor.core.training import FINETUNE_TOP, HEAD
from benchmarks import trashnet_climb, trashnet_table
from benchmarks.trashnet_table import HEADER, Stopwatch, put, table_rows


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


def _go(watch: Stopwatch, clock: _Clock, *events: tuple[float, str, str, str]) -> None:
    with patch.object(trashnet_table.time, "monotonic", clock):
        for now, name, card, event in events:
            clock.now = now
            watch.stage(name, card, "doing", event)


def test_a_stage_takes_from_its_start_to_its_end_and_is_added_to_earlier_ones(clock: _Clock) -> None:
    watch = Stopwatch()
    _go(watch, clock, (1, "score-1", "a", "started"), (3, "score-1", "a", "done"))
    _go(watch, clock, (5, "score-1", "a", "started"), (6, "score-1", "a", "done"))
    assert watch.seconds == {("score", "a"): 3.0}


def test_standing_still_for_a_timing_is_not_work(clock: _Clock) -> None:
    watch = Stopwatch()
    _go(
        watch, clock,
        (10, "finetune_top-2", "a", "started"), (12, "timing", "b", "started"), (13, "head-2", "c", "started"),
        (15, "timing", "b", "done"), (20, "finetune_top-2", "a", "done"), (21, "head-2", "c", "done"),
    )  # fmt: skip
    assert watch.seconds == {("finetune_top", "a"): 7.0, ("timing", "b"): 3.0, ("head", "c"): 6.0}


def test_what_came_from_the_cache_takes_nothing(clock: _Clock) -> None:
    watch = Stopwatch()
    _go(watch, clock, (1, "score-1", "a", "cached"))
    assert not watch.seconds


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of its own."""
    file = tmp_path / "table.csv"
    monkeypatch.setattr(trashnet_table, "TABLE", file)
    return file


def _rows(card: str, training: str, *accuracies: float) -> list[dict[str, object]]:
    own = {"card": card, "base": card, "training": training}
    return [{**dict.fromkeys(HEADER, ""), **own, "accuracy": accuracy} for accuracy in accuracies]


def test_new_rows_replace_those_of_the_same_card_and_rung_only(kept: Path) -> None:
    put(_rows("a", HEAD, 1, 2) + _rows("a", FINETUNE_TOP, 3) + _rows("b", HEAD, 4))
    put(_rows("a", HEAD, 5))
    assert sorted(row["accuracy"] for row in table_rows()) == ["3", "4", "5"]


def test_a_card_is_missing_until_it_has_been_on_the_last_rung(kept: Path) -> None:
    first, second = trashnet_climb.CLIMBERS[:2]
    name = trashnet_climb.name_of(first)
    put(_rows(name, HEAD, 1))
    assert trashnet_climb.missing()[:2] == [first, second]
    put(_rows(name, FINETUNE_TOP, 1))
    assert trashnet_climb.missing()[0] == second

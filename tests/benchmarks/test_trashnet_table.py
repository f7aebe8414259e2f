"""The table's making: what a stage took, and which rows are replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.core.training import FINETUNE_TOP, HEAD
from advisor.engine.pipeline.events import EventKind, StageEvent
from advisor.engine.pipeline.stages.backbone import convert
from benchmarks import trashnet_climb, trashnet_table
from benchmarks.trashnet_table import HEADER, Stopwatch, put, table_rows


def test_a_stopwatch_adds_up_what_stages_of_a_card_worked() -> None:
    card = load_catalogue()["mobilenet_v2_1.0_224"]
    watch = Stopwatch()
    for kind, seconds in (
        (EventKind.STARTED, 0.0),
        (EventKind.DONE, 3.0),
        (EventKind.CACHED, 9.0),
        (EventKind.DONE, 1.0),
    ):
        watch.stage(StageEvent(convert(card), kind, seconds))
    assert watch.seconds == {("convert", card.name): 4.0}


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

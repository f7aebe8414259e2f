from __future__ import annotations

from pathlib import Path

from advisor.engine.pipeline.events import Durations, EventKind, StageEvent
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stage import Scope, Stage


def event(card: str, name: StageName, kind: EventKind, seconds: float = 0.0) -> StageEvent:
    stage: Stage[Path] = Stage(name, Scope(card), "1", "working on", (), lambda *_: {}, lambda *_: None, Path)  # type: ignore[arg-type,return-value]
    return StageEvent(stage, kind, seconds)


def test_seconds_are_added_up_by_card_and_stage_without_what_was_cached() -> None:
    durations = Durations()
    for card, name, kind, seconds in (
        ("small", StageName.CONVERT, EventKind.STARTED, 0.0),
        ("small", StageName.CONVERT, EventKind.DONE, 3.0),
        ("large", StageName.COMPRESS, EventKind.DONE, 2.0),
        ("large", StageName.COMPRESS, EventKind.DONE, 4.0),
        ("small", StageName.CUT, EventKind.CACHED, 9.0),
        ("small", StageName.TIMING, EventKind.DONE, 0.5),
    ):
        durations.note(event(card, name, kind, seconds))
    assert durations.by_card() == {"large": {"compress": 6.0}, "small": {"convert": 3.0, "timing": 0.5}}
    assert list(durations.by_card()) == ["large", "small"]
    assert durations.by_stage == {"convert": 3.0, "compress": 6.0, "timing": 0.5}


def test_stages_are_told_in_the_order_of_the_work() -> None:
    durations = Durations()
    for name in (StageName.TIMING, StageName.CONVERT, StageName.SCORE):
        durations.note(event("small", name, EventKind.DONE, 1.0))
    assert list(durations.by_stage) == ["convert", "score", "timing"]

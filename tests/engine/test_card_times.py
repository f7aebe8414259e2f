from __future__ import annotations

from advisor.engine.card_times import CardTimes


def test_seconds_are_added_up_by_card_and_stage_without_what_was_cached() -> None:
    now = iter([0.0, 1.0, 3.0, 7.0, 10.0, 10.5])
    times = CardTimes(lambda: next(now))
    times.note("convert-3", "small", "converting", "started")
    times.note("compress-2", "large", "compressing to int8", "started")
    times.note("convert-3", "small", "converting", "done")
    times.note("compress-2", "large", "compressing to int8", "done")
    times.note("cut-1", "small", "cutting", "cached")
    times.note("timing", "small", "timing", "started")
    times.note("timing", "small", "timing", "done")
    assert times.to_json() == {"large": {"compress": 6.0}, "small": {"convert": 3.0, "timing": 0.5}}
    assert list(times.to_json()) == ["large", "small"]


def test_what_another_search_did_while_this_one_waited_counts_nothing() -> None:
    now = iter([0.0, 1.0, 3.0])
    times = CardTimes(lambda: next(now))
    times.note("convert-3", "small", "converting", "started")
    times.note("convert-3", "small", "converting", "cached")
    times.note("convert-3", "small", "converting", "started")
    times.note("convert-3", "small", "converting", "done")
    assert times.to_json() == {"small": {"convert": 2.0}}

"""Searches within a time limit beside other methods: images, figures of a run, plot, and the recorded table."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks import anytime_table
from benchmarks.anytime import joined_parts, summary, wasted
from benchmarks.anytime_replay import Recorded, Search, by_rule
from benchmarks.anytime_table import Step, append, drawn, read
from benchmarks.first_answer import AnswerSoFar
from tests.builders import evaluation
from tests.datasets.folders import make


def test_a_draw_leaves_three_of_ten_images_of_each_class_out(tmp_path: Path) -> None:
    make(tmp_path / "set", apple=10, banana=20)
    learnt, test = drawn(tmp_path / "set", "0", tmp_path / "draw")
    counts = {part: [len(list((part / name).iterdir())) for name in ("apple", "banana")] for part in (learnt, test)}
    assert counts == {learnt: [7, 14], test: [3, 6]}
    names = [{str(path.relative_to(part)) for path in part.glob("*/*")} for part in (learnt, test)]
    assert not names[0] & names[1]


def test_a_replay_tunes_where_time_is_left_and_never_takes_longer_than_its_limit() -> None:
    for limit_s, tuned in ((40.0, False), (2000.0, True)):
        search = Search(Recorded("trashnet", anytime_table.read()), limit_s)
        by_rule(search)
        assert (0 < search.spent_s <= limit_s, any(step.network.tuned for step in search.results)) == (True, tuned)


def test_the_recorded_table_grows_and_is_read_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anytime_table, "TABLE", tmp_path / "table.csv")
    first, second = Step("few", "one", "head", 2, 1.5, 0.5, 90.25, 88.5, 1.0, 0.5, 7), Step("few", "two", "head", 3)
    append([first])
    append([second])
    found = read(tmp_path / "table.csv")
    assert found["few", "one"] == [first]
    assert math.isnan(found["few", "two"][0].test)
    assert found["few", "two"][0].epoch == 3


def test_the_script_learns_from_training_and_validation_images(tmp_path: Path) -> None:
    for part, count in (("train", 3), ("val", 2), ("test", 4)):
        make(tmp_path / "set" / part, apple=count)
    joined = joined_parts(tmp_path / "set", tmp_path / "joined")
    assert len(list((joined / "apple").iterdir())) == 5
    assert joined_parts(tmp_path / "set" / "train", tmp_path / "other") == tmp_path / "set" / "train"


def finished(place: Path, pick: dict[str, Any] | None, spent: dict[str, dict[str, float]], answered: list[str]) -> Path:
    place.mkdir(parents=True)
    (place / "recommendation.json").write_text(json.dumps({"pick": pick}))
    (place / "manifest.json").write_text(json.dumps({"durations_by_card": spent}))
    rows = [{"configuration": {"card": card}, "status": "ok"} for card in answered]
    rows += [{"configuration": {"card": "late"}, "status": "skipped"}]
    (place / "evaluations.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return place


def test_seconds_are_wasted_on_cards_that_were_never_the_pick_and_remarks_have_their_means(tmp_path: Path) -> None:
    spent = {"good": {"features": 40.0, "head": 10.0}, "bad": {"features": 30.0}, "late": {"convert": 20.0}}
    run = finished(tmp_path / "run", None, spent, ["good", "bad"])
    course = [AnswerSoFar(1.0, None), AnswerSoFar(2.0, evaluation("good"))]
    assert wasted(run, course) == ("20", "30")
    rows = [row(f"trashnet, draw {place}", "5min", "advisor", f"{90 + place}", "400", f"{place}") for place in range(3)]
    assert list(summary([*rows, row("grocery", "", "script head int8", "60.0", "80")])) == [
        "trashnet, 5min, advisor: 91.0 % of other images in 400 CPU s, mean of 3.",
        "grocery, script head int8: 60.0 % of other images in 80 CPU s, mean of 1.",
        "Over the limit: median 1 s, p95 2 s of 3 searches.",
    ]


def row(name: str, limit: str, method: str, accuracy: str, cpu_s: str, over: str = "") -> list[str]:
    return [f"{name}, {limit}, {method}", name, limit, method, *[""] * 5, accuracy, "", "", cpu_s, "", over, "", "", ""]

"""When the answer so far is a first one, and from when on it is the final one."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from advisor.core.evaluation import Evaluation
from advisor.core.quantity import Provenance, Quantity
from benchmarks.first_answer import AnswerSoFar, Watch, table
from tests.builders import evaluation

SMALL, LARGE = evaluation("small"), evaluation("large")
TUNED = replace(LARGE, configuration=replace(LARGE.configuration, training="finetune_cached"))
JUDGED = replace(TUNED, holdout_accuracy=Quantity(80.0, "%", Provenance.MEASURED))


def _measured(*picks: Evaluation | None) -> list[object]:
    """Return the measured column for picks at 10, 20, ... seconds."""
    answers = [AnswerSoFar(10.0 * place, pick) for place, pick in enumerate(picks, start=1)]
    return [row[2] for row in table(answers, cpu_s=90.0, wall_s=100.0)]


def test_the_final_answer_counts_from_its_last_change() -> None:
    assert _measured(None, SMALL, TUNED, SMALL, TUNED, JUDGED)[:6] == ["1.5", "20", "60", "50", "50", "100"]


def test_a_pick_without_a_holdout_figure_never_has_one() -> None:
    assert _measured(SMALL)[1:5] == ["10", "never", "10", "10"]


def test_lines_are_noted_when_they_are_there(tmp_path: Path) -> None:
    stopped, watch = threading.Event(), Watch(tmp_path / "lines")
    follower = threading.Thread(target=watch.follow, args=(stopped,))
    follower.start()
    watch.file.write_text("one\ntwo\nhalf")
    while not watch.seen:
        stopped.wait(0.05)
    stopped.set()
    follower.join()
    assert [count for _, count in watch.seen] == [2]

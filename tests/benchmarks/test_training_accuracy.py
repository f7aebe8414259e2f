"""The pieces of the table of accuracies: what is stopped is made anew, what is there is taken, cards replace theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import tables
from benchmarks.training_accuracy import FINETUNED, HEAD, HEADER, Steps, put

CARD = "mobilenet_v1_0.25_128"


def test_a_step_that_is_stopped_is_made_anew_and_one_that_ended_is_not(tmp_path: Path) -> None:
    def stopped(path: Path) -> None:
        path.write_text("a part")
        raise KeyboardInterrupt

    def whole(path: Path) -> None:
        path.write_text("all of it")

    def again(path: Path) -> None:
        raise AssertionError(path)

    with pytest.raises(KeyboardInterrupt):
        Steps(CARD, tmp_path)._kept("step.txt", stopped)
    assert Steps(CARD, tmp_path)._kept("step.txt", whole).read_text() == "all of it"
    assert Steps(CARD, tmp_path)._kept("step.txt", again).read_text() == "all of it"


def test_a_training_counts_as_done_when_it_is_scored(tmp_path: Path) -> None:
    steps = Steps(CARD, tmp_path)
    steps._kept(f"{HEAD}.npz", lambda path: path.write_bytes(b""))
    assert (steps.has(HEAD), steps.has(FINETUNED)) == (True, False)


def test_a_cards_rows_replace_its_own_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    for card, accuracy in (("a", "80 %"), ("b", "81 %"), ("a", "82 %")):
        put([(card, HEAD, accuracy, *[""] * (len(HEADER) - 3))])
    lines = (tmp_path / "training_accuracy.csv").read_text().splitlines()[1:]
    assert [line.split(",")[:3] for line in lines] == [["b", "head", "81 %"], ["a", "head", "82 %"]]

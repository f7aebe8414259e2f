"""How far a training is, in a file that the search reads."""

import json
from pathlib import Path

import pytest

from advisor.engine import EpochFile
from advisor.engine._pipeline import epoch_file
from advisor.engine._pipeline.epoch_file import FILE


def test_a_training_tells_the_time_before_its_first_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((100.0, 130.0, 140.0, 150.0, 160.0))  # begins, maps are there, three of three epochs
    monkeypatch.setattr(epoch_file.time, "monotonic", lambda: next(times))
    tell = EpochFile(tmp_path / "new")
    tell(0, 3)
    assert EpochFile.read(tmp_path / "new") is None
    shares = []
    for done in (1, 2, 3):
        tell(done, 3)
        found = EpochFile.read(tmp_path / "new")
        assert found[:2] == (done, 3)
        shares.append(found[2])
    assert shares == pytest.approx([40 / 60, 50 / 60, 1.0])


def test_what_a_training_that_was_ended_left_is_not_taken_for_the_next_one(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps([5, 20, 0.3]), encoding="utf-8")
    EpochFile(tmp_path)
    assert EpochFile.read(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "null"])
def test_a_damaged_file_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text, encoding="utf-8")
    assert EpochFile.read(tmp_path) is None

"""The stage that trains a network on the maps of a backbone: how far it is."""

import json
from pathlib import Path

import pytest

from advisor.tasks import on_maps
from advisor.tasks.on_maps import EPOCHS, epochs_done


def test_a_training_says_how_far_it_is_with_the_time_before_its_first_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter((100.0, 130.0, 140.0, 150.0, 160.0))  # begins, maps are there, three of three epochs
    monkeypatch.setattr(on_maps.time, "monotonic", lambda: next(times))
    tell = on_maps._Progress(tmp_path / "new")
    tell(0, 3)
    assert epochs_done(tmp_path / "new") is None
    shares = []
    for done in (1, 2, 3):
        tell(done, 3)
        found = epochs_done(tmp_path / "new")
        assert found is not None
        assert found[:2] == (done, 3)
        shares.append(found[2])
    assert shares == pytest.approx([40 / 60, 50 / 60, 1.0])


def test_what_a_training_that_was_ended_left_is_not_taken_for_the_next_one(tmp_path: Path) -> None:
    (tmp_path / EPOCHS).write_text(json.dumps([5, 20, 0.3]), encoding="utf-8")
    on_maps._Progress(tmp_path)
    assert epochs_done(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "null"])
def test_a_damaged_file_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / EPOCHS).write_text(text, encoding="utf-8")
    assert epochs_done(tmp_path) is None

"""The state of a fine-tuning is read whole, or counts as missing."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from advisor.training.finetune.finetune import STATE, FinetuneProgress, read_progress

DONE = FinetuneProgress({"epochs": 5, "augmentation": {"zoom": 0.1}}, ({"loss": 0.5, "seconds": 2.0},), 0, 0.9, 0.8)


def test_a_state_comes_back_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / STATE).write_text(json.dumps(asdict(DONE)))
    assert read_progress(tmp_path) == DONE


@pytest.mark.parametrize(
    "change",
    [
        {"history": None},
        {"history": [1]},
        {"history": [{"loss": "x"}]},
        {"best": "x"},
        {"best_epoch": 0.5},
        {"more": 1},
    ],
)
def test_a_state_of_wrong_types_counts_as_missing(tmp_path: Path, change: dict[str, object]) -> None:
    (tmp_path / STATE).write_text(json.dumps({**asdict(DONE), **change}))
    assert read_progress(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "\0", "[" * 100_000])
def test_a_damaged_state_counts_as_missing(tmp_path: Path, text: str) -> None:
    (tmp_path / STATE).write_text(text)
    assert read_progress(tmp_path) is None

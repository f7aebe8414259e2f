"""What two runs differ in besides their figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.engine.history.differences import Difference, find_differences
from advisor.engine.history.loaded_run import load_run
from tests.run_folders import write_run


def _differences(tmp_path: Path, **second: Any) -> tuple[Difference, ...]:
    """Return what differs between a run and one with other options."""
    before, after = write_run(tmp_path, name="before"), write_run(tmp_path, name="after", request=second)
    return find_differences(load_run(before.path), load_run(after.path))


@pytest.mark.parametrize(
    "options",
    [
        {"workers": 2},
        {"executor": "ray"},
        {"storage": "sqlite"},
        {"stop_below": "1%"},
        {"sampler": "tpe"},
        {"time_limit": "10min"},
        {"max_trials": 5},
        {"offline": True},
        {"mirror": "weights"},
        {"remeasure": True},
        {"out": "elsewhere"},
    ],
)
def test_how_a_question_was_answered_is_no_difference(tmp_path: Path, options: dict[str, Any]) -> None:
    assert _differences(tmp_path, **options) == ()


@pytest.mark.parametrize(
    ("options", "what", "before", "after"),
    [
        ({"budget": "40ms"}, "budget", "50ms", "40ms"),
        ({"candidates": ["a", "b"]}, "candidates", "", "a, b"),
        ({"seed": 1}, "seed", "0", "1"),
        ({"prefer": "size"}, "prefer", "balanced", "size"),
        ({"device": "galaxy-s24"}, "device", "host", "galaxy-s24"),
    ],
)
def test_another_question_is_a_difference(
    tmp_path: Path, options: dict[str, Any], what: str, before: str, after: str
) -> None:
    assert _differences(tmp_path, **options) == (Difference("question", what, before, after),)

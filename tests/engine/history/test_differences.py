"""What two runs differ in besides their figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.core.evaluation_facts import CardFacts
from advisor.engine.history.differences import Difference, find_differences
from advisor.engine.history.loaded_run import load_run
from tests.builders import evaluation
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


def test_a_card_that_only_one_run_considered_is_one_difference(tmp_path: Path) -> None:
    facts = CardFacts(params=3e6, licence="Apache-2.0", input_size=224)
    one, other = (replace(evaluation(name), card_facts=facts) for name in ("one", "other"))
    manifests = [
        {"cards": dict.fromkeys(cards, "1" * 64), "weights": {name: {"sha256": "2" * 64} for name in cards}}
        for cards in (("one", "other"), ("one",))
    ]
    before = write_run(tmp_path, [one, other], manifest=manifests[0], name="before")
    after = write_run(tmp_path, [one], manifest=manifests[1], name="after")
    found = find_differences(load_run(before.path), load_run(after.path))
    assert found == (Difference("candidates", "other", "candidate", "not a candidate in the second run"),)


def test_another_licence_of_a_card_in_both_runs_is_a_difference(tmp_path: Path) -> None:
    rows = [replace(evaluation("one"), card_facts=CardFacts(licence=name)) for name in ("Apache-2.0", "MIT")]
    runs = [load_run(write_run(tmp_path, [row], name=f"run-{row.card_facts.licence}").path) for row in rows]
    assert find_differences(*runs) == (Difference("catalogue", "licence of one", "Apache-2.0", "MIT"),)

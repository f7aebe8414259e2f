"""``advisor compare`` ends with 4 where the recommendation changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import evaluation
from tests.cli.conftest import Advisor
from tests.documents import problems
from tests.run_folders import candidates, write_run


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str, str]:
    """Names of a run, of an equal one, and of one whose pick became too slow."""
    slow = evaluation("best", "int8", accuracy=92, half_width=1, latency=60, size=6e6)
    changed = [slow, *candidates()[1:]]
    made = [write_run(tmp_path / "runs", rows, name=name) for name, rows in (("a", None), ("b", None), ("c", changed))]
    first, second, third = (f"runs/{run.path.name}" for run in made)
    return first, second, third


def test_equal_runs_end_with_zero(advisor: Advisor, runs: tuple[str, str, str]) -> None:
    said = advisor("compare", runs[0], runs[1])
    assert said.code == 0, said.err
    assert "The pick did not change: best int8" in said.out


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
def test_a_changed_pick_ends_with_four(advisor: Advisor, runs: tuple[str, str, str], form: str) -> None:
    said = advisor("compare", runs[0], runs[2], "--format", form)
    assert said.code == 4, said.err
    if form == "json":
        assert json.loads(said.out)["outcome"] == "changed"
        assert problems("comparison", json.loads(said.out)) == []
    else:
        assert "The pick changed from best int8" in said.out


def test_a_half_written_run_is_compared_and_said(advisor: Advisor, runs: tuple[str, str, str], tmp_path: Path) -> None:
    evaluations = tmp_path / runs[1] / "evaluations.jsonl"
    evaluations.write_text(evaluations.read_text()[:-30])
    said = advisor("compare", runs[0], runs[1])
    assert said.code == 0, said.err
    assert "has 1 unreadable line" in said.err
    assert "small: candidate -> not a candidate in the second run" in said.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere", "runs/latest"), "'nowhere' is not a run folder"),
        (("runs/latest", "runs/latest", "--format", "jsn"), "did you mean 'json'"),
    ],
)
def test_wrong_use_is_refused(
    advisor: Advisor, runs: tuple[str, str, str], arguments: tuple[str, ...], words: str
) -> None:
    said = advisor("compare", *arguments)
    assert said.code == 2
    assert words in said.err


def test_json_is_short_for_its_format(advisor: Advisor, runs: tuple[str, str, str]) -> None:
    said = advisor("compare", runs[0], runs[2], "--json")
    assert said.code == 4
    assert said.out == advisor("compare", runs[0], runs[2], "--format", "json").out

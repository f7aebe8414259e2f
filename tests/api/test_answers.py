"""What follows from a finished run: decide again, list what can be shipped, compare, re-evaluate, check the files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.api import check_run, compare, export, exportable, reevaluate, report
from advisor.core.errors import UsageError
from tests.run_folders import write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose pick under 50 ms is ``best``; ``fast`` and ``small`` are the alternatives."""
    return write_run(tmp_path / "runs").path


@pytest.mark.parametrize(
    ("options", "pick"),
    [
        ({}, "best"),
        ({"budget": "5ms"}, "fast"),
        ({"size_budget": "2MB"}, "small"),
        ({"prefer": "size"}, "small"),
        ({"prefer": "latency", "min_accuracy": "82%"}, "fast"),
    ],
)
def test_a_report_decides_again_with_other_limits(run: Path, options: dict[str, Any], pick: str) -> None:
    found = report(run, **options).decision.pick
    assert found is not None
    assert found.configuration.card == pick


def test_a_report_is_written_where_nothing_changed_or_a_folder_is_given(run: Path, tmp_path: Path) -> None:
    assert {path.parent for path in report(run).files} == {run}
    assert report(run, budget="5ms").files == ()
    assert {path.parent for path in report(run, budget="5ms", to=tmp_path / "other").files} == {tmp_path / "other"}
    with pytest.raises(UsageError):
        report(run, to=tmp_path / "other")
    assert report(run, to=tmp_path / "other", force=True).files


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": "5"}, "'5' has no unit"),
        ({"confidence": "20%"}, "--confidence"),
        ({"prefer": "sizes"}, "did you mean 'size'"),
        ({"memory_budget": "1parsec"}, "--memory-budget"),
        ({"max_drop": "1"}, "--max-drop"),
    ],
)
def test_a_limit_that_is_not_valid_is_refused(run: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        report(run, **options)
    assert message in caught.value.message


def test_what_can_be_shipped_is_counted_from_the_pick(run: Path) -> None:
    assert [each.configuration.card for each in exportable(run)] == ["best", "fast", "small"]


@pytest.mark.parametrize("pick", [4, "4"])
def test_a_candidate_that_there_is_not_is_not_exported(run: Path, tmp_path: Path, pick: str | int) -> None:
    with pytest.raises(UsageError, match="the numbers are 1 to 3"):
        export(run, tmp_path / "bundle", pick=pick)
    assert not (tmp_path / "bundle").exists()


def test_a_run_that_is_whole_has_no_problems_and_one_that_is_not_names_them(run: Path) -> None:
    assert check_run(run, artefacts=True) == ()
    next((run / "artifacts").iterdir()).write_bytes(b"other")
    assert check_run(run) == ()
    (problem,) = check_run(run, artefacts=True)
    assert "has changed since it was measured" in problem


def test_a_run_is_equal_to_itself(run: Path) -> None:
    assert not compare(run, run).recommends_otherwise


def test_a_device_that_there_is_not_cannot_be_answered_for(run: Path) -> None:
    with pytest.raises(UsageError, match="raspbery-pi-4"):
        reevaluate(run, device=["raspbery-pi-4"])


@pytest.mark.parametrize(
    "function",
    [report, exportable, check_run, reevaluate, lambda run: compare(run, run), lambda run: export(run, "bundle")],
    ids=["report", "exportable", "check_run", "reevaluate", "compare", "export"],
)
def test_a_folder_that_is_no_run_is_refused(function: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run folder"):
        function(tmp_path / "nowhere")

"""Forms whose file cannot meet the size budget are not evaluated, unless nothing else meets the budget."""

from __future__ import annotations

from pathlib import Path

from advisor.core.evaluation import Status
from tests.engine.conftest import SMALLEST, searched_once

OPTIONS = ("--candidates", SMALLEST, "--compressions", "float32,float16,int8", "--threads", "1", "--size-budget", "1MB")


def test_they_are_skipped_with_the_reason(shared_folder: Path, warm_cache: Path) -> None:
    searched = searched_once(shared_folder / "filter-met", warm_cache, *OPTIONS)
    rows = {e.configuration.compression: e for e in searched.run.evaluations()}
    assert searched.code == 0, searched.err
    assert (rows["float32"].status, rows["float32"].stage) == (Status.SKIPPED, "plan")
    assert "more than the size budget 1.0 MB" in rows["float32"].reason
    assert [rows[name].status for name in ("float16", "int8")] == [Status.OK] * 2


def test_where_nothing_meets_the_budget_they_are_evaluated_for_the_price_of_relaxing_it(
    shared_folder: Path, warm_cache: Path
) -> None:
    searched = searched_once(shared_folder / "filter-unmet", warm_cache, *OPTIONS, "--budget", "1us")
    assert searched.code == 3, searched.err
    assert [e.status for e in searched.run.evaluations()] == [Status.OK] * 3

"""The files of a run: what programs read, and how they come to the disk."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from fastparquet import ParquetFile

from advisor.core.evaluation_json import evaluation_from_json
from advisor.reporting.files import COLUMNS, front_csv, front_parquet, recommendation_json, write_all
from advisor.reporting.view import RunView
from tests.reporting.views import HOSTILE, infeasible_view, judged_view, run_view


def recommendation(view: RunView) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(recommendation_json(view))
    return data


def test_all_files_are_written_and_nothing_else(tmp_path: Path) -> None:
    written = write_all(run_view(), tmp_path)

    names = {"front.csv", "front.parquet", "recommendation.json", "report.html", "report.md"}
    assert {path.name for path in written} == names
    assert {path.name for path in tmp_path.iterdir()} == names


def test_without_its_package_front_parquet_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastparquet", None)
    written = {path.name for path in write_all(run_view(), tmp_path)}
    assert written == {path.name for path in tmp_path.iterdir()}
    assert "front.csv" in written
    assert "front.parquet" not in written


def test_written_again_they_are_the_same_bytes(tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in write_all(run_view(), tmp_path)}
    second = {path.name: path.read_bytes() for path in write_all(run_view(), tmp_path)}

    assert first == second


def test_names_that_are_no_text_are_written_all_the_same(tmp_path: Path) -> None:
    write_all(run_view(classes=(*HOSTILE, "bad\udcff")), tmp_path)

    assert "bad" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_recommendation_reads_back_as_the_pick() -> None:
    view = run_view()
    data = recommendation(view)

    assert data["schema_version"] == 1
    assert data["feasible"] is True
    assert evaluation_from_json(data["pick"]) == view.decision.pick
    assert [row["key"] for row in data["front"]] == [row.configuration.key for row in view.decision.front]
    assert data["flips"][0]["key"] == view.decision.flips[0].key
    assert data["budget"]["latency_ms"] == 50.0


def test_infeasible_recommendation_holds_the_relaxations() -> None:
    data = recommendation(infeasible_view())

    assert data["feasible"] is False
    assert data["relaxations"][0]["limit"] == "latency"


def test_front_has_a_row_for_each_member_with_stable_columns() -> None:
    view = run_view()
    rows = list(csv.DictReader(front_csv(view).splitlines()))

    assert list(rows[0]) == list(COLUMNS)
    assert [row["key"] for row in rows] == [row.configuration.key for row in view.decision.front]
    assert [row["role"] for row in rows].count("pick") == 1
    for row, evaluation in zip(rows, view.decision.front, strict=True):
        assert evaluation.accuracy is not None
        assert evaluation.size is not None
        assert float(row["top1_percent"]) == evaluation.accuracy.value
        assert int(row["size_bytes"]) == round(evaluation.size.value)


def test_front_has_both_accuracies_of_finalists() -> None:
    view = judged_view()
    rows = list(csv.DictReader(front_csv(view).splitlines()))
    for row, evaluation in zip(rows, view.decision.front, strict=True):
        assert evaluation.accuracy is not None
        assert evaluation.holdout_accuracy is not None
        assert float(row["top1_percent"]) == evaluation.accuracy.value
        assert float(row["holdout_top1_percent"]) == evaluation.holdout_accuracy.value
        assert float(row["robust_top1_percent"]) == pytest.approx(evaluation.holdout_accuracy.value - 9)


@pytest.mark.parametrize("suffix", ["", *HOSTILE])
def test_the_front_is_a_table_with_types_too(suffix: str, tmp_path: Path) -> None:
    view = run_view(card_suffix=suffix)
    path = tmp_path / "front.parquet"
    path.write_bytes(front_parquet(view))
    found = ParquetFile(str(path)).to_pandas()
    rows = csv.DictReader(front_csv(view).splitlines(keepends=True))
    assert [(row["card"], float(row["top1_percent"])) for row in rows] == list(
        zip(found["card"], found["top1_percent"], strict=True)
    )
    assert [str(found.dtypes[name]) for name in ("latency_p90_ms", "size_bytes", "contended")] == [
        "float64", "Int64", "boolean",
    ]  # fmt: skip


@pytest.mark.parametrize("suffix", HOSTILE)
def test_front_survives_names_with_commas_quotes_and_newlines(suffix: str) -> None:
    view = run_view(card_suffix=suffix)
    rows = list(csv.DictReader(front_csv(view).splitlines(keepends=True)))

    assert rows[0]["card"] == view.decision.front[0].configuration.card


def test_no_cell_is_a_formula() -> None:
    view = run_view(card_prefix="=HYPERLINK(1)")

    assert all(row["card"].startswith("'=") for row in csv.DictReader(front_csv(view).splitlines()))

"""The files of a run and the data of its page; damaged evaluations are left out of the report."""

import csv
import json
import logging
import random
import sys
from dataclasses import replace
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from fastparquet import ParquetFile
from rich.console import Console

from advisor.core import Evaluation
from advisor.engine import Insights
from advisor.engine._history.unfinished import Unfinished
from advisor.reporting import REPORT_FILES, RunView, print_answer, write_all
from advisor.reporting._blocks import NARROW, WIDE, TableColumn, table, write
from advisor.reporting._files import front_csv, front_parquet, map_columns, recommendation_json, render_markdown
from advisor.reporting._html import render_html
from advisor.reporting._script_data import QUANTITIES, list_facets, make_payload
from advisor.store import Problem, RunFolder
from tests.reporting.test_device_results import ROWS
from tests.reporting.views import HOSTILE, empty_view, infeasible_view, judged_view, run_view
from tests.run_folders import lines, write_run
from tests.tables import read_table

RUBBISH = (None, "", -1, float("inf"), float("nan"), [], {}, "x" * 300, {"a": 1}, ["y"], True, "\u202e<b>", 0)
UNKNOWN = {**read_table(__file__, "views.yaml")["unknown"], "size_bytes": 330000}
NAME = "mobilenet_v3_large_minimalistic_1.0_224"
COLUMNS_OF_CONSOLE = (
    TableColumn("model", left=True, whole=True),
    TableColumn("ms"),
    TableColumn("licence", left=True, width=WIDE),
)


def recommendation(view: RunView) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(recommendation_json(view))
    return data


def test_all_files_are_written_and_nothing_else_always_the_same(tmp_path: Path) -> None:
    names = {"front.csv", "front.parquet", "recommendation.json", "report.html", "report.md"}
    first = {path.name: path.read_bytes() for path in write_all(run_view(), tmp_path)}
    assert set(first) == names == {path.name for path in tmp_path.iterdir()}
    assert first == {path.name: path.read_bytes() for path in write_all(run_view(), tmp_path)}
    write_all(run_view(classes=(*HOSTILE, "bad\udcff")), tmp_path)  # a name that is no text
    assert "bad" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_front_parquet_needs_an_end_and_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_all(run_view(), tmp_path)
    so_far = replace(run_view(), insights=Insights(unfinished=Unfinished(1, 9, True, "2026-11-28T22:00:00Z")))
    for view in (so_far, run_view()):
        written = {path.name for path in write_all(view, tmp_path)}
        assert written == {path.name for path in tmp_path.iterdir()} == set(REPORT_FILES) - {"front.parquet"}
        monkeypatch.setitem(sys.modules, "fastparquet", None)


def test_recommendation_reads_back_as_the_pick() -> None:
    view = run_view()
    data = recommendation(view)
    assert data["schema_version"] == 1
    assert data["feasible"] is True
    assert Evaluation.from_json(data["pick"]) == view.decision.pick
    assert [row["key"] for row in data["front"]] == [row.configuration.key for row in view.decision.front]
    assert data["flips"][0]["key"] == view.decision.flips[0].key
    assert data["budget"]["latency_ms"] == 50.0
    closest = recommendation(infeasible_view())
    assert (closest["feasible"], closest["relaxations"][0]["limit"]) == (False, "latency")


def test_front_has_a_row_for_each_member_with_stable_columns_and_both_accuracies_of_finalists() -> None:
    view = judged_view()
    rows = list(csv.DictReader(front_csv(view).splitlines()))
    assert list(rows[0]) == list(map_columns())
    assert [row["key"] for row in rows] == [row.configuration.key for row in view.decision.front]
    assert [row["role"] for row in rows].count("pick") == 1
    for row, evaluation in zip(rows, view.decision.front, strict=True):
        assert float(row["top1_percent"]) == evaluation.accuracy.value
        assert int(row["size_bytes"]) == round(evaluation.size.value)
        assert float(row["holdout_top1_percent"]) == evaluation.holdout_accuracy.value
        assert float(row["robust_top1_percent"]) == pytest.approx(evaluation.holdout_accuracy.value - 9)


@pytest.mark.parametrize("suffix", ["", "".join(HOSTILE)])
def test_the_front_is_a_table_with_types_too(suffix: str, tmp_path: Path) -> None:
    view = run_view(card_suffix=suffix)
    path = tmp_path / "front.parquet"
    path.write_bytes(front_parquet(view))
    found = ParquetFile(str(path)).to_pandas()
    rows = csv.DictReader(front_csv(view).splitlines(keepends=True))
    known = list(zip(found["card"], found["top1_percent"], strict=True))
    assert [(row["card"], float(row["top1_percent"])) for row in rows] == known
    assert known[0][0] == view.decision.front[0].configuration.card  # with commas, quotes and newlines
    types = [str(found.dtypes[name]) for name in ("latency_p90_ms", "size_bytes", "contended")]
    assert types == ["float64", "Int64", "boolean"]


def test_filters_have_at_least_two_values_each_and_wide_ranges_are_logarithmic() -> None:
    groups = {facet["field"]: [value for value, _ in facet["options"]] for facet in list_facets(run_view())}
    assert groups["threads"] == ["1", "2"]
    assert groups["compression"] == ["float32", "float16", "dynamic_int8", "weight_int8", "int8"]
    assert "device" not in groups
    assert make_payload(run_view())["log"] == {"latency": True, "size": True}
    assert make_payload(empty_view())["log"] == {"latency": False, "size": False}


def test_each_figure_has_its_origin() -> None:
    data = make_payload(run_view(data=False))
    first = data["rows"][data["compare"][0]]
    assert first["pick"] is True
    origins = [data["sources"][first["q"][QUANTITIES.index(name)][3]] for name in ("accuracy", "latency")]
    assert origins == ["published: paper", "measured: this machine"]


def damaged(value: Any, rng: random.Random) -> Any:
    """Replace something somewhere within a JSON value."""
    if isinstance(value, dict) and value and rng.random() < 0.95:
        key = rng.choice(list(value))
        return {**value, key: damaged(value[key], rng)}
    return rng.choice(RUBBISH)


def rewrite(run: RunFolder, rows: list[Any]) -> None:
    run.evaluations_file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_damaged_the_report_is_made(tmp_path: Path, seed: int) -> None:
    logging.getLogger("advisor.reporting").setLevel(logging.CRITICAL)
    rng = random.Random(seed)
    run = write_run(tmp_path, ROWS, request={"device": "board,phone"})
    rows = [json.loads(line) for line in lines(run)]
    for row in rows:
        row["details"] |= {"graph": {"macs": 1}, "latency_quantiles": [1.0] * 17, "licence": "MIT", "robustness": []}
        row["details"] |= {"unknown": UNKNOWN}
    for _ in range(6):
        rewrite(run, [damaged(row, rng) if rng.random() < 0.6 else row for row in rows])
        view = RunView.load(run)
        assert render_html(view).startswith("<!doctype html>")
        assert render_markdown(view)
        json.loads(recommendation_json(view))
        assert front_csv(view)
        print_answer(view, Console(file=StringIO(), width=140))


def test_a_line_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    run = write_run(tmp_path, ROWS, request={"device": "board,phone"})
    rows = [json.loads(line) for line in lines(run)]
    rewrite(run, [{**rows[0], "details": "none"}, {**rows[1], "family": 7}, *rows[2:]])
    assert len(run.evaluations()) == 2
    assert any("2 unreadable lines" in str(problem) for problem in Problem.list_in_run(run))


def shown(width: int, encoding: str = "utf-8") -> str:
    stream = BytesIO()
    console = Console(file=TextIOWrapper(stream, encoding=encoding, write_through=True), width=width)
    write([table(COLUMNS_OF_CONSOLE, [(NAME, "12.3 ±0.1", "Apache-2.0")], console)], console)
    return stream.getvalue().decode(encoding)


def test_a_name_stays_in_one_piece_in_ascii_too_and_a_figure_has_room_beside_it() -> None:
    assert NAME in shown(NARROW)
    assert "12.3 ±0.1" in shown(40)
    assert ["Apache-2.0" in shown(width) for width in (WIDE, WIDE - 1)] == [True, False]
    said = shown(NARROW, "ascii")
    assert "12.3 +0.1" in said
    assert "----" in said

"""Runs whose evaluations were damaged in any place: what cannot be read is left out, the report of the rest is made."""

from __future__ import annotations

import json
import logging
import random
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from advisor.reporting.answer import print_answer
from advisor.reporting.files import front_csv, recommendation_json
from advisor.reporting.html import render_html
from advisor.reporting.markdown import render_markdown
from advisor.reporting.view import load_view
from advisor.store import RunFolder
from advisor.store.integrity import integrity_problems
from tests.reporting.test_device_results import ROWS
from tests.run_folders import lines, write_run

RUBBISH = (None, "", -1, float("inf"), float("nan"), [], {}, "x" * 300, {"a": 1}, ["y"], True, "\u202e<b>", 0)

SHARE = {"value": 0.8, "low": 0.7, "high": 0.9}
UNKNOWN = {
    "auroc": SHARE, "float_auroc": SHARE, "accepted": 0.7, "label": "unknown", "file": "x.tflite", "size_bytes": 330000,
    "by_class": {"glass": {"auroc": SHARE, "accepted": 0.8, "images": 81}}, "kept": SHARE, "precision": SHARE,
    "others": {"found": SHARE, "auroc": SHARE, "images": 120},
}  # fmt: skip


def damaged(value: Any, rng: random.Random) -> Any:
    """Replace something somewhere within a JSON value."""
    if isinstance(value, dict) and value and rng.random() < 0.95:
        key = rng.choice(list(value))
        return {**value, key: damaged(value[key], rng)}
    return rng.choice(RUBBISH)


def rewrite(run: RunFolder, rows: list[Any]) -> None:
    run.evaluations_file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.mark.parametrize("seed", range(12))
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
        view = load_view(run)
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
    assert any("2 unreadable lines" in str(problem) for problem in integrity_problems(run))

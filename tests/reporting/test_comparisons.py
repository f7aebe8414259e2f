"""A comparison as text, Markdown and JSON; names are escaped in each."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.engine.history.compare import Comparison, compare
from advisor.engine.history.loaded_run import load_run
from advisor.reporting.comparisons import SHOWN, comparison_json, render_comparison
from tests.builders import evaluation
from tests.reporting.views import HOSTILE
from tests.run_folders import candidates, images, write_run


@pytest.fixture
def comparison(tmp_path: Path) -> Comparison:
    best, *others = candidates()
    slower = evaluation("best", "int8", accuracy=92, half_width=1, latency=60, size=6e6)
    one = write_run(tmp_path, dataset=images({"cat": 10}))
    two = write_run(tmp_path, [slower, *others], dataset=images({"cat": 12, **dict.fromkeys(HOSTILE, 3)}))
    assert best.latency != slower.latency
    return compare(load_run(one.path), load_run(two.path))


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_every_format_says_outcome_reason_and_cause(comparison: Comparison, form: str) -> None:
    text = render_comparison(comparison, form).replace("\\", "")
    assert "changed" in text
    assert "20.0 ms" in text
    assert "best/head/int8" in text
    assert text.endswith("\n")


def test_json_holds_every_figure_with_its_provenance(comparison: Comparison) -> None:
    document: Any = comparison_json(comparison)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["schema_version"] == 1
    assert document["recommends_otherwise"] is True
    moved = {(row["key"], row["figure"]): row for row in document["figures"]}
    latency = moved["best/head/int8@host:cpux1", "latency"]
    assert (latency["counts"], latency["worse"], latency["after"]["provenance"]) == (True, True, "measured")


def test_names_cannot_break_the_page_or_the_terminal(comparison: Comparison) -> None:
    markdown, text = render_comparison(comparison, "markdown"), render_comparison(comparison, "text")
    assert "<script>" not in markdown
    assert "<img" not in markdown
    assert "\u202e" not in markdown + text
    assert not any(line.startswith("new line") for line in text.splitlines())


def test_a_long_list_is_cut_and_says_so(comparison: Comparison) -> None:
    many = comparison.figures * SHOWN
    text = render_comparison(replace(comparison, figures=many), "text")
    assert "more: --format json shows all" in text

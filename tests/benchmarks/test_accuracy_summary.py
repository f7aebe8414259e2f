"""What the summary reads from the tables of the parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import tables
from benchmarks.accuracy_finetune import HEADER as FINETUNE_HEADER
from benchmarks.accuracy_search import HEADER, NAME
from benchmarks.accuracy_summary import main, of_claims, of_head, of_search, of_seeds, of_tuned


def row(name: str, claimed: str, scored: str) -> tuple[str, ...]:
    return (name, "net", "head", "int8", "80.0 (70.0-90.0)", claimed, scored, "", "", "21.0", "6.0", "12.0")


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    return tmp_path


def test_figures_are_those_of_the_shipped_file(results: Path) -> None:
    rows = [row("grocery", "70.0 (68.0-72.0)", "70.0"), row("trashnet, seed 0", "90.0", "90.0")]
    tables.keep(NAME, "title", HEADER, [*rows, row("trashnet, seed 1", "92.0", "92.0")])
    assert of_search("grocery") == "70.0 (net head int8; 15 CPU min after features)"
    assert of_seeds() == "91.0 ± 1.4 (2 seeds, 21 CPU min)"
    assert of_claims() == "equal (3 searches)"


def test_a_claim_that_differs_is_named(results: Path) -> None:
    tables.keep(NAME, "title", HEADER, [row("grocery", "70.0 (68.0-72.0)", "69.8")])
    assert of_claims() == "differs: grocery"


def test_what_was_not_measured_is_told(results: Path) -> None:
    main()
    assert (results / "accuracy.md").read_text().count("not measured") == 6


def test_fine_tuned_networks_are_those_of_at_most_six_million_parameters(results: Path) -> None:
    rows = [
        (f"case {place}", "trashnet", str(place % 2), network, "", "", "", top1, "", "", "")
        for place, (network, top1) in enumerate(
            [("mobilenet_v2_1.0_224", "90.0"), ("mobilenet_v2_1.0_224", "92.0"), ("inception_v3_299", "95.0")]
        )
    ]
    tables.keep("accuracy_finetune", "title", FINETUNE_HEADER, rows)
    assert of_tuned() == "91.0 (mobilenet_v2_1.0_224, 2 seeds)"


def test_the_head_is_that_of_the_int8_file(results: Path) -> None:
    header = ("case", "set", "network", "method", "top-1 %")
    rows = [
        ("a", "grocery", "mobilenet_v2_1.0_224", "ours", "71.9"),
        ("b", "grocery", "mobilenet_v2_1.0_224", "ours, int8 file, seed 0", "71.6"),
        ("c", "trashnet", "mobilenet_v2_1.0_224", "ours, int8 file, seed 0", "90.0"),
    ]
    tables.keep("accuracy_head", "title", header, rows)
    assert of_head() == "71.6"

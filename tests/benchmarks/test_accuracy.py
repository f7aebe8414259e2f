"""The figures that ``python -m benchmarks accuracy`` prints of its table."""

from pathlib import Path

import pytest

from benchmarks import tables
from benchmarks.accuracy_search import HEADER, NAME
from benchmarks.accuracy_summary import of_claims, of_search, of_seeds


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

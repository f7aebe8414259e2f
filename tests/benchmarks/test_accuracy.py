"""The command line of ``python -m benchmarks accuracy``."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from advisor.core import Evaluation
from benchmarks import tables
from benchmarks.accuracy_pick import Candidate, former, most_accurate, ours
from benchmarks.accuracy_search import (
    HEADER as ACCURACY_SEARCH_HEADER,
    NAME,
    Case,
    with_classes,
)
from benchmarks.accuracy_summary import of_claims, of_search, of_seeds
from benchmarks.training_accuracy import Steps
from tests.datasets.folders import make

IMAGES = 66


def candidate(
    card: str, form: str, wrong: Sequence[int], latency_ms: float, size_bytes: int, holdout: float
) -> Candidate:
    right = np.ones(IMAGES, dtype=bool)
    right[list(wrong)] = False
    return Candidate(card, form, right, holdout, latency_ms, size_bytes)


RECORDED = (
    candidate("tiny", "int8", range(2, 19), 0.6, 300_000, 75.0),
    candidate("network", "int8", range(16), 4.1, 4_000_000, 84.1),
    candidate("costly", "float32", range(15), 45.0, 60_000_000, 84.3),
)
"""Far within 50 ms, a network that is one image better than a faster one, and one that is one image better still."""


def known(each: Evaluation) -> list[float]:
    by_form = {(row.card, row.form): row.right for row in RECORDED}
    right: list[float] = by_form[each.configuration.card, each.configuration.compression].astype(float).tolist()
    return right


def test_the_rules_differ_far_within_the_budget() -> None:
    evaluations = [each.judged(np.arange(IMAGES)) for each in RECORDED]
    assert former(evaluations, known).configuration.card == "tiny"
    assert ours(evaluations, known).configuration.card == "network"
    assert most_accurate(evaluations, known).configuration.card == "costly"


def test_a_subset_has_the_first_classes_that_every_part_has(tmp_path: Path) -> None:
    make(tmp_path / "set" / "train", apple=2, banana=2, carrot=2)
    make(tmp_path / "set" / "val", banana=1, carrot=1)
    make(tmp_path / "set" / "test", apple=1, banana=1, carrot=1)
    small = with_classes(Case("all", tmp_path / "set"), 1, tmp_path / "small")
    assert sorted(str(path.relative_to(small.data)) for path in small.data.glob("*/*")) == [
        "test/banana", "train/banana", "val/banana",
    ]  # fmt: skip


def row(name: str, claimed: str, scored: str) -> tuple[str, ...]:
    return (name, "net", "head", "int8", "80.0 (70.0-90.0)", claimed, scored, "", "", "21.0", "6.0", "12.0")


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    return tmp_path


def test_figures_are_those_of_the_shipped_file(results: Path) -> None:
    rows = [row("grocery", "70.0 (68.0-72.0)", "70.0"), row("trashnet, seed 0", "90.0", "90.0")]
    tables.keep(NAME, "title", ACCURACY_SEARCH_HEADER, [*rows, row("trashnet, seed 1", "92.0", "92.0")])
    assert of_search("grocery") == "70.0 (net head int8; 15 CPU min after features)"
    assert of_seeds() == "91.0 ± 1.4 (2 seeds, 21 CPU min)"
    assert of_claims() == "equal (3 searches)"


CARD = "mobilenet_v1_0.25_128"


def test_a_step_that_is_stopped_is_made_anew_and_one_that_ended_is_not(tmp_path: Path) -> None:
    def stopped(path: Path) -> None:
        path.write_text("a part")
        raise KeyboardInterrupt

    def again(path: Path) -> None:
        raise AssertionError(path)

    with pytest.raises(KeyboardInterrupt):
        Steps(CARD, tmp_path)._kept("step.txt", stopped)
    assert Steps(CARD, tmp_path)._kept("step.txt", lambda path: path.write_text("all of it")).read_text() == "all of it"
    assert Steps(CARD, tmp_path)._kept("step.txt", again).read_text() == "all of it"

"""Which searches the benchmark runs, and on which images."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.accuracy_search import Case, cases_of, labelled, with_classes
from tests.datasets.folders import make


def test_every_seed_of_trashnet_is_a_search_with_a_time_limit() -> None:
    cases = list(cases_of(["trashnet"], [3, 4]))
    assert [case.name for case in cases] == ["trashnet, seed 3", "trashnet, seed 4"]
    assert cases[1].options == ("--seed", "4")


def test_an_unknown_set_is_refused() -> None:
    with pytest.raises(SystemExit, match="'trash' is not one of grocery, grocery_train, trashnet"):
        list(cases_of(["trash"], [0]))


def test_a_subset_has_the_first_classes_that_every_part_has(tmp_path: Path) -> None:
    make(tmp_path / "set" / "train", apple=2, banana=2, carrot=2)
    make(tmp_path / "set" / "val", banana=1, carrot=1)
    make(tmp_path / "set" / "test", apple=1, banana=1, carrot=1)
    small = with_classes(Case("all", tmp_path / "set"), 1, tmp_path / "small")
    assert sorted(str(path.relative_to(small.data)) for path in small.data.glob("*/*")) == [
        "test/banana", "train/banana", "val/banana",
    ]  # fmt: skip


def test_a_subset_with_a_test_of_its_own_has_the_same_classes_in_both(tmp_path: Path) -> None:
    make(tmp_path / "train", apple=2, banana=2)
    make(tmp_path / "test", apple=1, banana=1)
    small = with_classes(Case("train", tmp_path / "train", test=tmp_path / "test"), 1, tmp_path / "small")
    assert [path.name for path in small.data.iterdir()] == ["apple"]
    assert small.test is not None
    assert [label for _, label in labelled(small.test)] == ["apple"]

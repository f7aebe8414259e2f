"""Which images a search within a time limit learns from, and which are scored apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.accuracy_limit import cases_of, drawn
from tests.datasets.folders import make


def test_a_draw_leaves_three_of_ten_images_of_each_class_out(tmp_path: Path) -> None:
    make(tmp_path / "set", apple=10, banana=20)
    learnt, test = drawn(tmp_path / "set", "0", tmp_path / "draw")
    counts = {part: [len(list((part / name).iterdir())) for name in ("apple", "banana")] for part in (learnt, test)}
    assert counts == {learnt: [7, 14], test: [3, 6]}
    names = [{str(path.relative_to(part)) for path in part.glob("*/*")} for part in (learnt, test)]
    assert not names[0] & names[1]


def test_two_draws_differ(tmp_path: Path) -> None:
    make(tmp_path / "set", apple=20)
    parts = [drawn(tmp_path / "set", draw, tmp_path / draw)[1] for draw in ("0", "1")]
    assert len({tuple(sorted(path.name for path in part.glob("*/*"))) for part in parts}) == 2


def test_an_unknown_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="'flowers' is not one of grocery, trashnet"):
        list(cases_of(["flowers"], ["0"], tmp_path))

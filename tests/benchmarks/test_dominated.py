"""The replay of forms that are left out."""

from __future__ import annotations

from benchmarks import cost_table
from benchmarks.dominated import CARDS, drawn, summary


def test_a_draw_decides_on_every_form_and_makes_every_float32_file() -> None:
    draw = drawn(cost_table.read("head"), 0, "cheapest first")
    assert len({row.card for row in draw.made}) == CARDS
    assert draw.left_out
    assert "float32" not in {row.recipe for row in draw.left_out}
    assert 0.9 < draw.kept <= 1.0


def test_what_is_lost_is_counted() -> None:
    draw = drawn(cost_table.read("head"), 0, "cheapest first")
    member = draw.members[0]
    lossy = type(draw)(tuple(row for row in draw.made if row != member), (*draw.left_out, member))
    assert summary("", [lossy])[4] == summary("", [draw])[4] + 1
    assert lossy.kept < draw.kept

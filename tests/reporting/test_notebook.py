"""What a notebook shows of a search: a bar, the answer so far and its points, in an output that changes."""

import re
import sys
from types import SimpleNamespace

import pytest

from advisor.reporting import cell
from advisor.reporting._notebook import Cell, cell_html
from tests.reporting.views import HOSTILE, empty_view, run_view

FEW_KB = 4000


def test_it_shows_share_work_answer_and_points_without_scripts() -> None:
    html = cell_html(run_view(), "3 of 9 evaluated, about 2 min left: converting one", 0.25, ["failed  two: too large"])
    assert 'value="0.250"' in html
    assert "25&nbsp;% · 3 of 9 evaluated, about 2\u00a0min left: converting one" in html
    assert "failed  two: too large" in html
    assert "So far: Ship " in html
    assert "Right on " in html
    assert "Top-1 on validation against latency" in html
    assert len(re.findall(r"M\d+ \d+h0", html)) > 20  # the points, those of the front twice
    assert not re.findall(r"<script|https?:|url\(|nan|inf\b", html)


def test_without_a_result_there_is_a_bar_alone_and_a_thousand_evaluations_take_a_few_kilobytes() -> None:
    for view in (None, empty_view()):
        assert "<svg" not in cell_html(view, "starting")
        assert cell_html(view).split() == ["<div", 'style="max-width:46em;line-height:1.5">', "</div>"]
    view = run_view(repeats=12)
    assert len(view.ok) > 1000
    assert len(cell_html(view)) < 5 * FEW_KB


def test_names_are_escaped() -> None:
    name = "".join(HOSTILE)
    html = cell_html(run_view(card_prefix=name), name, 0.5, [name])
    assert "<script" not in html
    assert "<img" not in html


class Handle:
    """Keeps what an output shows."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def update(self, data: dict[str, str], raw: bool) -> None:
        assert raw
        self.shown.append(data["text/html"])


def test_the_bar_moves_twice_a_second_at_most_and_goes_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 0.0, 0.1, 0.6, 0.6])
    clock = SimpleNamespace(monotonic=lambda: next(now))  # other threads have the system's
    monkeypatch.setattr("advisor.reporting._notebook.time", clock)
    handle = Handle()
    made = Cell(handle)
    for share in (0.1, 0.2, 0.3):
        made.status("working", share)
    assert made.answer(run_view()) == ""
    made.close()
    assert [re.findall(r'value="(.+?)"', html) for html in handle.shown] == [["0.100"], ["0.300"], []]
    assert "<svg" in handle.shown[-1]


def test_outside_a_kernel_there_is_none_and_ipython_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cell() is None
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert cell() is None
    assert "IPython" not in sys.modules

"""``profile.html`` in a real browser, and the tables on the terminal, from profiles of real and of made-up files."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from advisor.measurement.accelerators import accelerator
from advisor.measurement.delegation import delegate
from advisor.measurement.operators.profile import profile as measured
from advisor.measurement.operators.profile_values import Profile
from advisor.reporting.profile import BARS, STEPS, print_profile, render
from advisor.tflite.model import read
from tests.browsers import new_context
from tests.measurement import small_models

pytestmark = pytest.mark.integration

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE = '<img src=x onerror=alert(1)>"&'
Open = Callable[..., "Opened"]


class Opened:
    """A page with what it complained of and what it asked for."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page, self.address = page, path.as_uri()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(self.address)

    def traces(self, plot: str) -> list[dict[str, Any]]:
        """What plotly drew."""
        found: list[dict[str, Any]] = self.page.evaluate(
            "id => document.getElementById(id).data.map(t => ({name: t.name, mode: t.mode, x: [...t.x], y: [...t.y],"
            " customdata: t.customdata}))",
            plot,
        )
        return found


@pytest.fixture(scope="module")
def swish(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """A net of three builtin HARD_SWISH between XNNPACK's convolutions."""
    folder = tmp_path_factory.mktemp("profile")
    path = folder / "swish.tflite"
    path.write_bytes(small_models.quantized(small_models.swish_net(), folder, 64))
    return measured(path)


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    contexts = []

    def open_profile(found: Profile, **options: Any) -> Opened:
        path = tmp_path / "profile.html"
        path.write_text(render(found), encoding="utf-8")
        contexts.append(new_context(browser, **options))
        return Opened(contexts[-1].new_page(), path)

    yield open_profile
    for context in contexts:
        context.close()


def test_page_opens_without_complaint_and_asks_for_nothing_but_itself(open_page: Open, swish: Profile) -> None:
    opened = open_page(swish)
    opened.page.wait_for_selector("#plot-roofline .scatterlayer .trace", state="attached")
    assert opened.complaints == []
    assert opened.requests == [opened.address]


def test_bars_are_the_slowest_operators_with_their_times(open_page: Open, swish: Profile) -> None:
    traces = open_page(swish).traces("plot-operators")
    drawn = {label: time for trace in traces for label, time in zip(trace["y"], trace["x"], strict=True)}
    assert drawn == {f"{row.position} {row.type}": pytest.approx(row.time_us) for row in swish.top(BARS)}


def test_operators_stand_under_the_roof_at_their_figures(open_page: Open, swish: Profile) -> None:
    traces = open_page(swish).traces("plot-roofline")
    points = {
        step: (x, y)
        for trace in traces
        if trace["mode"] == "markers"
        for step, x, y in zip(trace["customdata"], trace["x"], trace["y"], strict=True)
    }
    counted = {row.position: row for row in swish.operators if row.gflops}
    assert points.keys() == counted.keys()
    assert points
    for step, row in counted.items():
        assert row.node is not None
        assert points[step] == pytest.approx((2 * row.node.macs / row.node.bytes_moved, row.gflops), rel=1e-6)


def test_the_roof_is_the_machines(open_page: Open, swish: Profile) -> None:
    roof = swish.roofline
    assert roof is not None
    drawn = next(trace for trace in open_page(swish).traces("plot-roofline") if trace["mode"] == "lines")
    assert max(drawn["y"]) == pytest.approx(roof.gflops)
    assert drawn["y"][0] == pytest.approx(roof.gbytes * drawn["x"][0])
    assert drawn["x"][1] == pytest.approx(roof.gflops / roof.gbytes)


def test_without_a_roof_only_the_operators_are_drawn(open_page: Open, swish: Profile) -> None:
    traces = open_page(replace(swish, roofline=None)).traces("plot-roofline")
    assert {trace["mode"] for trace in traces} == {"markers"}


def test_hostile_names_are_shown_and_run_nothing(open_page: Open, swish: Profile) -> None:
    rows = tuple(replace(row, type=HOSTILE, kernel=HOSTILE) for row in swish.operators)
    opened = open_page(replace(swish, model=HOSTILE, operators=rows))
    assert opened.complaints == []
    assert opened.requests == [opened.address]
    assert opened.page.locator("img").count() == 0
    assert opened.page.locator("#operators th bdi").first.inner_text() == HOSTILE


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_screens_need_no_sideways_scrolling(open_page: Open, swish: Profile, scheme: str) -> None:
    opened = open_page(swish, viewport={"width": 390, "height": 800}, color_scheme=scheme)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_tables_hold_every_operator_without_scripts(open_page: Open, swish: Profile) -> None:
    opened = open_page(swish, java_script_enabled=False)
    assert opened.page.locator("#operators tbody tr").count() == len(swish.operators)
    assert opened.page.get_by_text("Scripts are off").is_visible()


def terminal(found: Profile, width: int, everything: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False, highlight=False)
    print_profile(found, console, everything=everything)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_terminal_shows_the_slowest_first_and_all_on_demand(swish: Profile) -> None:
    assert f"The {min(10, len(swish.operators))} slowest of {len(swish.operators)} steps" in terminal(swish, 100)
    assert "Every step" in terminal(swish, 100, everything=True)


def test_terminal_shows_the_steps_that_are_selected(swish: Profile) -> None:
    steps = STEPS.select("-time", ["where=builtin"]).of(swish.operators)
    console = Console(file=io.StringIO(), width=100)
    print_profile(swish, console, steps=steps)
    assert isinstance(console.file, io.StringIO)
    assert f"{len(steps)} of {len(swish.operators)} steps, as selected" in console.file.getvalue()
    assert steps == tuple(sorted(steps, key=lambda step: -step.time_us))
    assert {step.where for step in steps} == {"builtin"}


def test_wide_terminals_show_more(swish: Profile) -> None:
    assert "kB moved" in terminal(swish, 140)
    assert "kB moved" not in terminal(swish, 80)


def test_control_characters_of_a_name_do_not_reach_the_terminal(swish: Profile) -> None:
    rows = tuple(replace(row, type="A\x1b[31mB") for row in swish.operators)
    assert "\x1b" not in terminal(replace(swish, model="a\x1b]0;b.tflite", operators=rows), 100)


def test_accelerators_stand_on_the_page_with_their_figures(open_page: Open, swish: Profile) -> None:
    told = [delegate(read(Path(swish.model)), accelerator(name)) for name in ("edgetpu", "xnnpack")]
    opened = open_page(replace(swish, delegations=tuple(told)))
    rows = opened.page.locator("#accelerators tbody tr")
    for place, each in enumerate(told):
        cells = rows.nth(place).locator("th, td").all_inner_texts()
        assert cells[:4] == [
            each.accelerator.title,
            f"{100 * each.share:.1f}",
            f"{each.taken} of {each.operators}",
            f"{each.kept} of {each.partitions}",
        ]
        assert "HARD_SWISH" in cells[5]
    assert opened.complaints == []

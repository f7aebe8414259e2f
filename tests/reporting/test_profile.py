"""``profile.html`` in a real browser, and the tables on the terminal, from profiles of real and of made-up files."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from advisor.measurement.accelerators import accelerator
from advisor.measurement.delegation import delegate
from advisor.measurement.operators.profile import profile as measured
from advisor.measurement.operators.profile_values import Profile
from advisor.reporting.profile import BARS, STEPS, print_profile, render
from advisor.tflite.model import read
from tests.measurement import small_models
from tests.reporting.conftest import Open, Opened

pytestmark = pytest.mark.integration

HOSTILE = '<img src=x onerror=alert(1)>"&'


def traces_of(opened: Opened, plot: str) -> list[dict[str, Any]]:
    """What plotly drew."""
    found: list[dict[str, Any]] = opened.page.evaluate(
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
def open_page(open_html: Open) -> Open:
    return lambda found, **options: open_html(render(found), **options)


def test_page_opens_without_complaint_and_asks_for_nothing_but_itself(open_page: Open, swish: Profile) -> None:
    opened = open_page(swish)
    opened.page.wait_for_selector("#plot-roofline .scatterlayer .trace", state="attached")
    opened.assert_quiet()


def test_bars_are_the_slowest_operators_with_their_times(open_page: Open, swish: Profile) -> None:
    traces = traces_of(open_page(swish), "plot-operators")
    drawn = {label: time for trace in traces for label, time in zip(trace["y"], trace["x"], strict=True)}
    assert drawn == {f"{row.position} {row.type}": pytest.approx(row.time_us) for row in swish.top(BARS)}


def test_operators_stand_under_the_roof_at_their_figures(open_page: Open, swish: Profile) -> None:
    traces = traces_of(open_page(swish), "plot-roofline")
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
        assert points[step] == pytest.approx((2 * row.node.macs / row.node.bytes_moved, row.gflops), rel=1e-6)


def test_the_roof_is_the_machines(open_page: Open, swish: Profile) -> None:
    roof = swish.roofline
    drawn = next(trace for trace in traces_of(open_page(swish), "plot-roofline") if trace["mode"] == "lines")
    assert max(drawn["y"]) == pytest.approx(roof.gflops)
    assert drawn["y"][0] == pytest.approx(roof.gbytes * drawn["x"][0])
    assert drawn["x"][1] == pytest.approx(roof.gflops / roof.gbytes)


def test_without_a_roof_only_the_operators_are_drawn(open_page: Open, swish: Profile) -> None:
    traces = traces_of(open_page(replace(swish, roofline=None)), "plot-roofline")
    assert {trace["mode"] for trace in traces} == {"markers"}


def test_hostile_names_are_shown_and_run_nothing(open_page: Open, swish: Profile) -> None:
    rows = tuple(replace(row, type=HOSTILE, kernel=HOSTILE) for row in swish.operators)
    opened = open_page(replace(swish, model=HOSTILE, operators=rows))
    opened.assert_quiet()
    assert opened.page.locator("img").count() == 0
    assert opened.page.locator("#operators th bdi").first.inner_text() == HOSTILE


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_screens_need_no_sideways_scrolling(open_page: Open, swish: Profile, scheme: str) -> None:
    open_page(swish, viewport={"width": 390, "height": 800}, color_scheme=scheme).assert_fits()


def test_tables_hold_every_operator_without_scripts(open_page: Open, swish: Profile) -> None:
    opened = open_page(swish, java_script_enabled=False)
    assert opened.page.locator("#operators tbody tr").count() == len(swish.operators)
    assert opened.page.get_by_text("Scripts are off").is_visible()


def terminal(found: Profile, width: int, **options: Any) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False, highlight=False)
    print_profile(found, console, **options)
    return console.file.getvalue()


def test_terminal_shows_the_slowest_first_all_on_demand_and_those_that_are_selected(swish: Profile) -> None:
    assert f"The {min(10, len(swish.operators))} slowest of {len(swish.operators)} steps" in terminal(swish, 100)
    assert "Every step" in terminal(swish, 100, everything=True)
    steps = STEPS.select("-time", ["where=builtin"]).of(swish.operators)
    assert f"{len(steps)} of {len(swish.operators)} steps, as selected" in terminal(swish, 100, steps=steps)
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

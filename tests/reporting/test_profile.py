"""``profile.html`` in a real browser, and the tables on the terminal, from profiles of real and of made-up files."""

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from advisor.cli._files import STEP_COLUMNS
from advisor.measurement import Accelerator, Delegation, Profile
from advisor.measurement._operators.profile import profile as measured
from advisor.reporting import Rows, print_profile
from advisor.reporting._profile import BARS, render
from advisor.tflite import read
from tests.makers.browsers import Browser, Open, Opened, opener
from tests.measurement import small_models

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
    """A net of three builtin HARD_SWISH between XNNPACK's convolutions, and what two accelerators do with it."""
    folder = tmp_path_factory.mktemp("profile")
    path = folder / "swish.tflite"
    path.write_bytes(small_models.quantized(small_models.swish_net(), folder, 64))
    told = (Delegation.of_operators(read(path), Accelerator.find(name)) for name in ("edgetpu", "xnnpack"))
    return replace(measured(path), delegations=tuple(told))


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory, swish: Profile) -> Iterator[Opened]:
    """Its page, opened once for the tests that change nothing on it."""
    with opener(browser, tmp_path_factory.mktemp("page")) as open_html:
        opened = open_html(render(swish))
        opened.page.wait_for_selector("#plot-roofline .scatterlayer .trace", state="attached")
        yield opened


def test_bars_are_the_slowest_operators_with_their_times(page: Opened, swish: Profile) -> None:
    traces = traces_of(page, "plot-operators")
    drawn = {label: time for trace in traces for label, time in zip(trace["y"], trace["x"], strict=True)}
    assert drawn == {f"{row.position} {row.type}": pytest.approx(row.time_us) for row in swish.top(BARS)}
    page.assert_quiet()


def test_accelerators_stand_on_the_page_with_their_figures(page: Opened, swish: Profile) -> None:
    for place, run in enumerate(swish.delegations):
        row = page.page.locator("#accelerators tbody tr").nth(place).locator("th, td").all_inner_texts()
        taken, partitions = f"{run.taken} of {run.operators}", f"{run.kept} of {run.partitions}"
        assert row[:4] == [run.accelerator.title, f"{100 * run.share:.1f}", taken, partitions]
        assert "HARD_SWISH" in row[5]


def test_without_a_roof_only_operators_are_drawn_and_hostile_names_run_nothing(open_html: Open, swish: Profile) -> None:
    rows = tuple(replace(row, type=HOSTILE, kernel=HOSTILE) for row in swish.operators)
    opened = open_html(render(replace(swish, model=HOSTILE, operators=rows, roofline=None)))
    opened.assert_quiet()
    assert opened.page.locator("img").count() == 0
    assert opened.page.locator("#operators th bdi").first.inner_text() == HOSTILE
    assert {trace["mode"] for trace in traces_of(opened, "plot-roofline")} == {"markers"}


def test_a_narrow_screen_needs_no_sideways_scrolling_and_shows_every_operator(page: Opened, swish: Profile) -> None:
    page.page.set_viewport_size({"width": 390, "height": 800})
    page.until_it_fits()
    assert page.page.locator("#operators tbody tr").count() == len(swish.operators)


def terminal(found: Profile, width: int, **options: Any) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False, highlight=False)
    print_profile(found, console, **options)
    return console.file.getvalue()


def test_control_characters_of_a_name_do_not_reach_the_terminal(swish: Profile) -> None:
    rows = tuple(replace(row, type="A\x1b[31mB") for row in swish.operators)
    assert "\x1b" not in terminal(replace(swish, model="a\x1b]0;b.tflite", operators=rows), 100)


def test_terminal_shows_the_slowest_first_all_on_demand_and_those_that_are_selected(swish: Profile) -> None:
    assert f"The {min(10, len(swish.operators))} slowest of {len(swish.operators)} steps" in terminal(swish, 100)
    assert "Every step" in terminal(swish, 100, everything=True)
    assert ["kB moved" in terminal(swish, width) for width in (80, 140)] == [False, True]
    steps = Rows.of_paths(STEP_COLUMNS).select("-time", ["where=builtin"]).of(swish.operators)
    assert f"{len(steps)} of {len(swish.operators)} steps, as selected" in terminal(swish, 100, steps=steps)
    assert steps == tuple(sorted(steps, key=lambda step: -step.time_us))
    assert {step.where for step in steps} == {"builtin"}

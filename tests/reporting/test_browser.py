"""The page in a real browser: opened from a file, without any network."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from advisor.core import Decision, Limits, OverlaidImage, Overlays
from advisor.datasets import DEMO_NOTE
from advisor.engine import Insights
from advisor.reporting import RunView
from advisor.reporting._explanation import meeting_line
from advisor.reporting._html import render_html
from advisor.reporting._phrases import rank_begun
from tests.builders import present
from tests.makers.browsers import Browser, Open, Opened, open_view, opener
from tests.reporting import views
from tests.reporting.test_html import with_plain_spaces
from tests.reporting.test_html_images import photographed
from tests.reporting.views import HOSTILE, empty_view, run_view, running_view, with_dataset, with_pick
from tests.tables import with_cases

ODD = ("a long name of a class", "x" * 60, *(f"class {number}" for number in range(24)), *HOSTILE)
WORDS = Path(__file__).with_name("words_above_the_fold.js").read_text(encoding="utf-8")
SCREENS = [(1400, 900), (390, 844)]
NAMES = {
    "long": [(f"{first} long name of a class, " * 4)[:60] for first in "abcdef"],
    "right to left": [(name * 9)[:60] for name in ("מתכת ", "بلاستيك ", "זכוכית ", "ورق ", "קרטון ", "نفايات ")],
}


def points_of(opened: Opened, plot: str) -> dict[int, tuple[float, float]]:
    """Read what plotly drew: evaluation index to (x, y)."""
    found: list[list[Any]] = opened.page.evaluate(
        """id => document.getElementById(id).data.filter(t => t.customdata)
               .flatMap(t => t.customdata.map((index, k) => [index, t.x[k], t.y[k]]))""",
        plot,
    )
    return {index: (x, y) for index, x, y in found}


def shown_rows(opened: Opened) -> list[int]:
    found: list[int] = opened.page.evaluate(
        "[...document.querySelectorAll('#all tbody tr')].filter(r => !r.hidden).map(r => Number(r.dataset.i))"
    )
    return found


@pytest.fixture
def opened(run_page: Opened) -> Iterator[Opened]:
    """The page of ``run_view`` for a test that filters, sorts or selects: its filters are reset afterwards."""
    yield run_page
    run_page.page.evaluate("document.querySelectorAll('details.fold').forEach((fold) => { fold.open = true; })")
    run_page.page.get_by_role("button", name="Reset filters").click()
    run_page.until("document.getElementById('plot-latency').layout.xaxis.title.text.includes('p90')")
    run_page.until(f"document.getElementById('shown').textContent.startsWith('{len(run_view().evaluations)} ')")


@pytest.mark.parametrize("view", [empty_view(), run_view(limits=Limits(latency_ms=0.2, size_bytes=8e6), data=False)])
def test_a_page_without_a_pick_is_quiet_and_refuses_a_foreign_script(open_page: Open, view: RunView) -> None:
    opened = open_page(view)
    opened.assert_quiet()
    opened.page.evaluate(
        "const s = document.createElement('script'); s.textContent = 'window.broken = 1'; document.body.append(s)"
    )
    assert opened.page.evaluate("window.broken === undefined")


def test_plots_hold_every_evaluation_at_its_figures(run_page: Opened) -> None:
    view = run_view()
    rows = {index: row for index, row in enumerate(rank_begun(view)) if row.latency_p90 and row.accuracy and row.size}
    latency, size = points_of(run_page, "plot-latency"), points_of(run_page, "plot-size")
    assert latency.keys() == size.keys() == rows.keys()
    for index, row in rows.items():
        assert latency[index] == pytest.approx((row.latency_p90.value, row.accuracy.value), rel=1e-4)
        assert size[index] == pytest.approx((row.size.value / 1e6, row.accuracy.value), rel=1e-4)


def test_budget_is_drawn_where_it_is(run_page: Opened) -> None:
    shapes = run_page.page.evaluate(
        "['plot-latency', 'plot-size'].map(id => document.getElementById(id).layout.shapes"
        ".filter(s => s.type == 'line').map(s => [s.x0, s.x1]))"
    )
    assert shapes == [[[50, 50]], [[8, 8]]]


def test_page_of_a_run_opens_without_complaint_and_asks_for_nothing_but_itself(run_page: Opened) -> None:
    run_page.assert_quiet()


def test_median_replaces_p90_on_demand(opened: Opened) -> None:
    opened.page.locator("input[name=latency][value=latency]").check()
    opened.until("document.getElementById('plot-latency').layout.xaxis.title.text === 'Latency (ms)'")
    assert points_of(opened, "plot-latency")[0][0] == pytest.approx(run_view().decision.pick.latency.value, rel=1e-4)


def test_filter_leaves_only_what_was_asked_for_in_plots_and_table(opened: Opened) -> None:
    view = run_view()
    for family in ("mobilenet_v1", "efficientnet_lite", "inception_v3"):
        opened.page.locator(f"input[name=family][value={family}]").uncheck()
    opened.page.locator("input[name=threads][value='2']").uncheck()
    left = [
        row.family in ("mobilenet_v2", "squeezenet") and row.configuration.target.threads == 1
        for row in rank_begun(view)
    ]
    wanted = [index for index, shown in enumerate(left) if shown]
    assert sorted(shown_rows(opened)) == wanted
    assert set(points_of(opened, "plot-latency")) <= set(wanted)
    assert opened.page.locator("#shown").inner_text() == f"{len(wanted)} of {len(view.evaluations)} shown"


def test_filter_for_the_budget_and_reset(opened: Opened) -> None:
    view = run_view()
    opened.page.locator("input[name=only][value=meets]").check()
    meets = [index for index, row in enumerate(rank_begun(view)) if view.limits.met_by(row)]
    assert sorted(shown_rows(opened)) == meets
    opened.page.get_by_role("button", name="Reset filters").click()
    opened.until(f"document.getElementById('shown').textContent.startsWith('{len(view.evaluations)} ')")
    assert len(shown_rows(opened)) == len(view.evaluations)


def test_pick_and_runner_up_are_compared_until_others_are_chosen(opened: Opened) -> None:
    rows, decision = rank_begun(run_view()), run_view().decision

    def compared() -> list[str]:
        return opened.page.locator("#compare-table thead th").all_inner_texts()[1:3]

    for text, row in zip(compared(), (decision.pick, decision.runner_up), strict=True):
        assert row.configuration.card in text
    for index in (5, 9):
        opened.page.locator(f"#all tr[data-i='{index}'] input").check()
    top1 = opened.page.locator("#compare-table tbody tr").first.locator("td").all_inner_texts()
    for text, figure, row in zip(compared(), top1[:2], (rows[5], rows[9]), strict=True):
        assert row.configuration.card in text
        assert figure.startswith(f"{row.accuracy.value:.1f}")
    assert opened.page.locator("#all input:checked").count() == 2


def test_accuracies_on_other_numbers_of_images_of_the_hold_out_are_not_compared(open_page: Open) -> None:
    view = views.judged_view()
    judged = replace(present(present(view.decision.pick).holdout_accuracy), n=166)
    rows = [
        replace(row, holdout_accuracy=judged) if row.configuration.key == view.pick_key else row
        for row in view.evaluations
    ]
    opened = open_page(replace(view, evaluations=tuple(rows)))
    on_holdout = opened.page.locator("#compare-table tbody tr").nth(1).locator("td").all_text_contents()
    assert on_holdout[2] == "not compared: on 166 and 505 images"


def test_sorting_orders_the_rows_both_ways_and_says_so(opened: Opened) -> None:
    rows = rank_begun(run_view())
    known = sorted(row.size.value for row in rows if row.size is not None)
    heading = opened.page.locator("#all th[data-sort='3']")
    heading.get_by_role("button").focus()
    for direction in ("ascending", "descending"):
        opened.page.keyboard.press("Enter")
        assert heading.get_attribute("aria-sort") == direction
        sizes = [rows[index].size for index in shown_rows(opened)]
        assert [size.value for size in sizes[: len(known)]] == sorted(known, reverse=direction == "descending")


def test_page_follows_the_dark_scheme(run_page: Opened) -> None:
    def background(scheme: Literal["dark", "light"]) -> str:
        run_page.page.emulate_media(color_scheme=scheme)
        return str(run_page.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    assert background("dark") != background("light")


def test_every_control_has_a_name(run_page: Opened) -> None:
    nameless = run_page.page.evaluate(
        """[...document.querySelectorAll('button, input')].filter(e => !(e.textContent.trim() ||
               e.getAttribute('aria-label') || (e.labels && [...e.labels].some(l => l.textContent.trim())))).length"""
    )
    assert nameless == 0


def test_without_scripts_details_are_folded_and_every_figure_stands_in_the_tables(open_html: Open) -> None:
    opened = open_html(render_html(run_view()), java_script_enabled=False)
    assert opened.page.locator("details.fold").count() >= 6
    assert opened.page.locator("details.fold[open] > summary").all_text_contents() == ["Classes"]
    assert opened.page.locator("#all tbody tr").count() == len(run_view().evaluations)
    assert opened.page.get_by_text("Scripts are off").is_visible()


def test_details_are_folded_when_printed_until_a_link_opens_them(opened: Opened) -> None:
    opened.page.evaluate("document.querySelectorAll('details.fold').forEach((fold) => { fold.open = false; })")
    opened.page.set_viewport_size({"width": 390, "height": 800})
    assert opened.page.evaluate("document.documentElement.scrollHeight") <= 12_000
    assert 1 <= len(re.findall(rb"/Type */Page\b", opened.page.pdf())) <= 2
    opened.page.get_by_text("Contents", exact=True).click()
    opened.page.get_by_role("navigation").get_by_role("link", name="Evaluations").click()
    opened.until("document.querySelector('#evaluations > details').open")


@pytest.fixture(scope="module")
def odd_page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The page of a run with odd names and a candidate far below the others, opened once."""
    limits = Limits(latency_ms=5000.0, size_bytes=200_000_000)
    view, rows = run_view(classes=ODD, limits=limits, card_suffix="<img src=x onerror=alert(3)>&<b>"), []
    last = max(view.ok, key=lambda row: row.latency.value)
    far = replace(last.accuracy, value=5.0, low=3.0, high=8.0)
    for row in view.evaluations:
        rows.append(replace(row, accuracy=far) if row is last else row)
    with opener(browser, tmp_path_factory.mktemp("odd")) as open_html:
        decision = Decision.of_evaluations(rows, limits)
        yield open_view(open_html, replace(view, evaluations=tuple(rows), decision=decision))


def test_hostile_names_run_nothing(odd_page: Opened) -> None:
    odd_page.assert_quiet()
    assert odd_page.page.locator("img").count() == 0
    assert odd_page.page.locator("#data .bars th bdi").all_text_contents() == list(ODD)
    hover = odd_page.page.evaluate("document.getElementById('plot-latency').data.find(t => t.hovertext).hovertext[0]")
    assert "<img" not in hover
    assert odd_page.page.locator("#plot-latency .annotation-text").filter(has_text="<img").count() >= 1


def test_a_candidate_far_below_does_not_squeeze_the_others(odd_page: Opened) -> None:
    plot = odd_page.page.evaluate("document.getElementById('plot-latency').layout")
    assert plot["yaxis"]["range"][0] > 40.0
    assert any(note["text"].startswith("▼ 1 candidate below") for note in plot["annotations"])
    assert 5.0 in [y for _, y in points_of(odd_page, "plot-latency").values()]


def without_much(view: RunView, case: str) -> RunView:
    """Return the run as one that gives images several labels, of which it finds few, or none if it is worthless."""
    pick = present(view.decision.pick)
    answers, reached = present(pick.holdout_answers), present(pick.holdout_accuracy)
    result = "missed: ace, queen; wrong: jack, king, ten; found: nine"
    wrong = present(answers.confidence).mistakes
    images = tuple(OverlaidImage(row.path, row.sha256, 80, 60, result, "", "") for row in wrong)
    answers = replace(answers, confidence=None, overlays=Overlays(images))
    if case == "worthless":
        reached = replace(reached, value=0.4, low=0.0, high=1.0)
    return with_pick(view, holdout_answers=answers, holdout_accuracy=reached)


def wordy_view(case: str, folder: Path) -> RunView:
    """Return a run whose first screen could have many words."""
    usual, running = photographed(folder), running_view()
    if case in ("tags", "worthless"):
        return without_much(usual, case)
    if case in NAMES:
        return with_dataset(usual, images_per_class=dict.fromkeys(NAMES[case], 60))
    if case == "one candidate":
        long = run_view(card_suffix="x" * 60)
        return replace(long, evaluations=long.ok[:1], decision=Decision.of_evaluations(long.ok[:1], long.limits))
    if case == "stopped":
        stopped = replace(present(running.insights.unfinished), running=False)
        return replace(usual, insights=Insights(unfinished=stopped))
    wrong = replace(present(present(usual.decision.pick).holdout_accuracy), value=0.0, low=0.0, high=0.7)
    others = {"running": running, "running, no result": running_view(0), "none": empty_view()}
    others |= {"no images": run_view(data=False), "no image is wrong": views.judged_view()}
    others |= {"nothing fits": views.infeasible_view(), "all are wrong": with_pick(usual, holdout_accuracy=wrong)}
    others["200 classes"] = run_view(classes=tuple(map("class {}".format, range(200))))
    return others.get(case) or with_dataset(usual, notes=(DEMO_NOTE,))


@with_cases
def test_the_first_screen_has_at_most_ninety_words_of_any_run(open_html: Open, tmp_path: Path, run: str) -> None:
    opened = open_html(render_html(wordy_view(run, tmp_path)))
    for width, height in SCREENS:
        opened.page.set_viewport_size({"width": width, "height": height})
        words = opened.page.evaluate(WORDS)
        assert 30 < len(words) <= 90, words
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width, "names are broken"


@pytest.mark.parametrize(("width", "height"), SCREENS)
def test_the_first_screen_has_a_sentence_a_plot_and_photographs_in_ninety_words(
    open_page: Open, tmp_path: Path, width: int, height: int
) -> None:
    view = photographed(tmp_path)
    opened = open_page(view, viewport={"width": width, "height": height})
    assert (view.decision.pick.artefact in opened.page.evaluate(WORDS)) == (width == 1400)
    assert with_plain_spaces(opened.page.locator("#say").inner_text()) == meeting_line(view) != ""
    opened.page.get_by_role("button", name="Copy").click()
    opened.until("/Copied|Selected/.test(document.querySelector('button.copy').textContent)")
    assert with_plain_spaces(opened.page.evaluate("getSelection().toString()")) == meeting_line(view)
    seen = "one => {const box = one.getBoundingClientRect(); return box.height > 50 && box.top < innerHeight}"
    assert opened.page.locator(".first .chart svg").evaluate(seen)
    whole = "all => all.every(one => one.scrollHeight <= one.clientHeight)"
    assert opened.page.locator(".wrong figcaption").evaluate_all(whole), "no name is cut"
    least = 6 if width > 390 else 3
    assert opened.page.locator(".wrong img").evaluate_all(f"all => all.filter({seen}).length") >= least
    opened.page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert view.decision.rule in with_plain_spaces(opened.page.locator("details.reasons").text_content() or "")
    opened.page.emulate_media(media="print")
    assert not opened.page.locator("button.copy").is_visible()
    table = "document.querySelector('.plots ~ details').checkVisibility()"
    assert opened.page.evaluate(f"{table} === !!document.querySelector('.plot:empty')"), "a table or plots, not both"

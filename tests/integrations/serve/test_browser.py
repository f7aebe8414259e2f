"""The pages in headless Chromium, from a real server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from advisor.engine import Snapshot
from advisor.engine._history.changes import host_manifest
from advisor.engine._remaining import write_snapshot
from advisor.integrations.browser import LITERT
from advisor.integrations.browser.tryout._phone import picture_code
from advisor.reporting import RunView, write_all
from advisor.reporting._files import recommendation_json
from advisor.store import RunFolder
from tests.builders import must_fail
from tests.integrations.serve.shown import ENDED, photograph, two_cells
from tests.makers.browsers import Browser, Page, new_context, require_runtime
from tests.predictor import REQUEST, rows
from tests.run_folders import candidates, with_artefact, write_run
from tests.tables import read_table

MIDDLES = read_table(__file__, "texts.yaml")["middles_of_marks"]
"""The middles of the marks on each picture, in shares of its sides."""


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A page as wide as a phone; it fails the test if it complains, asks elsewhere or scrolls sideways."""
    context = new_context(browser, viewport={"width": 390, "height": 800}, color_scheme="dark")
    page, complaints = context.new_page(), list[str]()

    def log(message: Any) -> None:
        if message.type in ("error", "warning") and "status of 400" not in message.text:
            complaints.append(message.text)

    def asked(request: Any) -> None:
        if not request.url.startswith((address.rsplit("/", 2)[0], "data:", "blob:")):
            complaints.append(request.url)

    page.on("console", log)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", asked)
    page.goto(address)
    yield page
    page.wait_for_load_state("load")  # its styles are there
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()
    assert not complaints


def test_a_running_search_is_followed_to_its_end(page: Page, runs: Path) -> None:
    run = write_run(runs, [], manifest={"configurations": 3})
    held = run.hold()
    page.click(f"text={run.path.name}")
    page.wait_for_selector("text=0 of 3 configurations")
    write_snapshot(run, Snapshot("training head of <b>best", 0, 3, 75.0, 0.25))
    page.wait_for_selector("text=25 %, about 1 min 15 s left")
    assert page.inner_text(".now >> nth=0") == "Now: training head of <b>best"
    for each in candidates():
        run.append(with_artefact(run, each))
    answer = recommendation_json(RunView.load(run, running=True))
    (run.path / "recommendation.json").write_text(answer, encoding="utf-8")
    page.wait_for_selector("text=3 of 3 configurations")
    assert page.inner_text("#answer-title") == "best int8"
    run.write_json("manifest.json", {"configurations": 3, "stopped": {"why": "complete", "text": "done"}})
    held.release()
    page.wait_for_selector("text=Try a photograph")


def drop(page: Page, run: RunFolder, photograph: bytes) -> None:
    """Open a run, drop a photograph on it, and wait for the answers."""
    page.click(f"text={run.path.name}")
    page.wait_for_selector("#drop")
    page.wait_for_load_state("load")  # its scripts are there
    given = page.evaluate_handle(
        """bytes => { const given = new DataTransfer();
        given.items.add(new File([new Uint8Array(bytes)], "a.png", {type: "image/png"})); return given; }""",
        list(photograph),
    )
    page.dispatch_event("#drop", "drop", {"dataTransfer": given})
    page.wait_for_selector("text=/All files (give|find) the same/")  # a process starts and loads


def test_a_photograph_is_dropped_on_a_run(page: Page, colours: RunFolder) -> None:
    write_all(RunView.load(colours), colours.path)
    drop(page, colours, photograph((10, 250, 10)))
    assert page.locator("#answers tbody tr:first-child th").all_inner_texts() == ["green", "green"]
    page.set_input_files("#photograph", {"name": "b.jpg", "mimeType": "image/jpeg", "buffer": b"no image"})
    page.wait_for_selector("#answers >> text=not a JPEG")
    page.frame_locator("iframe.report").locator("#plot-size .scatterlayer .trace").first.wait_for(state="attached")


def test_objects_are_drawn_where_they_are(page: Page, detectors: RunFolder) -> None:
    page.reload()
    (detectors.path / "report.html").unlink()  # it takes seconds to draw
    drop(page, detectors, two_cells())
    page.wait_for_function("[...document.querySelectorAll('.picture img')].every(one => one.naturalWidth === 128)")
    for middles in page.evaluate(MIDDLES):
        expected = ((0.125, 0.125), (0.625, 0.625))
        assert middles == [pytest.approx(middle, abs=0.02) for middle in expected]
    assert page.locator(".picture rect").count() == 4
    assert not page.is_visible("#shown")


def test_the_list_is_used_by_keyboard(page: Page, runs: Path) -> None:
    write_run(runs, name="first")
    write_run(runs, name="second")
    page.reload()
    page.focus("#words")
    page.keyboard.type("second")
    page.keyboard.press("Enter")
    page.wait_for_url("**words=second**")
    assert page.locator("tbody tr").count() == 1
    page.focus("tbody a")
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer-title")


def test_a_phone_opens_a_run_by_its_code_until_that_is_ended(page: Page, colours: RunFolder) -> None:
    import httpx2

    require_runtime(LITERT)
    write_all(RunView.load(colours), colours.path)
    (colours.path / "report.html").unlink()  # it takes seconds to draw
    page.click(f"text={colours.path.name}")
    page.fill("#address", "127.0.0.1")
    page.click("text=Open it")
    page.wait_for_selector(".code")
    address = page.inner_text("#address-for-phones")
    assert page.get_attribute(".code", "src") == picture_code(address)
    assert "colours" in httpx2.get(address, verify=False).text
    page.click("text=End it")
    page.wait_for_selector("text=its address is void")
    must_fail(httpx2.ConnectError, "", httpx2.get, address, verify=False)


@pytest.mark.slow
def test_a_re_evaluation_is_started_and_its_result_is_shown(page: Page, runs: Path) -> None:
    run = write_run(runs, rows(), request=REQUEST, manifest=host_manifest({}))
    page.reload()
    page.click(f"text={run.path.name}")
    page.select_option("#device", "raspberry-pi-4")
    page.click("button >> text=Start")
    page.wait_for_selector("text=Re-evaluation for raspberry-pi-4 >> text=finished", timeout=120_000)  # a process
    said = page.locator("#live .card").all_inner_texts()
    assert "host: nothing changed." in said[0]
    assert "raspberry-pi-4: changed. The pick changed from inception_v3_299 float32" in said[1]
    page.click("#live .card a >> text=compare")
    page.wait_for_selector("h2 >> text=changed")
    assert page.locator(".pick .sides td").first.inner_text() == "inception_v3_299 float32 on 1 thread"
    page.click(".pick .sides th:nth-child(3) a")
    page.wait_for_selector("#answer-title")
    assert "inception_v3_299" not in page.inner_text("#answer-title")


def test_no_page_scrolls_sideways(page: Page, address: str, runs: Path) -> None:
    names = []
    for budget, data in (("50ms", "photographs/" + 20 * "of_flowers"), ("10ms", "other")):
        run = write_run(runs, manifest=ENDED, request={"budget": budget, "data": data}, name=40 * "x")
        write_all(RunView.load(run), run.path)
        (run.path / "report.html").unlink()  # it takes seconds to draw
        names.append(run.path.name)
    for path in ("", f"runs/{names[0]}/", f"compare?before={names[0]}&after={names[1]}"):
        page.goto(address + path)
        for width in (1280, 768, 390):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
            outside = (
                "[...document.querySelectorAll('main *')].filter(one => one.getBoundingClientRect().right > innerWidth)"
            )
            assert page.evaluate(f"{outside}.map(one => one.outerHTML)") == [], (path, width)

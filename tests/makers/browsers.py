"""Headless Chromium for the tests of pages."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from advisor.core import UsageError
from advisor.integrations.browser import fetch_package
from advisor.reporting import RunView
from advisor.reporting._html import render_html
from advisor.store import WeightSource
from tests.processes import PATIENCE_S, until
from tests.requirements import skip_or_fail

if TYPE_CHECKING:
    from playwright.sync_api import Browser as Browser, BrowserContext as BrowserContext, Page as Page
else:
    Browser = BrowserContext = Page = Any  # Tests without a browser do not load Playwright

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
)  # fmt: skip


def chromium() -> str:
    """Return the path of the system's browser."""
    found = shutil.which("chromium")
    if found is None:
        skip_or_fail("no 'chromium' on the PATH: install Debian's chromium package to check pages")
    return found


def launched(starts_processes: None) -> Iterator[Browser]:
    """Headless Chromium of the system; its event loop must not stay when tests of asyncio follow."""
    from playwright.sync_api import sync_playwright

    # A page takes a quarter of the CPU time there.
    program = shutil.which("chromium-headless-shell") or chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


browser = pytest.fixture(scope="module", name="browser")(launched)


def new_context(browser: Browser, **options: Any) -> BrowserContext:
    """Open a context whose pages wait as long as a busy machine needs."""
    context = browser.new_context(**options)
    context.set_default_timeout(1000 * PATIENCE_S)
    return context


def ask_page(browser: Browser, bundle: Path, photograph: Path) -> tuple[Page, list[float]]:
    """Give the page of a bundle a photograph; return the page, and the scores that it computes."""
    page = new_context(browser).new_page()
    page.goto((bundle / "web" / "index.html").as_uri())
    page.wait_for_selector("body[data-ready]")
    page.set_input_files("#file", str(photograph))
    page.wait_for_selector("#result:not([hidden])")
    return page, json.loads(page.get_attribute("#result", "data-probabilities") or "")


def require_runtime(package: WeightSource) -> None:
    """Skip the test where the npm package of a runtime cannot be had."""
    try:
        fetch_package(package)
    except UsageError as error:
        skip_or_fail(error.message)


@dataclass
class Opened:
    """A page with what it complained of (dialogs too, since it opens none) and what it asked for."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def assert_quiet(self) -> None:
        """Check that the page complains of nothing, and asks for nothing but itself."""
        assert self.complaints == []
        assert self.requests == [self.address]

    def until(self, condition: str) -> None:
        """Wait for a condition of the page, asked from outside: its policy forbids what polls from inside."""
        until(lambda: self.page.evaluate(condition))

    def until_it_fits(self) -> None:
        """Wait until nobody has to scroll sideways."""
        self.until("document.documentElement.scrollWidth <= innerWidth")


Open = Callable[..., Opened]


@contextmanager
def opener(browser: Browser, folder: Path) -> Iterator[Open]:
    """Give a function that opens a page from its file."""
    contexts = []

    def opened(content: str, **options: Any) -> Opened:
        path = folder / "page.html"
        path.write_text(content, encoding="utf-8")
        contexts.append(new_context(browser, **options))
        page = contexts[-1].new_page()
        found = Opened(page, path.as_uri())
        bad = ("error", "warning")
        page.on("console", lambda said: found.complaints.append(said.text) if said.type in bad else None)
        page.on("pageerror", lambda error: found.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (found.complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: found.requests.append(request.url))
        page.goto(found.address)
        return found

    yield opened
    for context in contexts:
        context.close()


def open_view(open_html: Open, view: RunView, **options: Any) -> Opened:
    """Render a run, open its page and wait until the plots are drawn."""
    opened = open_html(render_html(view), **options)
    opened.page.evaluate("document.querySelectorAll('details.fold').forEach((fold) => { fold.open = true; })")
    if view.ok and options.get("java_script_enabled", True):
        # Plots are drawn when they come near.
        opened.page.evaluate("document.getElementById('explore').scrollIntoView()")
        opened.page.wait_for_selector("#plot-size .scatterlayer .trace", state="attached")
        opened.page.evaluate("scrollTo(0, 0)")
    return opened

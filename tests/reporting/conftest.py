"""One browser for the tests of a page, and a run of detectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from advisor.core.evaluation_facts import ImageAnswers
from advisor.datasets.boxes.values import ONE_CLASS
from advisor.reporting.html import render_html
from advisor.reporting.view import RunView, load_view
from advisor.tasks import DETECTION
from tests.browsers import launched, new_context
from tests.processes import until
from tests.reporting.views import run_view
from tests.run_folders import candidates, images, write_judged_detectors, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

browser = pytest.fixture(scope="package", name="browser")(launched)  # no test here uses asyncio


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
        opened.page.wait_for_selector("#plot-size .scatterlayer .trace", state="attached")
    return opened


@pytest.fixture
def open_html(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Return a function that opens a page from its file."""
    with opener(browser, tmp_path) as opened:
        yield opened


@pytest.fixture
def open_page(open_html: Open) -> Open:
    """Return a function that opens the page of a run."""
    return lambda view, **options: open_view(open_html, view, **options)


@pytest.fixture(scope="module")
def run_page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The page of ``run_view``, opened once for the tests that change nothing on it."""
    with opener(browser, tmp_path_factory.mktemp("page")) as open_html:
        yield open_view(open_html, run_view())


@pytest.fixture
def detectors(tmp_path: Path) -> RunView:
    """A run of object detection, of which the pick has the precision of each class."""
    by_class = ImageAnswers({"cat": 0.95, "dog": 0.85, "owl": None})
    rows = [replace(row, answers=by_class) for row in candidates()]
    dataset = {**images({ONE_CLASS: 60}), "boxes_per_class": {"cat": 70, "dog": 49, "owl": 1}}
    request = {"task": DETECTION.name, "data": "boxes", "min_accuracy": "50%"}
    return load_view(write_run(tmp_path, rows, request=request, dataset=dataset))


@pytest.fixture
def judged_detectors(tmp_path: Path) -> RunView:
    """Such a run of which the pick was judged on the hold-out, with three of its images: the second one is gone."""
    return load_view(write_judged_detectors(tmp_path))

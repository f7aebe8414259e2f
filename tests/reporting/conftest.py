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
from tests.browsers import browser, new_context
from tests.reporting.views import run_view
from tests.run_folders import candidates, images, write_judged_detectors, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

__all__ = ["browser"]


@dataclass
class Opened:
    """A page with what it complained of and what it asked for."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def refuse(self, dialog: Dialog) -> None:
        """Close a dialog: the page opens none of its own."""
        self.complaints.append(f"dialog {dialog.message}")
        dialog.dismiss()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Return a function that renders a run, opens it from its file and waits until the plots are drawn."""
    with _opener(browser, tmp_path) as open_view:
        yield open_view


@pytest.fixture(scope="module")
def run_page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The page of ``run_view``, opened once for the tests that change nothing on it."""
    with _opener(browser, tmp_path_factory.mktemp("page")) as open_view:
        yield open_view(run_view())


@pytest.fixture
def detectors(tmp_path: Path) -> RunView:
    """A run of object detection, of which the pick has the precision of each class."""
    by_class = ImageAnswers({"cat": 0.95, "dog": 0.85, "owl": None})
    rows = [replace(row, answers=by_class) for row in candidates()]
    boxes = {"boxes_per_class": {"cat": 70, "dog": 49, "owl": 1}}
    run = write_run(
        tmp_path,
        rows,
        request={"task": DETECTION.name, "data": "boxes", "min_accuracy": "50%"},
        dataset={**images({ONE_CLASS: 60}), **boxes},
    )
    return load_view(run)


@pytest.fixture
def judged_detectors(tmp_path: Path) -> RunView:
    """Such a run of which the pick was judged on the hold-out, with three of its images: the second one is gone."""
    return load_view(write_judged_detectors(tmp_path))


@contextmanager
def _opener(browser: Browser, folder: Path) -> Iterator[Callable[..., Opened]]:
    contexts = []

    def open_view(view: RunView, **options: Any) -> Opened:
        path = folder / "report.html"
        path.write_text(render_html(view), encoding="utf-8")
        context = new_context(browser, **options)
        contexts.append(context)
        page = context.new_page()
        opened = Opened(page, path.as_uri())
        page.on("console", lambda message: opened.complaints.append(message.text) if _is_bad(message) else None)
        page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        page.on("dialog", opened.refuse)
        page.on("request", lambda request: opened.requests.append(request.url))
        page.goto(opened.address)
        if view.ok and options.get("java_script_enabled", True):
            page.wait_for_selector("#plot-size .scatterlayer .trace", state="attached")
        return opened

    yield open_view
    for context in contexts:
        context.close()


def _is_bad(message: Any) -> bool:
    return message.type in ("error", "warning")

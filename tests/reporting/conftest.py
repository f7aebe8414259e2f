"""One browser for the tests of a page, and a run of detectors."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core import ImageAnswers
from advisor.datasets import ONE_CLASS
from advisor.reporting import RunView
from advisor.tasks.detection import DETECTION
from tests.makers.browsers import Browser, Open, Opened, launched, open_view, opener
from tests.reporting.views import run_view
from tests.run_folders import candidates, images, write_judged_detectors, write_run

browser = pytest.fixture(scope="package", name="browser")(launched)  # no test here uses asyncio


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
    return RunView.load(write_run(tmp_path, rows, request=request, dataset=dataset))


@pytest.fixture
def judged_detectors(tmp_path: Path) -> RunView:
    """Such a run of which the pick was judged on the hold-out, with three of its images: the second one is gone."""
    return RunView.load(write_judged_detectors(tmp_path))

"""Headless Chromium for the tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from advisor.core.errors import UsageError
from advisor.downloads.files import WeightSource
from advisor.integrations.browser import fetched
from tests.processes import PATIENCE_S
from tests.requirements import skip_or_fail

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

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

    program = chromium()
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


def require_runtime(package: WeightSource) -> None:
    """Skip the test where the npm package of a runtime cannot be had."""
    try:
        fetched(package)
    except UsageError as error:
        skip_or_fail(error.message)

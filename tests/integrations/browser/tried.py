"""A run that is tried, the server of its page, and what a page posts."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.cli import LocalServer
from advisor.devices import read_features
from advisor.integrations.browser.tryout._app import PageRoutes
from advisor.integrations.browser.tryout._timings import Recorder
from advisor.integrations.browser.tryout._trial import RunPage
from advisor.store import RunFolder, sha256_file
from advisor.tflite import Metadata
from tests.builders import evaluation
from tests.integrations.serve.shown import ENDED, FORMS
from tests.makers.browsers import Browser, Page, new_context
from tests.measurement import small_models
from tests.processes import until
from tests.run_folders import with_artefact, write_run

TOKEN = "t" * 43
SIDE = 224  # a run takes longer than a step of the clock of a browser


def write_tried_run(out: Path, classifier: bytes = b"", side: int = SIDE) -> RunFolder:
    """Write a run of a classifier in float32 and int8; the default tells the brightest colour."""
    run = write_run(out, [], manifest=ENDED, name="colours")
    floats = classifier or small_models.brightness(side)
    described = Metadata("colours", ("red", "green", "blue"), (127.5,), (127.5,))
    for form, content in zip(FORMS, (floats, small_models.quantized(floats, out.parent, side)), strict=True):
        one = with_artefact(run, evaluation("colours", form, latency=1.0 if form == "int8" else 2.0))
        (run.path / one.artefact).write_bytes(described.write_into(content))
        features = read_features(run.path / one.artefact)
        run.append(replace(one, artefact_sha256=sha256_file(run.path / one.artefact), file_features=features))
    return run


def pages_of(run: RunFolder, most: int | None = 100) -> PageRoutes:
    """Return the pages of a server that started ten seconds ago, and answers at most so many requests."""
    page, server = RunPage.of(run.path), LocalServer(8000, TOKEN, "try", most_requests=most)
    return PageRoutes(page, server, Recorder(page, print, time.monotonic() - 10))


def read_posted() -> Any:
    """Return the timings of two files as a page posts them, and those of one on two threads that became hot."""
    return json.loads(Path(__file__).with_name("posted.json").read_text(encoding="utf-8"))


@contextmanager
def served(pages: PageRoutes) -> Iterator[None]:
    """Serve the pages at a free port of this machine."""
    with LocalServer.open_socket(LocalServer.host, 0) as listening:
        pages.server = replace(pages.server, port=listening.getsockname()[1])
        server = pages.server.make_server(pages.app())
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        yield
        server.should_exit = True
        thread.join()


@contextmanager
def opened(pages: PageRoutes, browser: Browser) -> Iterator[Page]:
    """Serve the pages to a phone; give the page before it loads. It may complain of nothing."""
    complaints = list[str]()
    with served(pages):
        page = new_context(browser, viewport={"width": 390, "height": 844}, is_mobile=True).new_page()
        page.on("console", lambda said: complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page
        page.context.close()
    assert complaints == []


def shorten_timings(page: Page, **changes: Any) -> None:
    """Let an open page time less. The server asks for all blocks, each with a time that is not 0."""
    warm = {"runs": 1, "least_ms": 0, "most_ms": 20}
    short = {"runs": 8, "least_ms": 20, "most_ms": 40, "pause_ms": 0, "warm": warm, **changes}
    page.evaluate("changes => Object.assign(page.protocol, changes)", short)


def time_files(page: Page) -> None:
    """Let a page time its files until a result is written: a busy machine can slow down as a hot phone does."""
    said = "nothing is kept"
    while "nothing is kept" in said or "WebGPU; throttled" in said:
        page.click("#time")
        until(lambda: page.is_enabled("#time"))
        said = page.inner_text("#timed") + page.inner_text("#times")
    assert said.startswith("Written"), said

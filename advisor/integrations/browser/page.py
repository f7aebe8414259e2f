"""A page in headless Chromium that runs models in a worker: made in the child process that measures."""

from __future__ import annotations

import threading
from collections import ChainMap
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import psutil

from advisor.core.errors import first_line
from advisor.isolation.agent import AgentError, one_line

if TYPE_CHECKING:
    from playwright.sync_api import Page

TYPES = {".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm"}
FLAGS = (
    "--no-sandbox",  # it needs user namespaces, which containers lack; the page is this package's own
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
HERE = Path(__file__).parent


@dataclass(frozen=True)
class BrowserPage:
    """The page.

    Attributes:
        page: Playwright's object.
        version: version of the browser.
    """

    page: Page
    version: str

    def call(self, name: str, **options: Any) -> Any:
        """Return the result of a function of ``worker.js``.

        Raises:
            AgentError: it failed, for example because the runtime lacks an operator, which the message names; or the
                browser has ended.
        """
        from playwright.sync_api import Error

        try:
            found = self.page.evaluate("([name, options]) => window.call(name, options)", [name, options])
        except Error as error:
            reason = first_line(error.message).removeprefix("Page.evaluate: ")
            raise AgentError("browser", f"the browser ended, or ran out of memory ({reason})") from error
        if "error" in found:
            raise AgentError("load" if name == "load" else "run", one_line(ValueError(found["error"])))
        return found["value"]

    def waited_ns(self) -> int | None:
        """Return how long the threads of the page have waited for a processor so far; None if unknown."""
        if self._renderer is None:
            return None
        try:
            rows = [file.read_text() for file in Path(f"/proc/{self._renderer.pid}/task").glob("*/schedstat")]
            return sum(int(row.split()[1]) for row in rows) if rows else None
        except (OSError, IndexError, ValueError):
            return None

    def cpu_seconds(self) -> float:
        """Return the processor time of this process and all processes of the browser so far."""
        me = psutil.Process()
        spent = 0.0
        for each in (me, *me.children(recursive=True)):
            with suppress(psutil.Error):  # the browser ends processes whenever it likes
                spent += sum(each.cpu_times()[:2])
        return spent

    @cached_property
    def _renderer(self) -> psutil.Process | None:
        """The process of the page: of all renderers the largest, once a runtime was started."""
        sizes: dict[psutil.Process, int] = {}
        for each in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it has ended: the browser ends processes whenever it likes
                if "--type=renderer" in each.cmdline():
                    sizes[each] = each.memory_full_info().uss
        return max(sizes, key=sizes.__getitem__, default=None)


@contextmanager
def open_page(chromium: str, files: MutableMapping[str, Path], flags: tuple[str, ...] = ()) -> Iterator[BrowserPage]:
    """Start the browser and open the page, which is isolated from other origins so that it can have threads.

    Args:
        chromium: the browser's program.
        files: what the page can fetch: a path such as ``/a.tflite``, and its file.
        flags: further options of the browser.

    Raises:
        AgentError: the browser cannot be started.
    """
    from playwright.sync_api import Error, sync_playwright

    own = {f"/{file.name}": file for file in HERE.iterdir() if file.suffix in TYPES}
    with _served(ChainMap(own, files)) as address, sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=chromium, args=[*FLAGS, *flags])
        except Error as error:
            raise AgentError("browser", f"{chromium} cannot be started: {one_line(error)}") from error
        page = browser.new_page()
        page.goto(f"{address}/page.html")
        yield BrowserPage(page, browser.version)
        browser.close()


@contextmanager
def _served(files: MutableMapping[str, Path]) -> Iterator[str]:
    """Serve files on the loopback interface, with the headers that isolate a page from other origins."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            file = files.get(unquote(self.path))
            if file is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            content = file.read_bytes()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", TYPES.get(file.suffix, "application/octet-stream"))
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cross-Origin-Opener-Policy", "same-origin")
            self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()

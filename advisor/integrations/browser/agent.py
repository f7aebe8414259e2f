"""The program that times files in headless Chromium and prints one JSON document.

``_chromium.py`` starts it; the document is as that of :mod:`advisor.isolation.agent`. Each series
has a worker with a copy of the runtime in WebAssembly, so its memory is that of the runtime and
one file. The functions that :meth:`BrowserPage.call` names are those of ``worker.js``.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import psutil

from advisor.core import first_line
from advisor.isolation import Block, LoadReading, agent

if TYPE_CHECKING:
    from playwright.sync_api import Page

TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
}
FLAGS = (
    # The sandbox needs user namespaces, which containers lack; the page is this package's own.
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
HERE = Path(__file__).parent

WARM_RUNS = 15
"""Runs before the first block that must be as fast as those before them: the browser compiles hot
functions again while they run.
"""

WARM_MS = (300.0, 5000.0)
"""Shortest and longest time of the runs before the first block."""

GPU = ("--enable-unsafe-webgpu",)
"""Option for WebGPU on a browser without a screen."""

SOFTWARE = ("--use-webgpu-adapter=swiftshader",)
"""Option for a renderer on the CPU: the same outputs on every machine, and no speed."""


@dataclass(frozen=True)
class BrowserPage:
    """The page."""

    page: Page  #: Playwright's object
    version: str  #: version of the browser

    def call(self, name: str, **options: Any) -> Any:
        """Return the result of a function of ``worker.js``.

        Raises:
            AgentError: it failed, or the browser has ended.
        """
        from playwright.sync_api import Error

        try:
            answer = self.page.evaluate(
                "([name, options]) => window.call(name, options)", [name, options]
            )
        except Error as error:
            reason = first_line(error.message).removeprefix("Page.evaluate: ")
            raise agent.AgentError(
                "browser", f"the browser ended, or ran out of memory ({reason})"
            ) from error
        if "error" in answer:
            kind = "load" if name == "load" else "run"
            raise agent.AgentError(kind, agent.one_line(ValueError(answer["error"])))
        return answer["value"]

    def read_waited_ns(self) -> int | None:
        """Return how long the threads of the page have waited for a processor; None if unknown."""
        if self._renderer is None:
            return None
        waited = None
        try:
            for file in Path(f"/proc/{self._renderer.pid}/task").glob("*/schedstat"):
                waited = (waited or 0) + int(file.read_text().split()[1])
            return waited
        except (OSError, IndexError, ValueError):
            return None

    def cpu_seconds(self) -> float:
        """Return the processor time of this process and all processes of the browser so far."""
        me = psutil.Process()
        spent = 0.0
        for process in (me, *me.children(recursive=True)):
            # The browser ends processes at any time.
            with suppress(psutil.Error):
                spent += sum(process.cpu_times()[:2])
        return spent

    @cached_property
    def _renderer(self) -> psutil.Process | None:
        """The process of the page: of all renderers the largest, once a runtime was started."""
        sizes: dict[psutil.Process, int] = {}
        for process in psutil.Process().children(recursive=True):
            # The process may have ended: the browser ends processes at any time.
            with suppress(psutil.Error):
                if "--type=renderer" in process.cmdline():
                    sizes[process] = process.memory_full_info().uss
        return max(sizes, key=sizes.__getitem__, default=None)


@contextmanager
def open_page(
    chromium: str, files: MutableMapping[str, Path], flags: tuple[str, ...] = ()
) -> Iterator[BrowserPage]:
    """Start the browser and open the page, isolated so that it can have threads.

    The page can fetch each of ``files`` by a path such as ``/a.tflite``.

    Raises:
        AgentError: no browser started.
    """
    from playwright.sync_api import Error, sync_playwright

    page_files = {f"/{file.name}": file for file in HERE.iterdir() if file.suffix in TYPES}
    with _serve_files(ChainMap(page_files, files)) as address, sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=chromium, args=[*FLAGS, *flags])
        except Error as error:
            raise agent.AgentError(
                "browser", f"{chromium} cannot be started: {agent.one_line(error)}"
            ) from error
        page = browser.new_page()
        page.goto(f"{address}/page.html")
        yield BrowserPage(page, browser.version)
        browser.close()


@contextmanager
def _serve_files(files: MutableMapping[str, Path]) -> Iterator[str]:
    """Serve files on the loopback interface, with the headers that isolate a page."""

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


@dataclass(frozen=True)
class PageRuntime:
    """A runtime of a page."""

    runtime: str  #: ``litert-web`` or ``onnxruntime-web``
    accelerator: str  #: ``cpu`` for WebAssembly, ``gpu`` for WebGPU

    @property
    def flags(self) -> tuple[str, ...]:
        """Options of the browser."""
        return GPU if self.accelerator == "gpu" else ()


def measure_files(
    models: list[Path],
    threads: list[int],
    effort: agent.Effort,
    runtime: PageRuntime,
    files: Mapping[str, Path],
    chromium: str,
) -> dict[str, Any]:
    """Load every series, run the blocks interleaved and return the document."""
    served = {f"/model{number}{model.suffix}": model for number, model in enumerate(models)}
    with open_page(chromium, {**files, **served}, runtime.flags) as page:
        series: list[dict[str, Any]] = []
        for address, model in served.items():
            for count in threads:
                runtime_ms = page.call(
                    "start", worker=len(series), threads=count, software=False, **asdict(runtime)
                )
                loaded = page.call("load", worker=len(series), model=address)
                series.append(_make_series(model, count, runtime_ms, loaded))
        for number in range(len(series)):
            page.call(
                "warm", worker=number, runs=WARM_RUNS, least_ms=WARM_MS[0], most_ms=WARM_MS[1]
            )
        began = time.perf_counter()
        busy_s = agent.busy_seconds()
        browser_s = page.cpu_seconds()
        for index in range(effort.blocks):
            order = list(range(len(series)))
            # Back and forth, so that a drift of the machine affects all files equally.
            if index % 2:
                order.reverse()
            for number in order:
                series[number]["blocks"].append(_time_block(page, number, effort))
        load = _read_load(page, began, busy_s, browser_s)
        return {"browser": page.version, "load": load, "series": series}


def read_outputs(
    model: Path,
    inputs: Path,
    threads: int,
    runtime: PageRuntime,
    files: Mapping[str, Path],
    chromium: str,
) -> dict[str, Any]:
    """Run a file on each input and return the values of its first output."""
    served = {f"/model{model.suffix}": model, "/inputs": inputs}
    with open_page(chromium, {**files, **served}, (*runtime.flags, *SOFTWARE)) as page:
        page.call("start", worker=0, threads=threads, software=True, **asdict(runtime))
        page.call("load", worker=0, model=f"/model{model.suffix}")
        return {
            "browser": page.version,
            "outputs": page.call("outputs", worker=0, inputs="/inputs"),
        }


def _make_series(
    model: Path, threads: int, runtime_ms: float, loaded: Mapping[str, float]
) -> dict[str, Any]:
    """Return the entry of a series, whose blocks are timed later."""
    return {
        "model": str(model),
        "threads": threads,
        "runtime_ms": runtime_ms,
        "load_ns": round(loaded["load_ms"] * 1e6),
        "first_ns": round(loaded["first_ms"] * 1e6),
        "heap_bytes": loaded["heap_bytes"],
        "blocks": [],
    }


def _time_block(page: BrowserPage, worker: int, effort: agent.Effort) -> Block:
    """Time one block of runs.

    A clock with steps of 5 us, as browsers have it, is fine for runs of a model.
    """
    time.sleep(effort.pause_seconds)
    share = 1e3 / effort.blocks
    limits = {"least_ms": effort.min_seconds * share, "most_ms": effort.max_seconds * share}
    waited_before = page.read_waited_ns()
    timed = page.call("block", worker=worker, runs=-(-effort.runs // effort.blocks), **limits)
    waited_after = page.read_waited_ns()
    waited_ns = None
    if waited_before is not None and waited_after is not None:
        waited_ns = waited_after - waited_before
    return {
        "wall_ns": [max(1, round(ms * 1e6)) for ms in timed["times"]],
        # A page cannot read its processor time.
        "cpu_ns": None,
        "waited_ns": waited_ns,
        "elapsed_ns": round(timed["elapsed_ms"] * 1e6),
    }


def _read_load(
    page: BrowserPage, began: float, busy_s: float | None, browser_s: float
) -> LoadReading:
    """Return the number of processors that others than the browser have kept busy.

    The arguments are the clock, and the seconds of all processors and of the browser, at the
    begin of the measurement.
    """
    elapsed = time.perf_counter() - began
    busy_now_s = agent.busy_seconds()
    others_cores = None
    if busy_s is not None and busy_now_s is not None:
        others_s = (busy_now_s - busy_s) - (page.cpu_seconds() - browser_s)
        # The two clocks are read one after the other,
        # so a quiet machine can give a number below 0.
        others_cores = max(0.0, others_s / elapsed)
    return {
        "elapsed_ns": round(elapsed * 1e9),
        "others_cores": others_cores,
        "cores": agent.count_cores(),
        "governor": "",
    }


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description="Time files in headless Chromium and print one JSON document."
    )
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--chromium", required=True, help="the browser's program")
    parser.add_argument("--runtime", required=True, help="litert-web or onnxruntime-web")
    parser.add_argument("--accelerator", choices=("cpu", "gpu"), default="cpu", help="gpu: WebGPU")
    parser.add_argument(
        "--folder", required=True, type=Path, help="folder with the files of the runtime"
    )
    parser.add_argument(
        "--threads", type=agent.parse_numbers, default=[1], help="thread counts, such as 1,2"
    )
    parser.add_argument("--effort", choices=sorted(agent.map_efforts()), default="quick")
    parser.add_argument(
        "--inputs",
        type=Path,
        help="values of inputs: return the outputs of the first model instead",
    )
    return parser.parse_args()


def main() -> int:
    """Run the agent and return the exit status: 0, or 3 with an ``error`` in the document."""
    options = parse_arguments()
    files = {f"/{file.name}": file for file in options.folder.iterdir()}
    common = (PageRuntime(options.runtime, options.accelerator), files, options.chromium)

    def make_document() -> dict[str, Any]:
        if options.inputs:
            model = options.models[0]
            return read_outputs(model, options.inputs, options.threads[0], *common)
        effort = agent.map_efforts()[options.effort]
        return measure_files(options.models, options.threads, effort, *common)

    return agent.print_document(make_document)


if __name__ == "__main__":
    sys.exit(main())

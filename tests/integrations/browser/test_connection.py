"""Measuring in a real headless Chromium, with the runtimes of npm packages."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from ai_edge_litert.interpreter import Interpreter
from numpy.typing import NDArray

from advisor.core import StageError, UsageError, install_extra
from advisor.devices import MeasurementJob
from advisor.integrations.browser import LITERT, _chromium as connection
from advisor.integrations.browser._chromium import BrowserConnection, chromium_program, fetch_package
from advisor.integrations.browser.agent import BrowserPage, open_page
from advisor.isolation.agent import AgentError
from advisor.store import FetchOptions
from tests.builders import must_fail, write_file
from tests.makers.browsers import chromium, require_runtime
from tests.measurement import small_models
from tests.processes import until

SIDE = 32


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_file(tmp_path_factory.mktemp("models") / "classifier.tflite", small_models.classifier())


@pytest.fixture(scope="module")
def chrome(starts_processes: None) -> BrowserConnection:
    chromium()
    require_runtime(LITERT)
    return BrowserConnection()


def litert_outputs(model: Path, inputs: NDArray[np.generic]) -> NDArray[np.generic]:
    interpreter = Interpreter(str(model), num_threads=1)
    interpreter.allocate_tensors()
    (given,), (got,) = interpreter.get_input_details(), interpreter.get_output_details()
    rows = []
    for one in inputs:
        interpreter.set_tensor(given["index"], one[None])
        interpreter.invoke()
        rows.append(interpreter.get_tensor(got["index"])[0])
    return np.array(rows)


def test_it_measures_a_file_at_thread_counts(chrome: BrowserConnection, model: Path) -> None:
    found = chrome.measure(MeasurementJob((model,), (1, 2), "load"))
    assert [(timing.model, timing.threads) for timing in found] == [(model, 1), (model, 2)]
    for timing in found:
        assert timing.runtime.startswith("@litertjs/core==2.5.3 in Chromium ")
        assert min(timing.median_ms, timing.first_ms, timing.load_ms) > 0
        assert timing.memory_bytes is not None
        assert timing.memory_bytes > 10_000_000, "the runtime's WebAssembly memory"
    runtime = fetch_package(LITERT)
    loaded = (runtime / "litert_wasm_internal.wasm", runtime / "litert_wasm_internal.js", model)
    assert found[0].details["page_bytes"] == sum(file.stat().st_size for file in loaded)


@dataclass
class Opened:
    """One page for many files: its browser takes seconds to start."""

    page: BrowserPage
    files: dict[str, Path]
    workers: int = 0

    def load(self, file: Path, threads: int = 1) -> int:
        """Load a file into a new copy of the runtime and return its number."""
        self.files[f"/model{self.workers}"] = file
        self.page.call("start", worker=self.workers, runtime="litert-web", threads=threads)
        self.workers += 1
        self.page.call("load", worker=self.workers - 1, model=f"/model{self.workers - 1}")
        return self.workers - 1

    def outputs(self, file: Path, inputs: NDArray[np.generic], threads: int = 1) -> NDArray[np.generic]:
        """Return the outputs for inputs that are written beside the file."""
        worker, values = self.load(file, threads), file.with_suffix(".inputs")
        values.write_bytes(inputs.tobytes())
        self.files["/inputs"] = values
        return np.array(self.page.call("outputs", worker=worker, inputs="/inputs"))


@pytest.fixture(scope="module")
def opened(chrome: BrowserConnection) -> Iterator[Opened]:
    files = {f"/{file.name}": file for file in fetch_package(LITERT).iterdir()}
    with open_page(chromium(), files) as page:
        yield Opened(page, files)


@pytest.fixture
def ended_renderer() -> Iterator[int]:
    """A process that calls itself a renderer and has ended, but is still in the system's table of processes."""
    process = subprocess.Popen([sys.executable, "-c", "", "--type=renderer"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    yield process.pid
    process.wait()


def test_a_process_of_the_browser_that_has_ended_is_left_out(opened: Opened, ended_renderer: int) -> None:
    page = BrowserPage(opened.page.page, opened.page.version)
    assert psutil.Process(ended_renderer).status() == psutil.STATUS_ZOMBIE
    assert page.cpu_seconds() > 0
    assert page.read_waited_ns() is not None


def test_float_outputs_of_two_threads_are_those_of_litert(opened: Opened, model: Path) -> None:
    inputs = np.random.default_rng(0).uniform(-1, 1, (8, SIDE, SIDE, 3)).astype(np.float32)
    assert np.allclose(opened.outputs(model, inputs, threads=2), litert_outputs(model, inputs), atol=1e-5)


def test_integer_inputs_give_the_outputs_of_litert(opened: Opened, model: Path, tmp_path: Path) -> None:
    quantized = write_file(tmp_path / "int8.tflite", small_models.quantized(model.read_bytes(), tmp_path, SIDE))
    inputs = np.random.default_rng(0).integers(-128, 128, (8, SIDE, SIDE, 3)).astype(np.int8)
    assert np.abs(opened.outputs(quantized, inputs) - litert_outputs(quantized, inputs)).max() <= 1


def test_webgpu_by_software_gives_the_outputs_of_litert(chrome: BrowserConnection, model: Path) -> None:
    inputs = np.random.default_rng(0).uniform(-1, 1, (4, SIDE, SIDE, 3)).astype(np.float32)
    found = replace(chrome, accelerator="gpu").outputs(model, inputs)
    assert np.allclose(found, litert_outputs(model, inputs), atol=1e-4)


def test_a_file_that_webgpu_runs_in_part_is_refused(chrome: BrowserConnection, tmp_path: Path) -> None:
    file = small_models.saved(tmp_path, small_models.brightness(SIDE))  # its mean runs in WebAssembly
    inputs = np.zeros((1, SIDE, SIDE, 3), np.float32)
    must_fail(StageError, "does not run all operators", replace(chrome, accelerator="gpu").outputs, file, inputs)


def test_a_file_that_cannot_run_says_why(opened: Opened, tmp_path: Path) -> None:
    file = tmp_path / "wrong.tflite"
    operator, crashing = small_models.unknown_operator(), small_models.crashing()
    wrong = {operator: "unresolved custom op: Nobody", b"none": "Failed to load model", crashing: "the runtime crashed"}
    for content, message in wrong.items():
        file.write_bytes(content)
        must_fail(AgentError, message, opened.load, file)


def test_a_missing_package_that_drives_the_browser_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PROGRAMS", ("sh",))
    monkeypatch.setattr(connection, "find_spec", lambda _: None)
    raised = must_fail(UsageError, "'playwright' is not installed", chromium_program)
    assert raised.hint == install_extra("web")


def test_a_browser_that_does_not_start(chrome: BrowserConnection, monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    monkeypatch.setattr(connection, "PROGRAMS", ("true",))
    must_fail(StageError, "cannot be started", chrome.measure, MeasurementJob((model,), (1,), "load"))


def test_a_page_that_ends_while_it_runs_a_file_says_so(opened: Opened) -> None:
    from playwright.sync_api import Error

    browser = opened.page.page.context.browser
    page = browser.new_page()
    with suppress(Error):
        page.goto("chrome://crash")
    with pytest.raises(AgentError, match=r"the browser ended, or ran out of memory \(.*crashed"):
        BrowserPage(page, "").call("start", worker=0, runtime="litert-web", threads=1)


def test_a_browser_that_hangs_is_ended_with_all_its_processes(
    chrome: BrowserConnection, monkeypatch: pytest.MonkeyPatch, model: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own-chromium"
    own.write_text(f'#!/bin/sh\nexec {chromium()} --user-agent={own} "$@"\n')
    own.chmod(0o755)
    monkeypatch.setattr(connection, "PROGRAMS", (str(own),))
    monkeypatch.setattr(connection, "STARTS_IN_S", 0.0)
    with pytest.raises(StageError, match="Chrome gave no result within 2 s and was ended"):
        chrome.measure(MeasurementJob((model,), (1,), "full", 2.0))

    def running() -> list[list[str]]:
        commands = [each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"])]
        return [words for words in commands if f"--user-agent={own}" in words]

    until(lambda: not running())  # the system ends what was killed a moment later


def test_a_runtime_that_cannot_be_fetched_names_its_package(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"the npm package @litertjs/core 2\.5\.3 cannot be fetched: .*offline"
    ) as raised:
        fetch_package(LITERT, FetchOptions(offline=True, cache=tmp_path))
    assert "npm pack @litertjs/core@2.5.3" in raised.value.hint

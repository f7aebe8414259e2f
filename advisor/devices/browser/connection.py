"""Measure in headless Chromium on this machine, with a runtime in WebAssembly."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.core.errors import StageError, UsageError, install_extra
from advisor.devices.browser.packages import PACKAGES, fetched
from advisor.devices.connections.host import agent_arguments, read_document, timings_of_agent
from advisor.devices.connections.program import run_program
from advisor.devices.connections.protocol import Job, Timing
from advisor.isolation import Scratch

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Names of the browser's program, in the order in which they are looked for."""

STARTS_IN_S = 60.0


@dataclass(frozen=True)
class BrowserConnection:
    """Measures in the browser of this machine.

    Attributes:
        runtime: ``litert`` for ``.tflite`` files, ``onnxruntime`` for ``.onnx`` files.
    """

    runtime: str = "litert"

    @property
    def label(self) -> str:
        """``Chrome``, as people call Chromium, too."""
        return "Chrome"

    def measure(self, job: Job) -> tuple[Timing, ...]:
        """See :class:`advisor.devices.connections.protocol.Connection`.

        Each timing's details have ``download_bytes``: what a browser must load, the runtime and the file.
        """
        job.check()
        names = [str(model.resolve()) for model in job.models]
        document = self._document(agent_arguments(job, names), job.timeout_s)
        package = PACKAGES[self.runtime]
        document |= {"runtime": package.package, "runtime_version": package.version}
        timings = timings_of_agent(document, job.models, names)
        browser = f" in Chromium {document.get('browser')}"
        return tuple(self._with_sizes(replace(one, runtime=one.runtime + browser)) for one in timings)

    def outputs(self, model: Path, inputs: NDArray[Any], threads: int = 1) -> NDArray[Any]:
        """Return the first output of a file, flat, for each of its inputs (N, ...), which have the type of the file's.

        Raises:
            UsageError: the browser or its runtime is missing.
            StageError: the browser cannot run the file.
        """
        with Scratch() as folder:
            values = folder / "inputs"
            values.write_bytes(np.ascontiguousarray(inputs).tobytes())
            arguments = [str(model.resolve()), "--threads", str(threads), "--inputs", str(values)]
            document = self._document(arguments, STARTS_IN_S + 2.0 * len(inputs))
        error = document.get("error")
        if error:
            raise StageError(f"the browser cannot run {model.name} ({error['kind']}): {error['message']}")
        return np.array(document["outputs"])

    def _document(self, arguments: Sequence[str], timeout_s: float) -> dict[str, Any]:
        folder, chromium = fetched(PACKAGES[self.runtime]), chromium_program()
        agent = [sys.executable, "-m", "advisor.devices.browser.agent", *arguments]
        own = ["--chromium", chromium, "--runtime", self.runtime, "--folder", str(folder)]
        return read_document(run_program([*agent, *own], timeout_s=STARTS_IN_S + timeout_s))

    def _with_sizes(self, timing: Timing) -> Timing:
        """Add the memory of the runtime with the file, and what a page downloads to run it."""
        folder = fetched(PACKAGES[self.runtime])
        loaded = [timing.model, *(folder / name for name in runtime_files(self.runtime, timing.threads))]
        details = {**timing.details, "download_bytes": sum(file.stat().st_size for file in loaded)}
        return replace(timing, memory_bytes=timing.details["heap_bytes"], details=details)


def runtime_files(runtime: str, threads: int) -> tuple[str, ...]:
    """Return the names of the files that a page loads to run a model."""
    if runtime == "litert":
        stem = f"litert_wasm_{'threaded_' if threads > 1 else ''}internal"
        return f"{stem}.wasm", f"{stem}.js"
    return tuple(member.name for member in PACKAGES[runtime].members)


def chromium_program() -> str:
    """Return the path of the browser's program.

    Raises:
        UsageError: there is none, or Playwright, which drives it, is not installed.
    """
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        raise UsageError(
            f"no browser is installed: none of {', '.join(PROGRAMS)} is on the PATH",
            "install Chromium, for example with `apt-get install chromium`",
        )
    if find_spec("playwright") is None:
        raise UsageError(
            "the Python package 'playwright' is not installed, which drives the browser",
            install_extra("web"),
        )
    return found

